//! The module of the page's entry point, with the modules that it imports, directly or through others.
//!
//! - Each becomes a function that runs once, in the order of imports. What it exports becomes constants
//!   of the bundle, which the modules behind it use under the same names. So no two modules export the
//!   same name, none exports a name of the browser that another one uses, none imports a name that none
//!   exports, a module must not change what it exports, nor wait (`await`) where it is loaded.
//! - A module gives the bundle only what another one imports.
//! - The modules that come later (`import()`) stay files. What they import of the bundle they import
//!   from the entry point, so that each module runs once.

use std::collections::{BTreeMap, BTreeSet};

use oxc_allocator::Allocator;
use oxc_ast::ast::{
    ExportAllDeclaration, ExportDefaultDeclaration, ExportNamedDeclaration, ImportDeclaration,
    ImportDeclarationSpecifier, Program, Statement,
};
use oxc_parser::Parser;
use oxc_span::{GetSpan, SourceType, Span};
use url::Url;

use crate::Files;
use crate::exports::{declared, property};

/// `files` with the modules that `entry` imports in `entry`'s file in place of their own.
pub fn with_bundle(mut files: Files, entry: &str) -> Files {
    let scripts = bundled_scripts(&files, entry);
    files.retain(|name, _| !is_script(name));
    files.extend(scripts);
    files
}

fn is_script(name: &str) -> bool {
    name.ends_with(".js")
}

/// The bundle under the name of `entry`, and the modules that come later.
fn bundled_scripts(files: &Files, entry: &str) -> Files {
    let order = in_order(entry, files);
    let names: BTreeSet<_> = order.iter().cloned().collect();
    let inside: Vec<_> =
        order.iter().map(|name| Module::new(name, &files[name], &names, entry)).collect();
    let later: Vec<_> = files
        .iter()
        .filter(|(name, _)| is_script(name) && !names.contains(*name))
        .map(|(name, script)| Module::new(name, script, &names, entry))
        .collect();

    let taken_later = taken_by(&later);
    let taken: BTreeSet<_> = taken_by(&inside).union(&taken_later).cloned().collect();
    assert_exported_once(&inside);
    assert_all_exported(&inside, inside.iter().chain(&later));
    let functions: String = inside.iter().map(|module| module.as_function(&taken)).collect();
    let exported: Vec<_> = taken_later.into_iter().collect();
    let bundle = format!("{functions}export {{ {} }};\n", exported.join(", "));

    parsed(entry, &bundle, |_, _| ()); // An `await` is an error now.

    let mut scripts: Files =
        later.iter().map(|module| (module.name.to_owned(), module.changed())).collect();
    scripts.insert(entry.to_owned(), bundle);
    scripts
}

/// The constants of the bundle that `modules` use.
fn taken_by(modules: &[Module]) -> BTreeSet<String> {
    modules.iter().flat_map(|module| module.taken.iter().cloned()).collect()
}

fn assert_exported_once(modules: &[Module]) {
    let mut exporters = BTreeMap::new();
    for module in modules {
        for (name, _) in &module.exports {
            let other = exporters.insert(name, module.name);
            assert!(other.is_none(), "{name} is exported by {other:?} and {}", module.name);
        }
    }
}

/// Without the constant, a module that takes it fails when it reads it, and one that comes later when it is loaded.
fn assert_all_exported<'a>(inside: &[Module], takers: impl Iterator<Item = &'a Module<'a>>) {
    let exports: BTreeSet<_> =
        inside.iter().flat_map(|module| module.exports.iter().map(|(name, _)| name)).collect();
    for taker in takers {
        for name in &taker.taken {
            let by = taker.name;
            assert!(exports.contains(name), "{by}: no module of the bundle exports {name}");
        }
    }
}

/// `entry` and the modules that it imports, directly or through others, each after those that it
/// imports.
pub fn in_order(entry: &str, files: &Files) -> Vec<String> {
    let mut found = Vec::new();
    visit(entry, files, &mut Vec::new(), &mut found);
    found
}

