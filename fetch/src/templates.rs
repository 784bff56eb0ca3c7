//! llama.cpp's collection of chat templates, for the test that renders them. The templates are those of
//! many models, each under its model's licence, so this repository holds none of them.

use std::fs;
use std::io::Read;
use std::path::Path;

use tar::Archive;

use crate::error::FetchError;
use crate::index::Index;
use crate::package::{REPOSITORY, unpacked};

/// Files of their own.
const COLLECTED: &str = "models/templates/";
/// A program with further ones in its text.
const TESTED: &str = "tests/test-chat-template.cpp";

/// Puts the templates into `dir`, as `*.jinja`. Does nothing where the same ones are.
///
/// # Errors
/// A [`FetchError`].
pub fn templates(
    dir: &Path,
    index: impl FnOnce() -> Result<Index, FetchError>,
    shows_bar: bool,
) -> Result<(), FetchError> {
    unpacked(dir, index, shows_bar, |archive| unpack(archive, dir))
}

fn unpack(archive: &mut Archive<impl Read>, dir: &Path) -> std::io::Result<()> {
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        let Some((_, path)) = path.split_once(REPOSITORY) else { continue };
        let collected = path.strip_prefix(COLLECTED);
        let is_template = |name: &&str| name.ends_with(".jinja") && !name.contains('/');
        let mut text = String::new();
        if let Some(name) = collected.filter(is_template) {
            entry.read_to_string(&mut text)?;
            fs::write(dir.join(name), text)?;
        } else if path == TESTED {
            entry.read_to_string(&mut text)?;
            for (n, template) in in_program(&text).into_iter().enumerate() {
                fs::write(dir.join(format!("test-chat-template-{n:02}.jinja")), template)?;
            }
        }
    }
    Ok(())
}

/// The templates in the text of a C++ program: each is the one literal of a line with this comment.
fn in_program(text: &str) -> Vec<String> {
    let literal = |line: &str| {
        let (_, literal) = line.trim().split_once("/* .template_str")?.1.split_once('"')?;
        Some(unescaped(&literal[..literal.rfind('"')?]))
    };
    text.lines().filter(|line| line.trim().starts_with("/*")).filter_map(literal).collect()
}

/// The text of a C++ literal, as far as the program's literals need it.
fn unescaped(literal: &str) -> String {
    let mut text = String::with_capacity(literal.len());
    let mut characters = literal.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            text.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            other => text.extend(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::in_program;

    #[test]
    fn the_literals_of_the_program_are_templates() {
        let program = "    // /* .template_str= */ \"no\"\n\
                       \x20   /* .template_str= */ \"{{ '\\\\n' }}\\n\\\"a\\\"\",\n\
                       \x20   /* .template_str */ U8C(\"{# b #}\"),\n    /* .name= */ \"c\",\n";
        assert_eq!(in_program(program), ["{{ '\\n' }}\n\"a\"", "{# b #}"]);
    }
}
