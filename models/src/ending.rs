//! The ending `.gguf` of a file's name, in any case: a file may come from a system that knows no case.

use std::path::Path;

const ENDING: &str = ".gguf";

pub fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(&ENDING[1..]))
}

/// The name without its ending, where it has it.
pub fn without_ending(name: &str) -> &str {
    let at = name.len().saturating_sub(ENDING.len());
    match name.split_at_checked(at) {
        Some((stem, end)) if end.eq_ignore_ascii_case(ENDING) => stem,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_counts_in_any_case_and_once() {
        assert!(["a.gguf", "a.GGUF", "a.b.Gguf"].into_iter().all(|name| is_gguf(Path::new(name))));
        assert!(["gguf", ".gguf", "a.gguf.part"].into_iter().all(|name| !is_gguf(Path::new(name))));
        let names = ["a.gguf", "a.GGUF", "a.gguf.gguf", "a", "\u{e9}gguf", ""];
        assert_eq!(names.map(without_ending), ["a", "a", "a.gguf", "a", "\u{e9}gguf", ""]);
    }
}