fn visit(name: &str, files: &Files, above: &mut Vec<String>, found: &mut Vec<String>) {
    assert!(!above.iter().any(|other| other == name), "{name} imports itself: {above:?}");
    if found.iter().any(|other| other == name) {
        return;
    }
    above.push(name.to_owned());
    let script = files.get(name).unwrap_or_else(|| panic!("{name}, which is imported, is missing"));
    for imported in parsed(name, script, |program, _| imports(name, program)) {
        visit(&imported, files, above, found);
    }
    found.extend(above.pop());
}

/// The modules that the module `name` imports when it is loaded.
fn imports(name: &str, program: &Program) -> Vec<String> {
    let source = |statement: &Statement| {
        let source = match statement {
            Statement::ImportDeclaration(import) => Some(&import.source),
            Statement::ExportNamedDeclaration(export) => export.source.as_ref(),
            Statement::ExportAllDeclaration(export) => Some(&export.source),
            _ => None,
        };
        source.map(|source| file_of(&source.value, name))
    };
    program.body.iter().filter_map(source).collect()
}

/// Calls `read` with the syntax tree of the module `name` and with the specifiers, in quotes, of its
/// `import()`s.
fn parsed<T>(name: &str, script: &str, read: impl FnOnce(&Program, Vec<Span>) -> T) -> T {
    let allocator = Allocator::default();
    let module = Parser::new(&allocator, script, SourceType::mjs()).parse();
    assert!(module.errors.is_empty(), "{name}: {:?}", module.errors);
    let later = module.module_record.dynamic_imports.iter();
    read(&module.program, later.map(|import| import.module_request).collect())
}

/// The file that `specifier` means in the module `name`.
fn file_of(specifier: &str, name: &str) -> String {
    let base = Url::parse(&format!("file:///{name}")).expect("a name in the page is a path");
    let url = base.join(specifier).unwrap_or_else(|error| panic!("{name}: {specifier}: {error}"));
    url.path().trim_start_matches('/').to_owned()
}

/// The constant that holds what the module `name` exports as default.
fn default_constant(name: &str) -> String {
    let path = name.strip_suffix(".js").unwrap_or(name);
    format!("${}", path.replace('/', "$").replace('-', "_"))
}

/// A module, and what of its text changes.
struct Module<'a> {
    name: &'a str,
    script: &'a str,
    bundled: &'a BTreeSet<String>,
    entry: &'a str,
    is_bundled: bool,
    /// Places in the script and their new text, in the order of the script.
    changes: Vec<(Span, String)>,
    /// The constants that it adds to the bundle, each with its name in the module.
    exports: Vec<(String, String)>,
    /// The constants of the bundle that it uses.
    taken: BTreeSet<String>,
}

impl<'a> Module<'a> {
    fn new(name: &'a str, script: &'a str, bundled: &'a BTreeSet<String>, entry: &'a str) -> Self {
        let is_bundled = bundled.contains(name);
        let (changes, exports, taken) = Default::default();
        let mut module = Self { name, script, bundled, entry, is_bundled, changes, exports, taken };
        parsed(name, script, |program, later| {
            for statement in &program.body {
                match statement {
                    Statement::ImportDeclaration(import) => module.import(import),
                    Statement::ExportNamedDeclaration(export) => module.export(export),
                    Statement::ExportAllDeclaration(export) => module.export_all(export),
                    Statement::ExportDefaultDeclaration(export) => module.export_default(export),
                    _ => {}
                }
            }
            for specifier in later {
                module.import_later(specifier);
            }
        });
        module.changes.sort_by_key(|(span, _)| span.start);
        module
    }

    /// The module within the bundle, as constants for those of its exports that others have `taken`.
    fn as_function(&self, taken: &BTreeSet<String>) -> String {
        let body = self.changed();
        let exports = self.exports.iter().filter(|(name, _)| taken.contains(name));
        let (names, values): (Vec<_>, Vec<_>) =
            exports.map(|(name, value)| (name.as_str(), property(name, value))).unzip();
        if !names.is_empty() {
            let (names, values) = (names.join(", "), values.join(", "));
            format!("const {{ {names} }} = (() => {{\n{body}return {{ {values} }};\n}})();\n")
        } else if body.trim().is_empty() {
            body // It exports what others have.
        } else {
            format!("(() => {{\n{body}}})();\n")
        }
    }

