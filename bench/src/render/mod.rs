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

    #[test]
    fn only_the_part_between_the_marks_changes() {
        let text = format!("a\n{BEGIN}\nold\n{END}\nb {END}\n");
        let new = replace(&text, "new\n").expect("it has marks");
        assert_eq!(new, format!("a\n{BEGIN}\nnew\n{END}\nb {END}\n"));
        assert_eq!(replace(&new, "new").expect("it has marks"), new);
        assert!(replace("no marks", "new").is_err());
    }

    #[test]
    fn the_documents_show_what_the_committed_runs_measured() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let files = runs(&root.join(RUNS)).expect("readable");
        if files.is_empty() {
            // Then no document shows a figure of one.
            for path in [README, MEASUREMENTS] {
                let text = fs::read_to_string(root.join(path)).expect("a document");
                assert!(text.contains(BEGIN) && text.contains(END), "{path} has no place for it");
                assert!(!text.contains("peer-light.svg"), "{path} shows a run that is not there");
            }
            return;
        }
        let records = read(&files).expect("runs of this version");
        for (path, text) in documents(&root, &records).expect("documents with marks") {
            let found = fs::read_to_string(root.join(&path)).unwrap_or_default();
            assert!(found == text, "{path}: run `cargo xtask bench render --write`");
        }
    }
}
