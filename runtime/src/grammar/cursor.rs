//! Reads the text of a grammar, for `regular` and `gbnf`.
//!
//! - It moves past what it returns or accepts, and past nothing else.
//! - An error is the reason alone: the caller adds which notation it reads.

/// How a notation differs from others in white space and texts.
pub(super) struct Notation {
    /// Begins a comment, which ends with its line.
    pub comment: &'static str,
    pub line_ends: &'static [char],
    /// Whether a text may contain line ends.
    pub has_multiline_texts: bool,
    /// The character of an escape that not every notation has.
    pub own_escape: fn(char) -> Option<char>,
}

/// A place in the text of a grammar.
pub(super) struct Cursor<'s> {
    rest: &'s str,
    notation: &'static Notation,
}

impl<'s> Cursor<'s> {
    pub(super) fn new(text: &'s str, notation: &'static Notation) -> Self {
        Self { rest: text, notation }
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

    /// White space and comments in a line, whose end ends a rule.
    pub(super) fn skip_space(&mut self) {
        self.skip(false);
    }

    /// White space and comments, line ends too.
    pub(super) fn skip_lines(&mut self) {
        self.skip(true);
    }

    /// Skips what may stand between two items of a rule within this many groups: in a group, a line end does not end
    /// the rule.
    pub(super) fn skip_between_items(&mut self, groups: usize) {
        self.skip(groups > 0);
    }

    fn skip(&mut self, takes_lines: bool) {
        let Notation { comment, line_ends, .. } = self.notation;
        let is_space = |c: char| {
            if line_ends.contains(&c) { takes_lines } else { matches!(c, ' ' | '\t' | '\r') }
        };
        self.eat_while(is_space);
        while self.rest.starts_with(comment) {
            self.eat_while(|c| !line_ends.contains(&c));
            self.eat_while(is_space);
        }
    }

    /// Moves past a `|`, also at the beginning of the next line.
    pub(super) fn eat_next_choice(&mut self) -> bool {
        let before = self.rest;
        self.skip_lines();
        let is_there = self.eat("|");
        if !is_there {
            self.rest = before;
        }
        is_there
    }

    /// A text in quotation marks, of which the first is next.
    pub(super) fn text(&mut self) -> Result<String, &'static str> {
        self.bump();
        let Notation { line_ends, has_multiline_texts, .. } = self.notation;
        let mut text = String::new();
        loop {
            match self.bump() {
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.escape()?),
                Some(c) if *has_multiline_texts || !line_ends.contains(&c) => text.push(c),
                _ => return Err("a text has no end"),
            }
        }
    }

    /// The character of an escape, behind its `\`.
    pub(super) fn escape(&mut self) -> Result<char, &'static str> {
        let digits = match self.bump() {
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            other => return other.and_then(self.notation.own_escape).ok_or("an escape is unknown"),
        };
        self.code_point(digits).ok_or("an escape is no character")
    }

    /// The character of a code with this many hexadecimal digits.
    fn code_point(&mut self, digits: usize) -> Option<char> {
        let (code, rest) = self.rest.split_at_checked(digits)?;
        self.rest = rest;
        u32::from_str_radix(code, 16).ok().and_then(char::from_u32)
    }
}
