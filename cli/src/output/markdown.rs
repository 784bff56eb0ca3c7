//! Renders Markdown for a terminal while it streams: headings, lists, quotes, code, bold and italic.
//!
//! - It holds back only what is still open: the beginning of a line, and an emphasis until its end.
//! - What is not closed on its line, and what it does not know, is shown as it is written.
//! - Lines break between words, those of code blocks nowhere.

use super::wrap::Wrap;

const BOLD: &str = "\x1b[1m";
const ITALIC: &str = "\x1b[3m";
const BOLD_ITALIC: &str = "\x1b[1;3m";
const DIM: &str = "\x1b[2m";
const CODE: &str = "\x1b[36m";
const RESET: &str = "\x1b[0m";

#[derive(Default)]
pub struct Markdown {
    place: Place,
    /// The line's characters whose meaning is open.
    held: String,
    /// The last character of the line that has a meaning.
    before: Option<char>,
    /// The fence that ends the code block.
    fence: Option<String>,
    /// The style of the line.
    style: &'static str,
    wrap: Wrap,
}

/// Where in a line the next character is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Begin,
    Text,
    Code,
}

/// What a line is, once enough of it is known.
enum Block<'a> {
    Open,
    Heading,
    Bullet(&'a str),
    Quote,
    Text,
}

impl Markdown {
    /// `columns`: the terminal's; `None` breaks no line.
    pub fn new(columns: Option<usize>) -> Self {
        Self { wrap: Wrap::new(columns), ..Self::default() }
    }

    /// Renders a whole text.
    pub fn whole(text: &str, columns: Option<usize>) -> String {
        let mut markdown = Self::new(columns);
        let rendered = markdown.push(text);
        rendered + &markdown.end()
    }

    /// What the terminal shows for the next piece. `text` has no control characters but line breaks
    /// and tabs.
    pub fn push(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rendered = String::new();
        for letter in text.chars() {
            match letter {
                '\n' => {
                    self.end_line(&mut rendered);
                    rendered.push('\n');
                }
                letter => self.push_letter(letter, &mut rendered),
            }
            match self.place {
                Place::Code => self.wrap.push_whole(&rendered, &mut out),
                _ => self.wrap.push(&rendered, &mut out),
            }
            rendered.clear();
        }
        out
    }

    /// The rest, where the text ends without a line break.
    pub fn end(&mut self) -> String {
        let (mut rendered, mut out) = (String::new(), String::new());
        self.end_line(&mut rendered);
        self.wrap.push(&rendered, &mut out);
        self.wrap.end_word(&mut out);
        out
    }

    fn push_letter(&mut self, letter: char, out: &mut String) {
        match self.place {
            Place::Code => out.push(letter),
            Place::Text => self.inline(letter, out),
            Place::Begin => {
                self.held.push(letter);
                match &self.fence {
                    Some(_) => self.begin_code(out),
                    None => self.begin_line(out),
                }
            }
        }
    }

    /// A line of a code block, unless it may be the fence that ends it.
    fn begin_code(&mut self, out: &mut String) {
        let line = self.held.trim_start();
        if !line.chars().all(|letter| matches!(letter, '`' | '~')) {
            out.push_str(CODE);
            out.push_str(&std::mem::take(&mut self.held));
            (self.place, self.style) = (Place::Code, CODE);
        }
    }

    fn begin_line(&mut self, out: &mut String) {
        let line = self.held.trim_start();
        let indent = self.held.len() - line.len();
        let (begin, style, rest) = match block(line) {
            Block::Open => return,
            Block::Heading => (String::new(), BOLD, String::new()),
            Block::Bullet(rest) => (format!("{}• ", &self.held[..indent]), "", rest.to_owned()),
            Block::Quote => (format!("{DIM}│{RESET}"), "", String::new()),
            Block::Text => (self.held[..indent].to_owned(), "", line.to_owned()),
        };
        out.push_str(&begin);
        out.push_str(style);
        (self.place, self.style) = (Place::Text, style);
        self.before = None;
        self.held.clear();
        rest.chars().for_each(|letter| self.inline(letter, out));
    }

