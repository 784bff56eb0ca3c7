//! Checks which crate depends on which, that no modules of a crate import each other in a circle, and
//! that only the backend has `unsafe` code.
//!
//! - The table is the design: a new dependency is a line here, and its commit says why.
//! - Dev-dependencies are free.
//! - The workspace denies `unsafe`. This module checks that every crate inherits the workspace's
//!   lints, and that no file outside the backend lifts them. Clippy checks the `SAFETY` comments,
//!   see `test`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::circles;
use crate::command::{Failure, Line};

/// Each crate, and the crates of this workspace that it may depend on.
const ALLOWED: [(&str, &[&str]); 17] = [
    ("hob-slots", &[]),
    ("hob-api", &["hob-slots"]),
    ("hob-config", &[]),
    ("hob-dialect", &[]),
    ("hob-models", &[]),
    ("hob-prewarm", &["hob-slots"]),
    ("hob-simulate", &["hob-slots"]),
    ("hob-runtime", &["hob-slots", "hob-dialect"]),
    (
        "hob-daemon",
        &[
            "hob-prewarm",
            "hob-runtime",
            "hob-slots",
            "hob-api",
            "hob-config",
            "hob-models",
            "hob-dialect",
            "hob-fetch",
            // Only `build.rs` calls it.
            "hob-page",
        ],
    ),
    ("hob-page", &[]),
    ("hob-cli", &["hob-slots", "hob-api", "hob-config", "hob-models", "hob-simulate"]),
    // The only crate that downloads: hobd calls it when a client asks for a model, and hob never does.
    ("hob-fetch", &["hob-config", "hob-models"]),
    ("hob-bench", &["hob-runtime", "hob-slots", "hob-models"]),
    ("hob-desktop", &["hob-config", "hob-daemon"]),
    // Both use hobd and the page from outside.
    ("hob-testkit", &[]),
    ("hob-checks", &["hob-testkit"]),
    ("xtask", &[]),
];

/// Only `hob-runtime` may depend on llama.cpp.
const NATIVE_PREFIX: &str = "llama-cpp";
/// Calls llama.cpp.
const BACKEND: &str = "runtime/src/backend";
/// In two pieces, so that the check does not find this file.
const LINT: &str = concat!("unsafe", "_code");

pub fn check() -> Result<(), Failure> {
    let line = Line::new("cargo metadata --no-deps --format-version 1");
    println!("$ {line}");
    let metadata: Value = serde_json::from_str(&line.output()?).map_err(|e| {
        Failure::new(format!("`{line}` printed something else: {e}"), "run it by hand")
    })?;
    let packages = packages(&metadata);
    let mut findings = forbidden_dependencies(&packages);
    for package in &packages {
        findings.extend(lifted_lints(&package.directory));
        for circle in circles::find(&package.sources()) {
            findings.push(format!("modules of {} import each other: {circle}", package.name));
        }
    }
    if findings.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        format!("the layers are broken:\n  {}", findings.join("\n  ")),
        "remove the dependency, move the type that a circle of modules shares into a file of its \
         own, or change the table in xtask/src/layers.rs and say why",
    ))
}

/// A member of the workspace.
struct Package {
    name: String,
    directory: PathBuf,
    dependencies: Vec<String>,
}

impl Package {
    /// Where its modules are. Those of the root package are in `app`.
    fn sources(&self) -> PathBuf {
        let usual = self.directory.join("src");
        if usual.is_dir() { usual } else { self.directory.join("app") }
    }
}

fn packages(metadata: &Value) -> Vec<Package> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages = list(&metadata["packages"]).into_iter().map(|package| Package {
        name: text(&package["name"]),
        directory: Path::new(&text(&package["manifest_path"])).with_file_name(""),
        dependencies: list(&package["dependencies"])
            .iter()
            .filter(|dependency| dependency["kind"] != "dev")
            .map(|dependency| text(&dependency["name"]))
            .collect(),
    });
    packages.collect()
}

