//! Builds what a benchmark starts, fetches the model that it names, and runs the benchmark.

use std::iter;

use crate::command::{Failure, Line};
use crate::need::Need;
use crate::{build, model, setup};

/// `bench_args`: the name of the benchmark, and its own arguments. `yes`: install without asking.
pub fn run(bench_args: &[String], yes: bool) -> Result<(), Failure> {
    setup::ensure(&Need::BUILD, yes)?;
    let name = bench_args.first().map(String::as_str);
    if measures_fetched_model(bench_args) {
        model::for_benchmarks(yes)?;
    }
    if name == Some("page") {
        return page(&bench_args[1..], yes);
    }
    let started = name.and_then(started_program);
    build::programs(&iter::once("hob-bench").chain(started).collect::<Vec<_>>())?;
    Line::new("target/release/hob-bench").args(bench_args).run()
}

/// The program that the benchmark `name` starts.
fn started_program(name: &str) -> Option<&'static str> {
    match name {
        "store" => Some("hob"),
        "documents" | "idle" | "load" | "peer" | "soak" | "template" | "typing" => Some("hobd"),
        _ => None,
    }
}

/// Whether it is named, or the benchmark has it by default.
fn measures_fetched_model(bench_args: &[String]) -> bool {
    let given = |words: &[&str]| bench_args.iter().any(|word| words.contains(&word.as_str()));
    if given(&["--help", "-h"]) {
        return false;
    }
    let mut names = bench_args.iter().flat_map(|word| word.split(['=', ',']));
    let is_named = names.any(|name| name.eq_ignore_ascii_case(model::NAME));
    let names_another = bench_args.iter().any(|word| word.starts_with("--model"));
    let has_it = match bench_args.first().map(String::as_str) {
        Some("draft") => true,
        Some("recall") => !given(&["--quick"]),
        _ => false,
    };
    is_named || (has_it && !names_another)
}

/// The crate that checks the page also measures it; with `--app` in the app's window.
fn page(args: &[String], yes: bool) -> Result<(), Failure> {
    let mut programs = vec!["page-bench", "hobd"];
    if args.iter().any(|word| word == "--app") {
        setup::ensure(&Need::app(), yes)?;
        setup::ensure(&Need::WINDOW, yes)?;
        programs.push("hob-desktop");
    } else {
        setup::ensure(&Need::PAGE, yes)?;
    }
    build::programs(&programs)?;
    Line::new("target/release/page-bench").args(args).run()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_model_that_a_benchmark_names_or_has_by_default_is_fetched() {
        let measures = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            measures_fetched_model(&words)
        };
        for line in [
            "resume --model smollm2",
            "resume --model=SmolLM2 --cold 1",
            "chunks --likeness bundled,smollm2",
            "draft",
            "recall --haystack facts",
        ] {
            assert!(measures(line), "{line}");
        }
        for line in [
            "resume",
            "resume --model qwen2.5-7b",
            "draft --model lfm2-350m",
            "draft --help",
            "recall --quick",
            "recall --model=bundled",
        ] {
            assert!(!measures(line), "{line}");
        }
    }

    /// A benchmark measures a hobd of another day where nothing builds it.
    #[test]
    fn the_hobd_of_each_benchmark_that_starts_one_is_built() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/src");
        let mut starts = Vec::new();
        for entry in fs::read_dir(source).expect("the benchmarks are there") {
            let path = entry.expect("readable").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let file = if path.is_dir() { path.join("mod.rs") } else { path };
            let text = fs::read_to_string(file).expect("each has a file");
            if text.contains("use crate::hobd::") && text.contains("pub fn run(") {
                assert_eq!(started_program(&name), Some("hobd"), "{name}");
                starts.push(name);
            }
        }
        assert!(starts.len() >= 6, "{starts:?}");
    }
}