    fn inline(&mut self, letter: char, out: &mut String) {
        if self.held.is_empty() && !self.opens(letter) {
            out.push(letter);
            self.before = Some(letter);
            return;
        }
        self.held.push(letter);
        match span(&self.held) {
            Span::Open => {}
            Span::Plain => {
                out.push_str(&self.held);
                self.before = self.held.chars().last();
                self.held.clear();
            }
            Span::Escaped(text) => {
                out.push_str(text);
                self.before = Some(letter);
                self.held.clear();
            }
            Span::Styled(style, text) => {
                out.push_str(style);
                let inner = if style == CODE { text.to_owned() } else { spans(text, style) };
                out.push_str(&inner);
                out.push_str(RESET);
                out.push_str(self.style);
                self.before = Some(letter);
                self.held.clear();
            }
        }
    }

    /// Whether an emphasis, code or an escape may begin with the letter.
    fn opens(&self, letter: char) -> bool {
        match letter {
            '`' | '\\' | '*' => true,
            '_' => !self.before.is_some_and(char::is_alphanumeric),
            _ => false,
        }
    }

    fn end_line(&mut self, out: &mut String) {
        let line = self.held.trim().to_owned();
        if self.place == Place::Begin && (self.fence.is_some() || is_fence(&line)) {
            self.held.clear();
            match &self.fence {
                Some(fence) if line.starts_with(fence.as_str()) => self.fence = None,
                Some(_) => {}
                None => self.fence = Some(line.chars().take_while(|c| "`~".contains(*c)).collect()),
            }
            let shown = if line.is_empty() { line } else { format!("{DIM}{line}{RESET}") };
            out.push_str(&shown);
            return;
        }
        if self.place == Place::Begin && is_rule(&line) {
            self.held.clear();
            out.push_str(&format!("{DIM}{}{RESET}", "─".repeat(24)));
        }
        if self.place == Place::Begin {
            let held = std::mem::take(&mut self.held);
            self.place = Place::Text;
            held.chars().for_each(|letter| self.inline(letter, out));
        }
        // The first mark of what is not closed is text; what follows it may be closed.
        while !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            let marks = held.len() - held.trim_start_matches(['*', '_', '`', '\\']).len();
            let (marks, rest) = held.split_at(marks.max(1));
            out.push_str(marks);
            self.before = marks.chars().last();
            rest.chars().for_each(|letter| self.inline(letter, out));
        }
        if !self.style.is_empty() {
            out.push_str(RESET);
        }
        (self.place, self.style, self.before) = (Place::Begin, "", None);
    }
}

/// The beginning of a line, without its indent.
fn block(line: &str) -> Block<'_> {
    let mut letters = line.chars();
    let Some(first) = letters.next() else { return Block::Open };
    match first {
        '#' => {
            let rest = line.trim_start_matches('#');
            match (line.len() - rest.len(), rest) {
                (1..=6, "") => Block::Open,
                (1..=6, " ") => Block::Heading,
                _ => Block::Text,
            }
        }
        '>' => Block::Quote,
        '-' | '*' | '+' | '`' | '~' | '_' => {
            let rest = line.trim_start_matches(first);
            let is_bullet = matches!(first, '-' | '*' | '+');
            match (line.len() - rest.len(), rest) {
                (1, rest) if is_bullet && rest.starts_with(' ') => Block::Bullet(&rest[1..]),
                (_, "") => Block::Open,
                (3.., _) if matches!(first, '`' | '~') => Block::Open,
                _ => Block::Text,
            }
        }
        _ => Block::Text,
    }
}

fn is_fence(line: &str) -> bool {
    line.starts_with("```") && !line[3..].contains('`') && !line[3..].is_empty()
        || line == "```"
        || line.starts_with("~~~")
}

fn is_rule(line: &str) -> bool {
    let first = line.chars().next().filter(|first| "-*_".contains(*first));
    line.len() >= 3 && first.is_some_and(|first| line.chars().all(|letter| letter == first))
}

enum Span<'a> {
    Open,
    Plain,
    Escaped(&'a str),
    Styled(&'static str, &'a str),
}

/// What begins with an opening mark.
fn span(held: &str) -> Span<'_> {
    let mark = held.chars().next().unwrap_or_default();
    if mark == '\\' {
        let next = held[1..].chars().next();
        return match next {
            None => Span::Open,
            Some(next) if next.is_ascii_punctuation() => Span::Escaped(&held[1..]),
            Some(_) => Span::Plain,
        };
    }
    let text = held.trim_start_matches(mark);
    let marks = held.len() - text.len();
    let end = text.len() - text.trim_end_matches(mark).len();
    let (inner, style) = (&text[..text.len() - end], style(mark, marks));
    match (style, text.chars().next()) {
        (_, None) => Span::Open,
        (None, _) => Span::Plain,
        (Some(CODE), _) if end == marks => Span::Styled(CODE, inner),
        (Some(CODE), _) => Span::Open,
        (_, Some(next)) if next.is_whitespace() => Span::Plain,
        (Some(style), _) if end == marks && closes(inner, mark) => Span::Styled(style, inner),
        _ => Span::Open,
    }
}