    /// The script without what only a module of its own has.
    fn changed(&self) -> String {
        let mut changed = String::with_capacity(self.script.len());
        let mut at = 0;
        for (span, text) in &self.changes {
            changed += &self.script[at..span.start as usize];
            changed += text;
            at = span.end as usize;
            // A statement that is gone leaves no empty line.
            if text.is_empty() && self.script[at..].starts_with('\n') {
                at += 1;
            }
        }
        changed + &self.script[at..]
    }

    /// The file that `specifier` means, where it is in the bundle.
    fn of_bundle(&self, specifier: &str) -> Option<String> {
        Some(file_of(specifier, self.name)).filter(|file| self.bundled.contains(file))
    }

    /// Within the bundle a name is there already; one that the module calls otherwise becomes a constant.
    fn import(&mut self, import: &ImportDeclaration) {
        let Some(file) = self.of_bundle(&import.source.value) else { return };
        let mut renamed = String::new();
        for specifier in import.specifiers.iter().flatten() {
            let (name, local) = match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(one) => {
                    (one.imported.name().to_string(), one.local.name.to_string())
                }
                ImportDeclarationSpecifier::ImportDefaultSpecifier(one) if self.is_bundled => {
                    (default_constant(&file), one.local.name.to_string())
                }
                _ => panic!("{}: imports from {file} by other means than names", self.name),
            };
            if name != local {
                renamed += &format!("const {local} = {name};");
            }
            self.taken.insert(name);
        }
        self.changes.push(if self.is_bundled {
            (import.span, renamed)
        } else {
            (import.source.span, format!("\"/{}\"", self.entry))
        });
    }

    fn export(&mut self, export: &ExportNamedDeclaration) {
        let source = export.source.as_ref().map(|source| source.value.as_str());
        let is_of_bundle = source.is_some_and(|source| self.of_bundle(source).is_some());
        if !self.is_bundled {
            assert!(!is_of_bundle, "{}: exports what the bundle exports", self.name);
            return;
        }
        if let Some(declaration) = &export.declaration {
            let keyword = Span::new(export.span.start, declaration.span().start);
            self.changes.push((keyword, String::new()));
            let names = declared(declaration).into_iter();
            self.exports.extend(names.map(|name| (name.clone(), name)));
            return;
        }
        for one in &export.specifiers {
            let (name, local) = (one.exported.name().to_string(), one.local.name().to_string());
            let is_constant = is_of_bundle || self.taken.contains(&local);
            if is_constant {
                self.taken.insert(local.clone());
            }
            if !is_constant || name != local {
                self.exports.push((name, local));
            }
        }
        self.changes.push((export.span, String::new()));
    }

    /// The bundle has the constants already.
    fn export_all(&mut self, export: &ExportAllDeclaration) {
        let is_of_bundle = self.of_bundle(&export.source.value).is_some();
        assert!(
            is_of_bundle && self.is_bundled && export.exported.is_none(),
            "{}: `export *` of what the bundle does not hold",
            self.name
        );
        self.changes.push((export.span, String::new()));
    }

    fn export_default(&mut self, export: &ExportDefaultDeclaration) {
        if self.is_bundled {
            let keywords = Span::new(export.span.start, export.declaration.span().start);
            self.changes.push((keywords, "const $default = ".to_owned()));
            self.exports.push((default_constant(self.name), "$default".to_owned()));
        }
    }

    /// In the bundle a path begins at the entry point, so it becomes an absolute one.
    fn import_later(&mut self, quoted: Span) {
        let written = quoted.source_text(self.script);
        let Some(specifier) = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'))
        else {
            return; // An expression: its value is an absolute path, or `entry` computes it.
        };
        let file = file_of(specifier, self.name);
        assert!(!self.bundled.contains(&file), "{}: {file} is loaded at once", self.name);
        self.changes.push((quoted, format!("\"/{file}\"")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files<const N: usize>(files: [(&str, &str); N]) -> Files {
        files.map(|(name, script)| (name.to_owned(), script.to_owned())).into()
    }

    #[test]
    fn a_module_becomes_a_function_behind_those_that_it_imports() {
        let page = with_bundle(
            files([
                ("app.js", "import { b as c } from \"./chat/b-b.js\";\nc();\n"),
                (
                    "chat/b-b.js",
                    "import \"/lib.js\";\nexport const b = () => import(\"./d.js\");\n",
                ),
                ("lib.js", "window.a = 1;\n"),
                ("chat/d.js", "\n"),
            ]),
            "app.js",
        );
        assert_eq!(page.keys().collect::<Vec<_>>(), ["app.js", "chat/d.js"]);
        let bundle = "(() => {\nwindow.a = 1;\n})();\n\
                      const { b } = (() => {\n\
                      const b = () => import(\"/chat/d.js\");\nreturn { b };\n})();\n\
                      (() => {\nconst c = b;\nc();\n})();\nexport {  };\n";
        assert_eq!(page["app.js"], bundle);
    }

    #[test]
    fn a_module_that_comes_later_takes_from_the_entry_what_the_bundle_has() {
        let page = with_bundle(
            files([
                ("app.js", "export * from \"./a.js\";\nexport default 1;\n"),
                ("a.js", "const a = 1;export{a as b};"),
                ("d.js", "import { b } from \"/a.js\";\nimport { e } from \"./e.js\";\n"),
                ("e.js", "export const e = 1;\n"),
            ]),
            "app.js",
        );
        let later = "import { b } from \"/app.js\";\nimport { e } from \"./e.js\";\n";
        assert_eq!(page["d.js"], later);
        assert_eq!(page["e.js"], "export const e = 1;\n");
        let bundle = "const { b } = (() => {\nconst a = 1;return { b: a };\n})();\n\
                      (() => {\nconst $default = 1;\n})();\nexport { b };\n";
        assert_eq!(page["app.js"], bundle);
    }

    #[test]
    fn what_a_module_exports_again_is_the_same_constant() {
        let page = with_bundle(
            files([
                (
                    "app.js",
                    "import { a, c } from \"./again.js\";\nimport f from \"./f-f.js\";\nf(a, c);\n",
                ),
                ("again.js", "import { a, b } from \"./a.js\";\nexport { a, b as c };\n"),
                ("a.js", "export const a = 1;\nexport const b = 2;\nexport const unused = 3;\n"),
                ("f-f.js", "export default function (a) {}\n"),
            ]),
            "app.js",
        );
        let bundle = "const { a, b } = (() => {\nconst a = 1;\nconst b = 2;\nconst unused = 3;\n\
                      return { a, b };\n})();\n\
                      const { c } = (() => {\nreturn { c: b };\n})();\n\
                      const { $f_f } = (() => {\nconst $default = function (a) {}\n\
                      return { $f_f: $default };\n})();\n\
                      (() => {\nconst f = $f_f;\nf(a, c);\n})();\nexport {  };\n";
        assert_eq!(page["app.js"], bundle);
    }

    #[test]
    #[should_panic(expected = "a is exported by Some(\"a.js\") and b.js")]
    fn two_modules_that_export_one_name_are_refused() {
        with_bundle(
            files([
                ("app.js", "import { a } from \"./a.js\";\nimport \"./b.js\";\na();\n"),
                ("a.js", "export const a = 1;\n"),
                ("b.js", "export const a = 2;\n"),
            ]),
            "app.js",
        );
    }

    #[test]
    #[should_panic(expected = "app.js: no module of the bundle exports b")]
    fn a_name_that_no_module_exports_is_refused() {
        with_bundle(
            files([
                ("app.js", "import { a, b } from \"./a.js\";\na(b);\n"),
                ("a.js", "export const a = 1;\n"),
            ]),
            "app.js",
        );
    }

    #[test]
    #[should_panic(expected = "d.js: no module of the bundle exports b")]
    fn a_name_that_a_later_module_takes_and_none_exports_is_refused() {
        with_bundle(
            files([
                ("app.js", "export const a = 1;\n"),
                ("d.js", "import { b } from \"/app.js\";\n"),
            ]),
            "app.js",
        );
    }

    #[test]
    #[should_panic(expected = "await")]
    fn a_module_that_waits_is_refused() {
        with_bundle(files([("app.js", "const a = await import(\"./a.js\");\n")]), "app.js");
    }

    #[test]
    #[should_panic(expected = "imports itself")]
    fn a_circle_of_imports_is_refused() {
        with_bundle(
            files([("app.js", "import \"./a.js\";\n"), ("a.js", "import \"./app.js\";\n")]),
            "app.js",
        );
    }
}
