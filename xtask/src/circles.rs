//! Checks that the modules of a crate do not import each other in circles.
//!
//! - A module is a file. An import is a `use crate::…` or `use super::…`, or such a path in code.
//! - A module and the modules below it count as one room: an import between them closes no circle.
//! - Tests are not read: they may import what they like.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module's path below its crate: `["tiers", "fetch"]`; empty for `lib.rs` and `main.rs`.
type Module = Vec<String>;
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// Reads the sources below `sources` and lists each circle, shortest first: `a -> b -> a`.
pub fn find(sources: &Path) -> Vec<String> {
    let mut texts = BTreeMap::new();
    read(sources, &mut Vec::new(), &mut texts);
    let imports = texts.iter().map(|(module, text)| {
        let mut imported = imported(module, text, &texts);
        imported.retain(|other| !other.starts_with(module) && !module.starts_with(other));
        (module.clone(), imported)
    });
    circles(&imports.collect())
}

fn read(directory: &Path, module: &mut Module, texts: &mut BTreeMap<Module, String>) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if stem == "tests" {
            continue;
        }
        if path.join("Cargo.toml").exists() {
            continue; // Another package.
        }
        if path.is_dir() {
            module.push(stem);
            read(&path, module, texts);
            module.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_root = ["mod", "lib", "main"].contains(&stem.as_str());
            let name = module.iter().cloned().chain((!is_root).then_some(stem)).collect();
            texts.insert(name, without_tests(&fs::read_to_string(&path).unwrap_or_default()));
        }
    }
}

/// The code of a file: no comments, and nothing from the first inline test module on.
fn without_tests(text: &str) -> String {
    let is_gate = |line: &str| line.starts_with("#[cfg(") && line.contains("test");
    let mut lines = text.lines().peekable();
    let mut code = String::new();
    while let Some(line) = lines.next() {
        if is_gate(line)
            && lines.peek().is_some_and(|next| next.starts_with("mod") && next.ends_with('{'))
        {
            break;
        }
        code += line.split("//").next().unwrap_or_default();
        code.push('\n');
    }
    code
}

/// The modules among `texts` that `module` names in its `text`.
fn imported(module: &Module, text: &str, texts: &BTreeMap<Module, String>) -> BTreeSet<Module> {
    let mut found = BTreeSet::new();
    let starts = ["crate::", "super::"].iter().flat_map(|start| text.match_indices(start));
    for (at, _) in starts {
        // Only the beginning of a path: not the `super::` of `super::super::`.
        if text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        for path in paths(&text[at..]) {
            let supers = path.iter().take_while(|part| *part == "super").count();
            let base = if supers == 0 { 0 } else { module.len().saturating_sub(supers) };
            let rest = path.iter().skip(supers.max(1)).cloned();
            let mut named: Module = module[..base].iter().cloned().chain(rest).collect();
            while !named.is_empty() && !texts.contains_key(&named) {
                named.pop(); // What the module holds: a type, a function, `self`.
            }
            found.insert(named);
        }
    }
    found
}

/// Every path of the tree that `text` begins with: `a::{b, c::{d, e}}` is three.
fn paths(text: &str) -> Vec<Module> {
    let mut found = Vec::new();
    let mut prefixes: Vec<usize> = Vec::new();
    let mut path: Module = Vec::new();
    let mut word = String::new();
    let mut is_alias = false; // Behind `as`.
    for c in text.chars() {
        match c {
            ':' => path.extend((!word.is_empty()).then(|| std::mem::take(&mut word))),
            '{' => prefixes.push(path.len()),
            ',' | '}' if !prefixes.is_empty() => {
                if !word.is_empty() {
                    path.push(std::mem::take(&mut word));
                    found.push(path.clone());
                }
                is_alias = false;
                path.truncate(*prefixes.last().expect("it was just looked at"));
                if c == '}' {
                    prefixes.pop();
                    if prefixes.is_empty() {
                        return found;
                    }
                }
            }
            c if c.is_alphanumeric() || c == '_' => word.extend((!is_alias).then_some(c)),
            _ if prefixes.is_empty() => break,
            _ => is_alias = !word.is_empty(),
        }
    }
    path.extend((!word.is_empty()).then_some(word));
    found.push(path);
    found
}

/// The shortest circle through each module, each circle once.
fn circles(imports: &Imports) -> Vec<String> {
    let mut found: BTreeMap<BTreeSet<&Module>, Vec<&Module>> = BTreeMap::new();
    for start in imports.keys() {
        if let Some(circle) = shortest(imports, start) {
            found.entry(circle.iter().copied().collect()).or_insert(circle);
        }
    }
    let mut circles: Vec<_> = found.into_values().collect();
    circles.sort_by_key(Vec::len);
    let name = |module: &&Module| module.join("::");
    circles.iter().map(|circle| circle.iter().map(name).collect::<Vec<_>>().join(" -> ")).collect()
}

/// The shortest way from `start` back to itself, both ends included.
fn shortest<'i>(imports: &'i Imports, start: &'i Module) -> Option<Vec<&'i Module>> {
    let mut came_from: BTreeMap<&Module, &Module> = BTreeMap::new();
    let mut layer = vec![start];
    while !layer.is_empty() {
        let mut next = Vec::new();
        for at in layer {
            for to in imports.get(at).into_iter().flatten() {
                if came_from.contains_key(to) {
                    continue;
                }
                came_from.insert(to, at);
                if to == start {
                    let mut way = vec![start];
                    let mut at = at;
                    while at != start {
                        way.push(at);
                        at = came_from[at];
                    }
                    way.push(start);
                    way.reverse();
                    return Some(way);
                }
                next.push(to);
            }
        }
        layer = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_of_three_is_named_in_its_order() {
        let circles = find_in(&[
            ("a.rs", "use crate::b::B;"),
            ("b/mod.rs", "use super::c::{self, C};"),
            ("c.rs", "fn f() { crate::a::g(); }"),
        ]);
        assert_eq!(circles, ["a -> b -> c -> a"]);
    }

    #[test]
    fn a_module_and_its_children_are_one_room() {
        let circles = find_in(&[
            ("a/mod.rs", "mod b; pub use crate::a::b::B;"),
            ("a/b.rs", "use super::A; use crate::a::{self, C};"),
        ]);
        assert_eq!(circles, [""; 0]);
    }

    #[test]
    fn tests_and_comments_close_no_circle() {
        let circles = find_in(&[
            ("a.rs", "use crate::b::B;\n#[cfg(all(test, feature = \"x\"))]\nmod real {\n}\n"),
            (
                "b.rs",
                "//! Used by crate::a::A.\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
            ),
        ]);
        assert_eq!(circles, [""; 0]);
    }

    #[test]
    fn a_tree_of_imports_is_every_path_of_it() {
        let paths = paths("crate::{a::{self, B}, c as d,\n    e::F};\nuse crate::g;");
        let joined: Vec<_> = paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(joined, ["crate::a::self", "crate::a::B", "crate::c", "crate::e::F"]);
    }

    fn find_in(files: &[(&str, &str)]) -> Vec<String> {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("test").replace("::", "-");
        let root = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.with_file_name("")).expect("writable");
            fs::write(path, text).expect("writable");
        }
        let circles = find(&root);
        fs::remove_dir_all(&root).expect("it was just made");
        circles
    }
}
