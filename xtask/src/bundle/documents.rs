//! The documents of the archive: the licences, README, and the files that their links lead to.
//!
//! - Each file is at the same place below the directory of documents as in the source tree, so that relative links lead
//!   to it.
//! - Of a linked directory, only the linked files are copied.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

const FIRST: [&str; 4] = ["LICENSE-MIT", "LICENSE-APACHE", "NOTICE.md", "README.md"];

/// What stands in front of a link's target, and behind it.
const MARKS: [(&str, char); 4] =
    [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"'), ("href=\"", '"')];

/// Copies them from the source tree `root` to `dir`.
///
/// # Errors
/// Names a link that leads nowhere.
pub fn copy(root: &Path, dir: &Path) -> io::Result<()> {
    for path in linked(root)? {
        let (from, to) = (root.join(&path), dir.join(&path));
        if from.is_dir() {
            fs::create_dir_all(to)?;
            continue;
        }
        fs::create_dir_all(to.parent().expect("it is below `dir`"))?;
        fs::copy(from, to)?;
    }
    Ok(())
}

/// Their paths from `root`.
fn linked(root: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut next: Vec<PathBuf> = FIRST.map(PathBuf::from).into();
    while let Some(path) = next.pop() {
        let file = root.join(&path);
        if !file.exists() {
            let message = format!("a document links to {}, which does not exist", path.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        let has_links = path.extension().is_some_and(|end| end == "md");
        if found.insert(path.clone()) && has_links {
            let text = fs::read_to_string(&file)?;
            let dir = path.parent().unwrap_or(Path::new(""));
            next.extend(targets(&text).map(|target| normal(&dir.join(target))));
        }
    }
    Ok(found)
}

/// The relative paths that the text links to.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let links = MARKS.into_iter().flat_map(move |(begin, end)| {
        text.split(begin).skip(1).filter_map(move |rest| rest.split(end).next())
    });
    // Without the section, and without the title or the width behind it.
    let paths = links.filter_map(|link| link.split(['#', ' ', '\n']).next());
    paths.filter(|path| !path.is_empty() && !path.contains(':'))
}

/// Without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn links_to_files_are_found_in_markdown_and_html() {
        let text = "[a](docs/A.md#part) ![b](b.png \"a title\") [c](https://c.example/c.md) [d](#d)\n\
            <source srcset=\"e.png 2x\"><img src=\"../f.svg\"><a href=\"mailto:g@h\">g</a>";
        let found: Vec<_> = targets(text).collect();
        assert_eq!(found, ["docs/A.md", "b.png", "../f.svg", "e.png"]);
        assert_eq!(normal(Path::new("docs/../a/./b/")), Path::new("a/b"));
    }

    #[test]
    fn every_link_of_the_documents_leads_to_one_of_them() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let dir = std::env::temp_dir().join(format!("hob-xtask-documents-{}", std::process::id()));
        copy(root, &dir).unwrap();
        let copied = linked(&dir);
        let parts = ["docs/HTTP.md", "docs/http/status.md", "docs/images"];
        let has_read = parts.iter().all(|part| dir.join(part).exists());
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(copied.unwrap(), linked(root).unwrap());
        assert!(has_read, "README leads to each of them");
    }

    #[test]
    fn every_section_that_a_document_links_to_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let read = |path: PathBuf| {
            let is_document = path.extension().is_some_and(|end| end == "md");
            if !is_document {
                return None;
            }
            let text = fs::read_to_string(root.join(&path)).unwrap();
            Some((path, text))
        };
        let documents: BTreeMap<PathBuf, String> =
            linked(root).unwrap().into_iter().filter_map(read).collect();
        let mut missing = Vec::new();
        for (path, text) in &documents {
            let dir = path.parent().unwrap_or(Path::new(""));
            let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            for (file, section) in links.filter_map(|link| link.split_once('#')) {
                let target = if file.is_empty() { path.clone() } else { normal(&dir.join(file)) };
                let is_lost = |text: &String| !sections(text).contains(section);
                if documents.get(&target).is_some_and(is_lost) {
                    missing.push(format!("{}: {file}#{section}", path.display()));
                }
            }
        }
        assert_eq!(missing, Vec::<String>::new());
    }

    /// The names of a document's sections, as GitHub derives them from headings, and as `<a id="…">` has them.
    fn sections(text: &str) -> BTreeSet<String> {
        let mut sections = BTreeSet::new();
        let mut is_code = false;
        for line in text.lines() {
            is_code ^= line.starts_with("```");
            let names = line.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next());
            sections.extend(names.map(str::to_owned));
            if let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) {
                let heading =
                    heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
                let is_kept = |letter: &char| letter.is_alphanumeric() || "-_".contains(*letter);
                sections.insert(heading.chars().filter(is_kept).collect());
            }
        }
        sections
    }
}
