//! Pieces of a grammar in llguidance's notation.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

/// Finds a control token by its written form.
pub(super) type Control<'a> = &'a dyn Fn(&str) -> Option<u32>;

/// A control token has at most this many bytes.
const MAX_MARK_BYTES: usize = 64;

/// White space between tags: what a model writes there, it was trained on.
pub(super) const SPACE: &str = r"/[ \n]{0,2}/";

/// A number that the grammar leaves open. Kimi counts the calls of a conversation: an agent makes hundreds.
pub(super) const NUMBER: &str = "/[0-9]{1,4}/";

/// Items whose order is free within one rule: llguidance keeps a bit for each.
const MAX_UNORDERED: usize = 64;

/// Bytes of rules from which schemas get none of their own. llguidance refuses a grammar far below that.
const MAX_BYTES: usize = 16 << 20;

/// The rules of a grammar.
pub(super) struct Lark<'a> {
    control: Control<'a>,
    rules: String,
    count: usize,
    /// Names of rules by what they say.
    shared: BTreeMap<String, String>,
}

/// One of several in any order.
pub(super) struct Item {
    pub rule: String,
    pub is_required: bool,
}

/// The rest of a list of items, as a rule: where none is written yet, and where one is.
#[derive(Default)]
pub(super) struct Items {
    pub first: String,
    pub next: String,
}

/// A part of a text: a control token, or what stands between two.
enum Piece<'a> {
    Token(u32),
    Text(&'a str),
}

impl<'a> Lark<'a> {
    pub fn new(control: Control<'a>) -> Self {
        Self { control, rules: String::new(), count: 0, shared: BTreeMap::new() }
    }

    /// All rules, behind the first one.
    pub fn finish(self, start: &str) -> String {
        format!("start: {start}\n{}", self.rules)
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether more schemas would only take memory: the grammar is refused.
    pub fn is_full(&self) -> bool {
        self.rules.len() > MAX_BYTES
    }

    /// Adds a rule. Returns its name.
    pub fn rule(&mut self, body: &str) -> String {
        self.rule_with("", body)
    }

    /// The name of the rule that says this, which is added once: a schema takes time and room.
    pub fn shared_rule(&mut self, body: &str) -> String {
        if let Some(name) = self.shared.get(body) {
            return name.clone();
        }
        let name = self.rule(body);
        self.shared.insert(body.to_owned(), name.clone());
        name
    }

    /// The name of a rule whose body may name it, which is added once. `key`: what it says.
    pub fn recursive_rule(
        &mut self,
        key: &str,
        body: impl FnOnce(&mut Self, &str) -> String,
    ) -> String {
        if let Some(name) = self.shared.get(key) {
            return name.clone();
        }
        let name = format!("r{}", self.count);
        self.count += 1;
        self.shared.insert(key.to_owned(), name.clone());
        let body = body(self, &name);
        writeln!(self.rules, "{name}: {body}").expect("a String takes every write");
        name
    }

    fn rule_with(&mut self, attributes: &str, body: &str) -> String {
        let name = format!("r{}", self.count);
        self.count += 1;
        writeln!(self.rules, "{name}{attributes}: {body}").expect("a String takes every write");
        name
    }

    /// One of these.
    pub fn any_of(&mut self, bodies: &[String]) -> String {
        self.rule(&bodies.join(" | "))
    }

    /// The items in any order with `between` between them, each once or, if it is not required, at most
    /// once; then the rest. Beyond [`MAX_UNORDERED`], those that are required come in front.
    pub fn in_any_order(&mut self, items: Vec<Item>, between: &str, rest: Items) -> Items {
        let (mut ordered, others): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|item| item.is_required);
        ordered.extend(others);
        let groups = ordered.chunks(MAX_UNORDERED).rev();
        groups.fold(rest, |rest, group| self.unordered(group, between, &rest))
    }

