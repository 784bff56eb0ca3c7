//! Reads the text of a grammar, for `regular` and `gbnf`.
//!
//! - It moves past what it returns or accepts, and past nothing else.
//! - It has no errors: each notation words its own.

/// A place in the text of a grammar.
pub(super) struct Cursor<'s> {
    rest: &'s str,
    /// Begins a comment, which ends with its line.
    comment: &'static str,
    line_ends: &'static [char],
}

impl<'s> Cursor<'s> {
    pub(super) fn new(text: &'s str, comment: &'static str, line_ends: &'static [char]) -> Self {
        Self { rest: text, comment, line_ends }
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    pub(super) fn bump(&mut self) -> Option<char> {
        let mut rest = self.rest.chars();
        let next = rest.next();
        self.rest = rest.as_str();
        next
    }

    /// Moves past this text, if it is next.
    pub(super) fn eat(&mut self, expected: &str) -> bool {
        let behind = self.rest.strip_prefix(expected);
        self.rest = behind.unwrap_or(self.rest);
        behind.is_some()
    }

    pub(super) fn eat_while(&mut self, belongs: impl Fn(char) -> bool) -> &'s str {
        let end = self.rest.find(|c: char| !belongs(c)).unwrap_or(self.rest.len());
        let (eaten, rest) = self.rest.split_at(end);
        self.rest = rest;
        eaten
    }

    /// White space and comments; line ends only if `takes_lines`, because they end a rule.
    pub(super) fn skip_space(&mut self, takes_lines: bool) {
        let line_ends = self.line_ends;
        let is_space = |c: char| match line_ends.contains(&c) {
            true => takes_lines,
            false => matches!(c, ' ' | '\t' | '\r'),
        };
        self.eat_while(is_space);
        while self.rest.starts_with(self.comment) {
            self.eat_while(|c| !line_ends.contains(&c));
            self.eat_while(is_space);
        }
    }

    /// Moves past a `|`, also at the beginning of the next line.
    pub(super) fn eat_next_choice(&mut self) -> bool {
        let before = self.rest;
        self.skip_space(true);
        let is_there = self.eat("|");
        if !is_there {
            self.rest = before;
        }
        is_there
    }

    /// The character of a code with so many hexadecimal digits.
    pub(super) fn code_point(&mut self, digits: usize) -> Option<char> {
        let (code, rest) = self.rest.split_at_checked(digits)?;
        self.rest = rest;
        u32::from_str_radix(code, 16).ok().and_then(char::from_u32)
    }
}