fn forbidden_dependencies(packages: &[Package]) -> Vec<String> {
    let mut findings = Vec::new();
    for Package { name, dependencies, .. } in packages {
        let Some((_, allowed)) = ALLOWED.iter().find(|(listed, _)| listed == name) else {
            findings.push(format!("{name} is not in the table"));
            continue;
        };
        for dependency in dependencies {
            let ours = packages.iter().any(|package| package.name == *dependency);
            let native = dependency.starts_with(NATIVE_PREFIX) && name != "hob-runtime";
            if ours && !allowed.contains(&dependency.as_str()) || native {
                findings.push(format!("{name} may not depend on {dependency}"));
            }
        }
    }
    findings
}

fn lifted_lints(package: &Path) -> Vec<String> {
    let mut findings = Vec::new();
    let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap_or_default();
    if !manifest.contains("[lints]\nworkspace = true") {
        findings.push(format!(
            "{}Cargo.toml does not inherit the workspace's lints",
            package.display()
        ));
    }
    let mut waiting = vec![package.to_owned()];
    while let Some(path) = waiting.pop() {
        if path.is_dir() && !path.ends_with(BACKEND) && !path.ends_with("target") {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            waiting.extend(entries.map(|entry| entry.path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).unwrap_or_default();
            if source.contains(LINT) {
                findings.push(format!("{} lifts {LINT} outside {BACKEND}", path.display()));
            }
        }
    }
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_on_a_higher_crate_is_found() {
        let packages = [
            package("hob-slots", &["serde", "hob-runtime"]),
            package("hob-runtime", &["hob-slots", "llama-cpp-2"]),
        ];
        assert_eq!(forbidden_dependencies(&packages), ["hob-slots may not depend on hob-runtime"]);
    }

    #[test]
    fn only_the_runtime_may_depend_on_llama_cpp() {
        let packages = [package("hob-daemon", &["llama-cpp-sys-2"])];
        assert_eq!(
            forbidden_dependencies(&packages),
            ["hob-daemon may not depend on llama-cpp-sys-2"]
        );
    }

    #[test]
    fn a_crate_without_a_place_in_the_table_is_found() {
        assert_eq!(
            forbidden_dependencies(&[package("hob-new", &[])]),
            ["hob-new is not in the table"]
        );
    }

    #[test]
    fn the_table_itself_has_no_cycle() {
        for (name, allowed) in ALLOWED {
            let mut below: Vec<&str> = allowed.to_vec();
            while let Some(lower) = below.pop() {
                assert_ne!(lower, name, "{name} would depend on itself");
                let entry = ALLOWED.iter().find(|(listed, _)| *listed == lower);
                below.extend(entry.expect("the table names only its own crates").1);
            }
        }
    }

    #[test]
    fn dev_dependencies_are_free() {
        let metadata = serde_json::json!({ "packages": [{
            "name": "hob-slots", "manifest_path": "/hob/slots/Cargo.toml",
            "dependencies": [{ "name": "hob-runtime", "kind": "dev" }, { "name": "serde", "kind": null }],
        }]});
        let packages = packages(&metadata);
        assert_eq!(packages[0].dependencies, ["serde"]);
        assert_eq!(packages[0].directory, Path::new("/hob/slots/"));
    }

    #[test]
    fn lifting_the_lint_outside_the_backend_is_found() {
        let root = std::env::temp_dir().join(format!("xtask-lints-{}", std::process::id()));
        let sources = [("runtime/src/backend/llama.rs", LINT), ("runtime/src/engine.rs", LINT)];
        for (path, text) in sources {
            fs::create_dir_all(root.join(path).with_file_name("")).expect("writable");
            fs::write(root.join(path), format!("#![allow({text})]")).expect("writable");
        }
        fs::write(root.join("runtime/Cargo.toml"), "[lints]\nworkspace = true\n")
            .expect("writable");

        let findings = lifted_lints(&root.join("runtime"));
        fs::remove_dir_all(&root).expect("it was just made");

        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains("engine.rs"));
    }

    fn package(name: &str, dependencies: &[&str]) -> Package {
        let dependencies = dependencies.iter().map(|&name| name.to_owned()).collect();
        Package { name: name.to_owned(), directory: PathBuf::new(), dependencies }
    }
}