    /// One rule, whose parameter has a bit for each item that is written.
    fn unordered(&mut self, items: &[Item], between: &str, rest: &Items) -> Items {
        let required = items.iter().take_while(|item| item.is_required).count();
        let next = format!("r{}", self.count);
        self.count += 1;
        let or_nothing =
            |text: &str| if text.is_empty() { "\"\"".to_owned() } else { text.to_owned() };
        let mut body = or_nothing(&rest.next);
        if required > 0 {
            body.push_str(&format!(" %if is_ones([0:{required}])"));
        }
        for (bit, Item { rule, .. }) in items.iter().enumerate() {
            body.push_str(&format!(
                "\n  | {between} {rule} {next}::set_bit({bit}) %if bit_clear({bit})"
            ));
        }
        writeln!(self.rules, "{next}::_: {body}").expect("a String takes every write");
        let begun = format!("{next}::0x0");
        if between.is_empty() {
            return Items { first: begun.clone(), next: begun };
        }
        let mut first: Vec<String> = Vec::new();
        first.extend((required == 0).then(|| or_nothing(&rest.first)));
        let begins =
            |(bit, item): (usize, &Item)| format!("{} {next}::{:#x}", item.rule, 1_u64 << bit);
        first.extend(items.iter().enumerate().map(begins));
        Items { first: self.any_of(&first), next: begun }
    }

    /// The text as Lark; its marks are control tokens where the vocabulary has them.
    pub fn text(&self, text: &str) -> String {
        let pieces: Vec<String> = self.pieces(text).iter().map(Piece::to_lark).collect();
        pieces.join(" ")
    }

    /// The same, with a number for each `#`.
    pub fn numbered(&self, text: &str) -> String {
        let parts: Vec<String> = text.split('#').map(|part| self.text(part)).collect();
        parts.join(&format!(" {NUMBER} "))
    }

    /// Any text up to `end`, and `end`.
    pub fn until(&mut self, end: &str) -> String {
        let pieces = self.pieces(end);
        match pieces.iter().position(|piece| matches!(piece, Piece::Token(_))) {
            Some(at) => {
                let before: String = pieces[..at].iter().map(Piece::in_expression).collect();
                let rest: Vec<String> = pieces[at..].iter().map(Piece::to_lark).collect();
                self.rule(&format!("/(?s:.*){before}/ {}", rest.join(" ")))
            }
            None => self.rule_with(&format!("[suffix={}]", quoted(end)), "/(?s:.*)/"),
        }
    }

    fn pieces<'t>(&self, text: &'t str) -> Vec<Piece<'t>> {
        let mut pieces = Vec::new();
        let (mut from, mut at) = (0, 0);
        while at < text.len() {
            let found = self.token_at(&text[at..]);
            let Some((id, bytes)) = found else {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
                continue;
            };
            if from < at {
                pieces.push(Piece::Text(&text[from..at]));
            }
            pieces.push(Piece::Token(id));
            at += bytes;
            from = at;
        }
        if from < text.len() {
            pieces.push(Piece::Text(&text[from..]));
        }
        pieces
    }

    /// The longest control token with which the text begins.
    fn token_at(&self, text: &str) -> Option<(u32, usize)> {
        let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
        let ends: Vec<usize> = ends.take_while(|&end| end <= MAX_MARK_BYTES).collect();
        let found = |&end: &usize| Some(((self.control)(&text[..end])?, end));
        ends.iter().rev().find_map(found)
    }
}

impl Piece<'_> {
    fn to_lark(&self) -> String {
        match self {
            Self::Token(id) => format!("<[{id}]>"),
            Self::Text(text) => quoted(text),
        }
    }

    /// As a part of a regular expression.
    fn in_expression(&self) -> String {
        match self {
            Self::Token(_) => String::new(),
            Self::Text(text) => expression(text),
        }
    }
}

/// A text as a regular expression.
pub(super) fn expression(text: &str) -> String {
    let escaped = |c: char| match c {
        '\n' => "\\n".to_owned(),
        c if r"\.+*?()|[]{}^$/".contains(c) => format!("\\{c}"),
        c => c.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// A string as Lark writes it, which is as JSON writes it.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
