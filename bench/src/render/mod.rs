//! Makes the documents' tables and plots of the files that `bench peer` writes.
//!
//! - README's table and plot are those of the first file; MEASUREMENTS has a section of each.
//! - A document's part between its two marks is replaced; nothing else of it changes.
//! - The files themselves are copied to `docs/measurements`, so that every figure's samples are beside it;
//!   a test compares the documents with them.

mod markdown;
mod svg;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::record::Record;
pub use markdown::table;

#[derive(clap::Args)]
pub struct Options {
    /// Files of `bench peer`, README's first; those of `docs/measurements` unless given.
    files: Vec<PathBuf>,
    /// Write README.md, docs/MEASUREMENTS.md, docs/images and docs/measurements; otherwise print.
    #[arg(long)]
    write: bool,
}

const BEGIN: &str = "<!-- Written by `cargo xtask bench render --write`: begin -->";
const END: &str = "<!-- Written by `cargo xtask bench render --write`: end -->";

const README: &str = "README.md";
const MEASUREMENTS: &str = "docs/MEASUREMENTS.md";
const RUNS: &str = "docs/measurements";
const PLOTS: [(&str, svg::Look); 2] = [
    ("docs/images/peer-light.svg", svg::Look::Light),
    ("docs/images/peer-dark.svg", svg::Look::Dark),
];

pub fn run(options: &Options) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let committed = root.join(RUNS);
    let files = if options.files.is_empty() { runs(&committed)? } else { options.files.clone() };
    ensure!(
        !files.is_empty(),
        "no run is given, and {RUNS} has none: `cargo xtask bench peer` makes one"
    );
    let records = read(&files)?;
    if !options.write {
        println!("{}\n{}", markdown::readme(&records[0].1), markdown::measurements(&records));
        return Ok(());
    }
    fs::create_dir_all(&committed)?;
    for (at, (name, record)) in records.iter().enumerate() {
        // Numbered, so that README's is the first of the directory too.
        let bare = name.trim_start_matches(|it: char| it.is_ascii_digit() || it == '-');
        record.save(&committed.join(format!("{}-{bare}.json", at + 1)))?;
    }
    for (path, text) in documents(&root, &read(&runs(&committed)?)?)? {
        fs::write(root.join(&path), text).with_context(|| format!("cannot write {path}"))?;
        println!("{path}");
    }
    Ok(())
}

/// In the order of their names.
fn runs(directory: &Path) -> Result<Vec<PathBuf>> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Each with the name of its file, without the directory.
fn read(files: &[PathBuf]) -> Result<Vec<(String, Record)>> {
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, Record::read(path)?))
    };
    files.iter().map(read).collect()
}

/// Every document and plot, by its path.
fn documents(root: &Path, records: &[(String, Record)]) -> Result<Vec<(String, String)>> {
    let first = &records.first().context("a run")?.1;
    let mut documents = Vec::new();
    for (path, part) in
        [(README, markdown::readme(first)), (MEASUREMENTS, markdown::measurements(records))]
    {
        let text = fs::read_to_string(root.join(path)).with_context(|| path.to_owned())?;
        let text = replace(&text, &part).with_context(|| format!("in {path}"))?;
        documents.push((path.to_owned(), text));
    }
    for (path, look) in PLOTS {
        documents.push((path.to_owned(), svg::plot(first, look)));
    }
    Ok(documents)
}

/// The document with another part between its marks.
fn replace(text: &str, part: &str) -> Result<String> {
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("no line {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("no line {END}"))?;
    Ok(format!("{before}{BEGIN}\n{}\n{END}{after}", part.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Row, Subject, Table, Unit, Who};

    #[test]
    fn only_the_part_between_the_marks_changes() {
        let text = format!("a\n{BEGIN}\nold\n{END}\nb {END}\n");
        let new = replace(&text, "new\n").expect("it has marks");
        assert_eq!(new, format!("a\n{BEGIN}\nnew\n{END}\nb {END}\n"));
        assert_eq!(replace(&new, "new").expect("it has marks"), new);
        assert!(replace("no marks", "new").is_err());
    }

    #[test]
    fn a_run_is_in_both_documents_and_its_first_tokens_in_the_plots() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        fs::create_dir_all(root.join("docs/images")).expect("writable");
        for path in [README, MEASUREMENTS] {
            fs::write(root.join(path), format!("{BEGIN}\n{END}\n")).expect("writable");
        }
        let records = [("run".to_owned(), run_of(1_234.0))];
        for (path, text) in documents(root, &records).expect("documents with marks") {
            assert!(text.contains("A cold prompt"), "{path}: {text}");
            let is_plot = path.ends_with(".svg");
            assert_eq!(text.contains("Four streams"), !is_plot, "{path}: {text}");
            assert!(
                text.contains(if is_plot { "first token, ms" } else { "1,234" }),
                "{path}: {text}"
            );
            fs::write(root.join(&path), text).expect("writable");
        }
        assert_eq!(outdated(root, &records), [""; 0]);
        let readme = fs::read_to_string(root.join(README)).expect("written");
        assert!(readme.contains("alt=\"The times to the first token as bars"), "{readme}");
        let measured_again = [("run".to_owned(), run_of(2_345.0))];
        let all = [README, MEASUREMENTS, PLOTS[0].0, PLOTS[1].0];
        assert_eq!(outdated(root, &measured_again), all);
    }

    #[test]
    fn the_documents_show_what_the_committed_runs_measured() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let files = runs(&root.join(RUNS)).expect("readable");
        let shown = fs::read_to_string(root.join(README)).expect("a document");
        assert_eq!(
            shown.contains("peer-light.svg"),
            !files.is_empty(),
            "a figure is that of a run"
        );
        let records = read(&files).expect("runs of this version");
        let outdated = if files.is_empty() { Vec::new() } else { outdated(&root, &records) };
        assert_eq!(outdated, [""; 0], "run `cargo xtask bench render --write`");
    }

    /// The documents that show something else than these runs.
    fn outdated(root: &Path, records: &[(String, Record)]) -> Vec<String> {
        let documents = documents(root, records).expect("documents with marks").into_iter();
        let others = documents.filter(|(path, text)| {
            fs::read_to_string(root.join(path)).unwrap_or_default() != *text
        });
        others.map(|(path, _)| path).collect()
    }

    /// A cold prompt and four streams.
    fn run_of(cold_ms: f64) -> Record {
        let row = |mut row: Row, hobd: f64| {
            row.push(Who::Hobd, hobd);
            row.push(Who::Other, 100.0);
            row
        };
        let table = |name: &str, row: Row| Table::of_rows(name, vec![row]);
        let subject = Subject::of_model("a model");
        let mut record = Record::open(Path::new("no such file"), subject).expect("an empty one");
        record.tables = vec![
            table("first-token", row(Row::lower("cold", "A cold prompt", Unit::Ms), cold_ms)),
            table("streams", row(Row::lower("p99-4", "Four streams", Unit::Ms), 9.0)),
        ];
        record
    }
}
