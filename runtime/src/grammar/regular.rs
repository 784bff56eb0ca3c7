//! Grammars in Lark's notation as regular expressions: a text within JSON can follow no other grammar.
//!
//! - A grammar is followed where no rule reaches itself, and refused elsewhere.
//! - Refused are also `%ignore`, templates of rules, and imports from elsewhere than `common`.
//! - No error repeats anything of the grammar, because it is a tool's.

use std::collections::BTreeMap;

use super::cursor::{Cursor, Notation};
use super::error::GrammarError;
use super::lark::expression;
use super::pattern::{MAX_BYTES, whole_pattern};

/// Rules, or groups, inside one another.
const MAX_DEPTH: usize = 50;
const MAX_REPEATS: u32 = 1_000;

static LARK: Notation = Notation {
    comment: "//",
    line_ends: &['\n'],
    has_multiline_texts: false,
    own_escape: |c| match c {
        'f' => Some('\u{c}'),
        '\\' | '"' | '\'' | '/' => Some(c),
        _ => None,
    },
};

/// The terminals of Lark's library `common`, as regular expressions.
const COMMON: [(&str, &str); 20] = [
    ("CNAME", "[A-Za-z_][A-Za-z0-9_]*"),
    ("CR", r"\r"),
    ("DECIMAL", r"(?:[0-9]+\.[0-9]*|\.[0-9]+)"),
    ("DIGIT", "[0-9]"),
    ("ESCAPED_STRING", r#""(?:[^"\\\n]|\\.)*""#),
    (
        "FLOAT",
        r"(?:[0-9]+(?:\.[0-9]*)?[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+\.[0-9]*)",
    ),
    ("HEXDIGIT", "[0-9A-Fa-f]"),
    ("INT", "[0-9]+"),
    ("LCASE_LETTER", "[a-z]"),
    ("LETTER", "[A-Za-z]"),
    ("LF", r"\n"),
    ("NEWLINE", r"(?:\r?\n)+"),
    ("NUMBER", r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"),
    ("SH_COMMENT", r"#[^\n]*"),
    ("SIGNED_INT", "[+-]?[0-9]+"),
    ("SIGNED_NUMBER", r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"),
    ("UCASE_LETTER", "[A-Z]"),
    ("WORD", "[A-Za-z]+"),
    ("WS", r"[ \t\f\r\n]+"),
    ("WS_INLINE", r"[ \t]+"),
];

/// A schema's `pattern` for the texts of a Lark grammar.
///
/// # Errors
/// When it cannot be followed.
pub fn lark_pattern(source: &str) -> Result<String, GrammarError> {
    if source.len() > MAX_BYTES {
        return refused("it is too long");
    }
    let cursor = Cursor::new(source, &LARK);
    let rules = Reader { cursor, rules: BTreeMap::new() }.rules()?;
    let mut written = Written { rules: &rules, known: BTreeMap::new(), within: Vec::new() };
    whole_pattern(&written.rule("start")?)
}

fn refused<T>(why: &str) -> Result<T, GrammarError> {
    Err(GrammarError::Unsupported(format!("the Lark grammar cannot be followed: {why}")))
}

/// Sequences, one of which is chosen.
type Choices = Vec<Vec<Item>>;

enum Item {
    /// A regular expression.
    Expression(String),
    /// A rule or a terminal.
    Name(String),
    Group(Choices),
    /// The item as often as the mark of a regular expression says.
    Repeated(Box<Item>, String),
}

/// Writes rules as expressions.
struct Written<'r> {
    rules: &'r BTreeMap<String, Choices>,
    known: BTreeMap<&'r str, String>,
    /// The rules that are being written.
    within: Vec<&'r str>,
}

impl<'r> Written<'r> {
    fn rule(&mut self, name: &'r str) -> Result<String, GrammarError> {
        if let Some(known) = self.known.get(name) {
            return Ok(known.clone());
        }
        if self.within.contains(&name) {
            return refused("a rule reaches itself");
        }
        if self.within.len() == MAX_DEPTH {
            return refused("too many rules are inside one another");
        }
        let Some(choices) = self.rules.get(name) else { return refused("a rule is missing") };
        self.within.push(name);
        let written = self.choices(choices)?;
        self.within.pop();
        self.known.insert(name, written.clone());
        Ok(written)
    }

    fn choices(&mut self, choices: &'r [Vec<Item>]) -> Result<String, GrammarError> {
        let mut written = "(?:".to_owned();
        for (n, items) in choices.iter().enumerate() {
            if n > 0 {
                written.push('|');
            }
            for item in items {
                written.push_str(&self.item(item)?);
                if written.len() > MAX_BYTES {
                    return refused("it is too long");
                }
            }
        }
        written.push(')');
        Ok(written)
    }

    fn item(&mut self, item: &'r Item) -> Result<String, GrammarError> {
        match item {
            Item::Expression(expression) => Ok(expression.clone()),
            Item::Name(name) => self.rule(name),
            Item::Group(choices) => self.choices(choices),
            Item::Repeated(item, mark) => Ok(format!("(?:{}){mark}", self.item(item)?)),
        }
    }
}

/// Reads a grammar.
struct Reader<'s> {
    cursor: Cursor<'s>,
    rules: BTreeMap<String, Choices>,
}

impl Reader<'_> {
    fn rules(mut self) -> Result<BTreeMap<String, Choices>, GrammarError> {
        loop {
            self.cursor.skip_lines();
            match self.cursor.peek() {
                None => return Ok(self.rules),
                Some('%') => self.import()?,
                Some(_) => self.definition()?,
            }
        }
    }

    fn definition(&mut self) -> Result<(), GrammarError> {
        self.cursor.eat_while(|c| matches!(c, '?' | '!')); // They shape Lark's tree.
        let name = self.name()?;
        self.cursor.skip_space();
        if self.cursor.eat(".") {
            self.number()?; // Of several terminals that match, Lark takes the one of this priority.
            self.cursor.skip_space();
        }
        if !self.cursor.eat(":") {
            return refused("a rule has no `:`");
        }
        let choices = self.choices(0)?;
        self.rules.insert(name, choices);
        Ok(())
    }

    /// `%import common.NAME`, with another name behind `->`, or `%import common (NAME, NAME)`.
    fn import(&mut self) -> Result<(), GrammarError> {
        self.cursor.bump();
        if self.name()? != "import" {
            return refused("of its directives, only `%import` is known");
        }
        self.cursor.skip_space();
        if self.name()? != "common" {
            return refused("only `common` can be imported from");
        }
        self.cursor.skip_space();
        match self.cursor.bump() {
            Some('.') => {
                let name = self.name()?;
                let alias = self.alias()?;
                self.add_common(&name, alias.as_deref().unwrap_or(&name))
            }
            Some('(') => loop {
                self.cursor.skip_lines();
                let name = self.name()?;
                self.add_common(&name, &name)?;
                self.cursor.skip_lines();
                match self.cursor.bump() {
                    Some(',') => {}
                    Some(')') => return Ok(()),
                    _ => return refused("a list of imports has no end"),
                }
            },
            _ => refused("an import has no name"),
        }
    }

    fn add_common(&mut self, name: &str, alias: &str) -> Result<(), GrammarError> {
        let Some((_, expression)) = COMMON.iter().find(|(known, _)| *known == name) else {
            return refused("it imports a terminal that is not known");
        };
        self.rules.insert(alias.to_owned(), vec![vec![Item::Expression((*expression).to_owned())]]);
        Ok(())
    }

    /// `-> name`, if it is there.
    fn alias(&mut self) -> Result<Option<String>, GrammarError> {
        self.cursor.skip_space();
        if !self.cursor.eat("-") {
            return Ok(None);
        }
        if !self.cursor.eat(">") {
            return refused("a `-` has no `>`");
        }
        self.cursor.skip_space();
        self.name().map(Some)
    }

    fn name(&mut self) -> Result<String, GrammarError> {
        match self.cursor.eat_while(|c| c.is_ascii_alphanumeric() || c == '_') {
            "" => refused("a name is missing"),
            name => Ok(name.to_owned()),
        }
    }

    fn number(&mut self) -> Result<u32, GrammarError> {
        match self.cursor.eat_while(|c| c.is_ascii_digit()).parse() {
            Ok(number) if number <= MAX_REPEATS => Ok(number),
            _ => refused("a number is missing or too large"),
        }
    }

    fn choices(&mut self, depth: usize) -> Result<Choices, GrammarError> {
        if depth > MAX_DEPTH {
            return refused("too many groups are inside one another");
        }
        let mut choices = vec![self.sequence(depth)?];
        while self.cursor.eat_next_choice() {
            choices.push(self.sequence(depth)?);
        }
        Ok(choices)
    }

    fn sequence(&mut self, depth: usize) -> Result<Vec<Item>, GrammarError> {
        let mut items = Vec::new();
        loop {
            self.cursor.skip_between_items(depth);
            let item = match self.cursor.peek() {
                Some('"') => self.text()?,
                Some('/') => self.expression()?,
                Some('(') => self.group(")", depth)?,
                Some('[') => {
                    let group = self.group("]", depth)?;
                    Item::Repeated(Box::new(group), "?".to_owned())
                }
                Some('-') => {
                    self.alias()?; // It names a branch of Lark's tree.
                    return Ok(items);
                }
                Some(c) if c.is_ascii_alphanumeric() || c == '_' => Item::Name(self.name()?),
                _ => return Ok(items),
            };
            items.push(self.repeated(item)?);
        }
    }

    fn group(&mut self, end: &str, depth: usize) -> Result<Item, GrammarError> {
        self.cursor.bump();
        let choices = self.choices(depth + 1)?;
        self.cursor.skip_lines();
        if !self.cursor.eat(end) {
            return refused("a group has no end");
        }
        Ok(Item::Group(choices))
    }

    fn repeated(&mut self, item: Item) -> Result<Item, GrammarError> {
        self.cursor.skip_space();
        let mark = match self.cursor.peek() {
            Some(mark @ ('?' | '*' | '+')) => {
                self.cursor.bump();
                mark.to_string()
            }
            Some('~') => self.count()?,
            _ => return Ok(item),
        };
        Ok(Item::Repeated(Box::new(item), mark))
    }

    /// `~ 3` or `~ 3..5`
    fn count(&mut self) -> Result<String, GrammarError> {
        self.cursor.bump();
        self.cursor.skip_space();
        let least = self.number()?;
        if !self.cursor.eat(".") {
            return Ok(format!("{{{least}}}"));
        }
        if !self.cursor.eat(".") {
            return refused("a count has no `..`");
        }
        let most = self.number()?;
        if most < least {
            return refused("a count ends before it begins");
        }
        Ok(format!("{{{least},{most}}}"))
    }

    /// A text, with `i` behind it in letters of any case; or a range of two characters.
    fn text(&mut self) -> Result<Item, GrammarError> {
        let text = self.cursor.text().or_else(refused)?;
        if self.cursor.eat("i") {
            return Ok(Item::Expression(format!("(?i:{})", expression(&text))));
        }
        if !self.cursor.eat(".") {
            return Ok(Item::Expression(format!("(?:{})", expression(&text))));
        }
        if !self.cursor.eat(".") || self.cursor.peek() != Some('"') {
            return refused("a range has no end");
        }
        let end = self.cursor.text().or_else(refused)?;
        let code = |text: &str| {
            let mut characters = text.chars();
            characters.next().filter(|_| characters.as_str().is_empty()).map(u32::from)
        };
        match (code(&text), code(&end)) {
            (Some(first), Some(last)) if first <= last => {
                Ok(Item::Expression(format!("[\\x{{{first:X}}}-\\x{{{last:X}}}]")))
            }
            _ => refused("a range is none of characters"),
        }
    }

    /// `/…/` with flags behind it.
    fn expression(&mut self) -> Result<Item, GrammarError> {
        self.cursor.bump();
        let mut text = String::new();
        loop {
            match self.cursor.bump() {
                Some('/') => break,
                Some('\\') => match self.cursor.bump() {
                    Some('/') => text.push('/'),
                    Some(c) => text.extend(['\\', c]),
                    None => return refused("an expression has no end"),
                },
                Some('\n') | None => return refused("an expression has no end"),
                Some(c) => text.push(c),
            }
        }
        let mut flags = String::new();
        for flag in self.cursor.eat_while(|c| c.is_ascii_lowercase()).chars() {
            match flag {
                'i' | 's' => flags.push(flag),
                'u' => {}
                _ => return refused("of an expression's flags, only `i`, `s` and `u` are known"),
            }
        }
        Ok(Item::Expression(format!("(?{flags}:{text})")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grammar_is_the_expression_of_its_first_rule() {
        for (grammar, expected) in [
            ("start: \"a.b\"i \"c\" ~ 2..3", r"(?:(?i:a\.b)(?:(?:c)){2,3})"),
            (
                "start: A | [B]\nA.2: \"x\"..\"z\"\nB: /[0-9]\\/\\d/s",
                r"(?:(?:[\x{78}-\x{7A}])|(?:(?:(?:(?s:[0-9]/\d))))?)",
            ),
            (
                "// A list.\nstart: item (\n  \",\" item\n)* -> list\n?item: WORD // one\n  | LF+\n\
                 %import common.WORD\n%import common (LF, CR)",
                r"(?:(?:(?:[A-Za-z]+)|(?:(?:\n))+)(?:(?:(?:,)(?:(?:[A-Za-z]+)|(?:(?:\n))+)))*)",
            ),
            ("start: X\n%import common.INT -> X", "(?:(?:[0-9]+))"),
        ] {
            assert_eq!(lark_pattern(grammar).unwrap(), format!("^(?:{expected})$"), "{grammar}");
        }
    }

    #[test]
    fn a_grammar_that_cannot_be_followed_is_refused_without_its_text() {
        let deep = format!("start: {}\"a\"{}", "(".repeat(60), ")".repeat(60));
        let rules: String = (0..60).map(|n| format!("secret{n}: secret{}\n", n + 1)).collect();
        let chain = format!("start: secret0\n{rules}secret60: \"a\"");
        let doubled: String = (0..20).map(|n| format!("a{n}: a{0} a{0}\n", n + 1)).collect();
        let doubled = format!("start: a0\n{doubled}a20: \"a\"");
        for (grammar, why) in [
            ("start: secret\nsecret: \"(\" start \")\" | \"a\"", "a rule reaches itself"),
            ("start: secret", "a rule is missing"),
            ("other: \"secret\"", "a rule is missing"),
            ("start: \"a\"\n%ignore \"secret\"", "of its directives, only `%import` is known"),
            ("%import secret.A", "only `common` can be imported from"),
            ("%import common.SECRET", "it imports a terminal that is not known"),
            ("start: secret{\"a\"}", "a name is missing"),
            ("start: \"secret", "a text has no end"),
            ("start: /secret", "an expression has no end"),
            ("start: /secret/x", "of an expression's flags, only `i`, `s` and `u` are known"),
            ("start: (\"secret\"", "a group has no end"),
            ("start: \"a\"..\"secret\"", "a range is none of characters"),
            ("start: \"a\" ~ 5..2", "a count ends before it begins"),
            (deep.as_str(), "too many groups are inside one another"),
            (chain.as_str(), "too many rules are inside one another"),
            (doubled.as_str(), "it is too long"),
        ] {
            let error = lark_pattern(grammar).unwrap_err().to_string();
            assert_eq!(error, format!("the Lark grammar cannot be followed: {why}"), "{grammar}");
        }
        let error = lark_pattern("start: /(?=secret)/").unwrap_err().to_string();
        assert!(error.contains("look-around") && !error.contains("secret"), "{error}");
    }
}
