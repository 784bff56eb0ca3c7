//! The module of the page's entry point, with the modules that it imports, directly or through others.
//!
//! - Each becomes a function that runs once, in the order of imports, and a constant that holds what
//!   the module exports: `lib/dom.js` is `$lib$dom`. A name that is imported becomes a constant, too,
//!   so a module must not change what it exports, nor wait (`await`) where it is loaded.
//! - The modules that come later (`import()`) stay files. What they import of the bundle they take
//!   from the entry point, so that each module runs once.

use std::collections::BTreeSet;

use oxc_allocator::Allocator;
use oxc_ast::ast::{
    ExportAllDeclaration, ExportDefaultDeclaration, ExportNamedDeclaration, ImportDeclaration,
    ImportDeclarationSpecifier, Program, Statement,
};
use oxc_parser::Parser;
use oxc_span::{GetSpan, SourceType, Span};
use url::Url;

use crate::Files;
use crate::exports::{Exports, declared, property};

/// `files` with the modules that `entry` imports in `entry`'s file in place of their own.
pub fn with_bundle(mut files: Files, entry: &str) -> Files {
    let bundled = in_order(entry, &files);
    let names: BTreeSet<_> = bundled.iter().cloned().collect();
    let functions: String =
        bundled.iter().map(|name| Module::new(name, &files[name], &names).as_function()).collect();
    let constants: Vec<_> = bundled.iter().map(|name| constant(name)).collect();
    let bundle = format!("{functions}export {{ {} }};\n", constants.join(", "));

    parsed(entry, &bundle, |_, _| ()); // An `await` is an error now.

    let is_later = |name: &str| name.ends_with(".js") && !names.contains(name);
    for (name, script) in files.iter_mut().filter(|(name, _)| is_later(name)) {
        *script = Module::new(name, script, &names).as_file(entry);
    }
    files.retain(|name, _| !names.contains(name));
    files.insert(entry.to_owned(), bundle);
    files
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

/// The constant that holds the exports of the module `name`.
fn constant(name: &str) -> String {
    let path = name.strip_suffix(".js").unwrap_or(name);
    format!("${}", path.replace('/', "$").replace('-', "_"))
}

/// A module, and what of its text changes.
struct Module<'a> {
    name: &'a str,
    script: &'a str,
    bundled: &'a BTreeSet<String>,
    is_bundled: bool,
    /// Places in the script and their new text, in the order of the script.
    changes: Vec<(Span, String)>,
    exports: Exports,
    /// The constants of the bundle that it uses.
    constants: BTreeSet<String>,
}

impl<'a> Module<'a> {
    fn new(name: &'a str, script: &'a str, bundled: &'a BTreeSet<String>) -> Self {
        let is_bundled = bundled.contains(name);
        let (changes, exports, constants) = Default::default();
        let mut module = Self { name, script, bundled, is_bundled, changes, exports, constants };
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

    /// The module within the bundle.
    fn as_function(&self) -> String {
        let (constant, body, exports) = (constant(self.name), self.changed(), &self.exports);
        format!("const {constant} = (() => {{\n{body}return {exports};\n}})();\n")
    }

    /// The module as a file beside the bundle, which is the file `entry`.
    fn as_file(&self, entry: &str) -> String {
        if self.constants.is_empty() {
            return self.changed();
        }
        let constants: Vec<_> = self.constants.iter().map(String::as_str).collect();
        format!("import {{ {} }} from \"/{entry}\";\n{}", constants.join(", "), self.changed())
    }

    fn changed(&self) -> String {
        let mut changed = String::with_capacity(self.script.len());
        let mut at = 0;
        for (span, text) in &self.changes {
            changed += &self.script[at..span.start as usize];
            changed += text;
            at = span.end as usize;
        }
        changed + &self.script[at..]
    }

    /// The constant of the module that `specifier` means, where it is of the bundle.
    fn of_bundle(&mut self, specifier: &str) -> Option<String> {
        let file = file_of(specifier, self.name);
        let constant = self.bundled.contains(&file).then(|| constant(&file))?;
        self.constants.insert(constant.clone());
        Some(constant)
    }

    fn import(&mut self, import: &ImportDeclaration) {
        let Some(module) = self.of_bundle(&import.source.value) else { return };
        let mut names = Vec::new();
        let mut whole = String::new();
        for specifier in import.specifiers.iter().flatten() {
            match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(one) => {
                    names.push(property(&one.imported.name(), &one.local.name));
                }
                ImportDeclarationSpecifier::ImportDefaultSpecifier(one) => {
                    names.push(property("default", &one.local.name));
                }
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(all) => {
                    whole = format!("const {} = {module};", all.local.name);
                }
            }
        }
        if !names.is_empty() {
            whole += &format!("const {{ {} }} = {module};", names.join(", "));
        }
        self.changes.push((import.span, whole));
    }

    fn export(&mut self, export: &ExportNamedDeclaration) {
        let source = export.source.as_ref().map(|source| source.value.as_str());
        let module = source.and_then(|source| self.of_bundle(source));
        if !self.is_bundled {
            assert!(module.is_none(), "{}: exports what the bundle exports", self.name);
            return;
        }
        if let Some(declaration) = &export.declaration {
            let keyword = Span::new(export.span.start, declaration.span().start);
            self.changes.push((keyword, String::new()));
            for name in declared(declaration) {
                self.exports.add(&name, &name);
            }
            return;
        }
        for one in &export.specifiers {
            let local = one.local.name();
            let value = module.as_ref().map(|module| format!("{module}.{local}"));
            self.exports.add(&one.exported.name(), &value.unwrap_or_else(|| local.to_string()));
        }
        self.changes.push((export.span, String::new()));
    }

    fn export_all(&mut self, export: &ExportAllDeclaration) {
        let module = self.of_bundle(&export.source.value);
        let Some(module) = module.filter(|_| self.is_bundled && export.exported.is_none()) else {
            panic!("{}: `export *` of what the bundle does not hold", self.name);
        };
        self.exports.add_all(&module);
        self.changes.push((export.span, String::new()));
    }

    fn export_default(&mut self, export: &ExportDefaultDeclaration) {
        if self.is_bundled {
            let keywords = Span::new(export.span.start, export.declaration.span().start);
            self.changes.push((keywords, "const $default = ".to_owned()));
            self.exports.add("default", "$default");
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
        let bundle = "const $lib = (() => {\nwindow.a = 1;\nreturn {  };\n})();\n\
                      const $chat$b_b = (() => {\n\n\
                      const b = () => import(\"/chat/d.js\");\nreturn { b };\n})();\n\
                      const $app = (() => {\nconst { b: c } = $chat$b_b;\nc();\n\
                      return {  };\n})();\nexport { $lib, $chat$b_b, $app };\n";
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
        let later = "import { $a } from \"/app.js\";\nconst { b } = $a;\n\
                     import { e } from \"./e.js\";\n";
        assert_eq!(page["d.js"], later);
        assert_eq!(page["e.js"], "export const e = 1;\n");
        assert!(page["app.js"].contains("return { ...$a, default: $default };"));
        assert!(page["app.js"].contains("const a = 1;return { b: a };"));
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
