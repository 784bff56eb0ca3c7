//! Every route that the daemon's sources declare. A test of `http` compares them with those of the router itself, so
//! that none is forgotten.

use std::fs;
use std::path::Path;

use hob_testkit::files;

pub const METHODS: &[&str] = &["GET", "POST", "PUT", "PATCH", "DELETE"];

pub struct Route {
    /// As axum has it, with `{parameters}`.
    pub path: String,
    /// Those that it serves.
    pub methods: Vec<&'static str>,
}

/// Read from the sources: axum's router does not list the methods of its routes.
pub fn all() -> Vec<Route> {
    let mut routes = Vec::new();
    for path in files::below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http")) {
        // Those that serve while the model loads are some of the others.
        if path.ends_with("texts.rs") {
            continue;
        }
        let source = fs::read_to_string(path).unwrap();
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        for declaration in source.split(".route(").skip(1) {
            let end = declaration.find("\n        .").unwrap_or(declaration.len());
            let declaration = &declaration[..end];
            let literal = declaration.trim_start().strip_prefix('"');
            let path = literal.and_then(|rest| rest.split('"').next());
            let path =
                path.unwrap_or_else(|| panic!("the path of a route is no literal: {declaration}"));
            let serves = |method: &&&str| {
                let call = format!("{}(", method.to_lowercase());
                declaration.match_indices(&call).any(|(at, _)| {
                    !declaration[..at].ends_with(|before: char| before.is_alphanumeric())
                })
            };
            let mut methods: Vec<_> = METHODS.iter().filter(serves).copied().collect();
            if methods.is_empty() {
                methods.extend(METHODS); // All of them, or those of a handler that it names.
            }
            routes.push(Route { path: path.to_owned(), methods });
        }
    }
    routes
}