/// Whether a mark behind the text ends the emphasis, and none that began within it.
fn closes(inner: &str, mark: char) -> bool {
    let runs = inner.split(|letter| letter != mark).filter(|run| !run.is_empty()).count();
    !inner.ends_with(char::is_whitespace) && runs.is_multiple_of(2)
}

fn style(mark: char, marks: usize) -> Option<&'static str> {
    match (mark, marks) {
        ('`', _) => Some(CODE),
        (_, 1) => Some(ITALIC),
        (_, 2) => Some(BOLD),
        (_, 3) => Some(BOLD_ITALIC),
        _ => None,
    }
}

/// What is emphasised within a text that is.
fn spans(text: &str, style: &'static str) -> String {
    let mut inner = Markdown { place: Place::Text, style, ..Markdown::default() };
    let mut out = inner.push(text);
    out += &inner.end();
    out.strip_suffix(RESET).map(str::to_owned).unwrap_or(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With names in place of the control sequences.
    fn shown(text: &str) -> String {
        let whole = Markdown::whole(text, None);
        let mut piecewise = Markdown::default();
        let mut pieces: String =
            text.chars().map(|letter| piecewise.push(letter.encode_utf8(&mut [0; 4]))).collect();
        pieces += &piecewise.end();
        assert_eq!(whole, pieces, "the pieces do not matter");
        [(BOLD, "<b>"), (ITALIC, "<i>"), (BOLD_ITALIC, "<bi>"), (DIM, "<d>"), (CODE, "<c>")]
            .into_iter()
            .fold(whole, |text, (code, name)| text.replace(code, name))
            .replace(RESET, "</>")
    }

    #[test]
    fn emphasis_and_code_within_a_line_are_styled() {
        assert_eq!(shown("a **b c** d *e* `f*`."), "a <b>b c</> d <i>e</> <c>f*</>.");
        assert_eq!(shown("**a `b` c**"), "<b>a <c>b</><b> c</>");
        assert_eq!(shown("_a_ ***b*** ``c`d``"), "<i>a</> <bi>b</> <c>c`d</>");
        assert_eq!(shown("\\*a\\*"), "*a*");
    }

    #[test]
    fn text_that_only_looks_like_it_is_shown_as_it_is() {
        for text in
            ["2 * 3 * 4", "snake_case_name", "*open", "a ** b", "`open", "1 \\ 2", "-", "#a"]
        {
            assert_eq!(shown(text), text);
        }
        assert_eq!(shown("*open **b**"), "*open <b>b</>");
        assert_eq!(shown("*a\nb*"), "*a\nb*");
    }

    #[test]
    fn blocks_are_styled_line_by_line() {
        insta::assert_snapshot!(
            shown("# A *b*\n\n- one\n  * **two**\n1. three\n> said\n\n---\n**b** c\n* * *\n"),
            @r"
        <b>A <i>b</><b></>

        • one
          • <b>two</>
        1. three
        <d>│</> said

        <d>────────────────────────</>
        <b>b</> c
        • * *
        "
        );
    }

    #[test]
    fn lines_break_between_words_and_code_stays_whole() {
        let text = "one **two three**\n```\nlong long line\n```\nfour five six";
        let whole = Markdown::whole(text, Some(10));
        let plain =
            [BOLD, DIM, CODE, RESET].iter().fold(whole, |text, code| text.replace(code, ""));
        assert_eq!(plain, "one two \nthree\n```\nlong long line\n```\nfour five \nsix");
    }

    #[test]
    fn a_code_block_keeps_its_text() {
        insta::assert_snapshot!(
            shown("```rust\n  let a = *b; // **c**\n\n# not a heading\n``\n```\nafter\n```\nopen"),
            @r"
        <d>```rust</>
        <c>  let a = *b; // **c**</>

        <c># not a heading</>
        <d>``</>
        <d>```</>
        after
        <d>```</>
        <c>open</>
        "
        );
    }
}
