//! Files of the page without what only their readers need.
//!
//! - A style that imports others has their text in place of each import: the browser asks once.
//! - By line, which the style of `app/ui` allows: a comment has lines of its own, and white space at
//!   the begin of a line means nothing, in templates neither.
//! - Vendored files stay as they are.

use crate::Files;

/// `content` of the file `name`, without comments, indents and empty lines.
pub fn slim(name: &str, content: &str) -> String {
    let comment = match name.rsplit_once('.').map(|(_, ending)| ending) {
        _ if name.starts_with("vendor/") => return content.to_owned(),
        Some("js" | "css") => ("/*", "*/"),
        Some("html") => ("<!--", "-->"),
        Some("json" | "svg") => ("", ""),
        _ => return content.to_owned(),
    };
    let mut slim = String::with_capacity(content.len());
    let mut is_comment = false;
    for line in content.lines().map(str::trim) {
        let (open, close) = comment;
        is_comment |= !open.is_empty() && line.starts_with(open);
        if is_comment {
            is_comment = !line.ends_with(close);
        } else if !(line.is_empty() || open == "/*" && line.starts_with("//")) {
            slim.push_str(line);
            slim.push('\n');
        }
    }
    slim
}

/// The file `name` of `files`, a style with the styles that it imports.
///
/// An import is a line of its own and names a file of the same directory, which imports none.
pub fn joined(name: &str, files: &Files) -> String {
    let content = &files[name];
    let Some((directory, _)) = name.rsplit_once('/').filter(|_| name.ends_with(".css")) else {
        return content.clone();
    };
    let mut joined = String::with_capacity(content.len());
    for line in content.lines() {
        let import = line.strip_prefix("@import \"").and_then(|rest| rest.strip_suffix("\";"));
        match import {
            Some(target) => joined.push_str(&files[&format!("{directory}/{target}")]),
            None => joined.push_str(line),
        }
        joined.push('\n');
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::{joined, slim};

    #[test]
    fn comments_indents_and_empty_lines_go() {
        let script =
            "// What it is.\n\n/**\n * `a`: one.\n */\nf({\n  a: 1, // one\n});\n/* all */\n";
        assert_eq!(slim("a.js", script), "f({\na: 1, // one\n});\n");
        assert_eq!(slim("a.css", "/* A.\n   B. */\na { b: c }\n"), "a { b: c }\n");
        assert_eq!(slim("a.html", "<a>\n  <!-- x -->\n  <b>\n"), "<a>\n<b>\n");
    }

    #[test]
    fn a_style_has_the_text_of_those_that_it_imports() {
        let main = "a { b: c }\n@import \"x.css\";\n";
        let files = [("style/main.css", main), ("style/x.css", "d { e: f }"), ("a.js", main)];
        let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
        assert_eq!(joined("style/main.css", &files), "a { b: c }\nd { e: f }\n");
        assert_eq!(joined("a.js", &files), main);
    }

    #[test]
    fn vendored_files_and_strings_stay() {
        assert_eq!(slim("vendor/a.js", "  // licence\n"), "  // licence\n");
        assert_eq!(slim("a.json", "{\n  \"a\": \"// b\"\n}\n"), "{\n\"a\": \"// b\"\n}\n");
    }
}
