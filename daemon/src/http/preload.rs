//! Links in `index.html` to the modules that the page needs at once. `build.rs` embeds it so: without
//! the links a browser learns of a module from the one that imports it, one level of imports after
//! another.

use url::Url;

pub const INDEX: &str = "index.html";

/// The page's entry point.
pub const ENTRY: &str = "app.js";

/// `index`, the page's HTML, with a link to each module that [`ENTRY`] imports, directly or through
/// others; `read` returns a module's text by its name in the page.
pub fn with_preloads(index: &str, read: impl Fn(&str) -> String) -> String {
    let links = modules(ENTRY, read).iter().fold(String::new(), |links, name| {
        links + &format!("<link rel=\"modulepreload\" href=\"{name}\">\n")
    });
    index.replacen("</head>", &format!("{links}</head>"), 1)
}

/// `entry` and the modules that it imports, directly or through others, those near it first.
pub fn modules(entry: &str, read: impl Fn(&str) -> String) -> Vec<String> {
    let mut found = vec![entry.to_owned()];
    let mut at = 0;
    while let Some(name) = found.get(at) {
        for imported in imports(name, &read(name)) {
            if !found.contains(&imported) {
                found.push(imported);
            }
        }
        at += 1;
    }
    found
}

/// The modules that the module `name` imports when it is loaded; `import()` comes later.
fn imports(name: &str, script: &str) -> Vec<String> {
    let base = Url::parse(&format!("file:///{name}")).expect("a name in the page is a path");
    let from = script.split("from").skip(1);
    let only_run = script.split("\nimport").skip(1);
    let targets = from.chain(only_run).filter_map(|rest| {
        let (target, _) = rest.trim_start_matches(' ').strip_prefix('"')?.split_once('"')?;
        target.ends_with(".js").then_some(target)
    });
    let file = |target: &str| {
        let url = base.join(target).expect("an import is a path");
        url.path().trim_start_matches('/').to_owned()
    };
    targets.map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_module_is_linked_once_and_those_near_the_entry_first() {
        let read = |name: &str| {
            let script = match name {
                "app.js" => "import { a } from \"/lib.js\";\nimport \"./chat/b.js\";\n",
                "lib.js" => {
                    "export { c } from \"./lib/c.js\";\nconst d = () => import(\"./d.js\");"
                }
                "chat/b.js" => "import{c}from\"../lib/c.js\";\n",
                _ => "",
            };
            script.to_owned()
        };
        assert_eq!(modules("app.js", read), ["app.js", "lib.js", "chat/b.js", "lib/c.js"]);
        let index = with_preloads("<head>\n</head>\n<body>", read);
        assert!(index.starts_with("<head>\n<link rel=\"modulepreload\" href=\"app.js\">\n"));
        assert!(index.ends_with("href=\"lib/c.js\">\n</head>\n<body>"), "{index}");
    }
}
