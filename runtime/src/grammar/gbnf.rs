//! Grammars in GBNF, llama.cpp's notation, in that of llguidance.
//!
//! - A rule that reaches no cycle becomes a terminal: one regular expression, which is read faster.
//! - Every rule that is named must exist; the first is `root`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::cursor::{Cursor, Notation};
use super::error::GrammarError;
use super::lark::quoted;

const MAX_BYTES: usize = 256 << 10;
const MAX_RULES: usize = 1_000;
/// Groups inside one another.
const MAX_GROUPS: usize = 32;
/// Rules and groups inside one another, where a rule is first named: llguidance compiles by recursion, which
/// takes up to 8 kB of stack each.
const MAX_DEPTH: usize = 100;
const MAX_REPEATS: u32 = 10_000;

static GBNF: Notation = Notation {
    comment: "#",
    line_ends: &['\r', '\n'],
    has_multiline_texts: true,
    own_escape: |c| c.is_ascii_punctuation().then_some(c),
};

/// Translates the grammar to llguidance's notation.
pub(super) fn to_lark(source: &str) -> Result<String, GrammarError> {
    if source.len() > MAX_BYTES {
        return refused(format!("it has more than {MAX_BYTES} bytes"));
    }
    let grammar = Reader::new(source).grammar()?;
    if depth(&grammar) > MAX_DEPTH {
        return refused(format_args!("it has more than {MAX_DEPTH} rules inside one another"));
    }
    let is_regular = regular(&grammar);
    let name = |rule: usize| if is_regular[rule] { format!("T{rule}") } else { format!("g{rule}") };
    let mut lark = format!("start: {}\n", name(0));
    for (rule, choices) in grammar.iter().enumerate() {
        let body = written(choices, &name);
        writeln!(lark, "{}: {body}", name(rule)).expect("a String takes every write");
    }
    Ok(lark)
}

fn refused<T>(what: impl std::fmt::Display) -> Result<T, GrammarError> {
    Err(GrammarError::Unsupported(format!("the GBNF cannot be used: {what}")))
}

/// Sequences, one of which is chosen.
type Choices = Vec<Vec<Item>>;

enum Item {
    Text(String),
    /// As a regular expression.
    Class(String),
    Rule(usize),
    Group(Choices),
    /// An item, at least and at most this often.
    Repeated(Box<Item>, u32, Option<u32>),
}

fn written(choices: &Choices, name: &dyn Fn(usize) -> String) -> String {
    let sequence = |items: &Vec<Item>| match items.as_slice() {
        [] => "\"\"".to_owned(),
        items => items.iter().map(|item| item_written(item, name)).collect::<Vec<_>>().join(" "),
    };
    choices.iter().map(sequence).collect::<Vec<_>>().join(" | ")
}

fn item_written(item: &Item, name: &dyn Fn(usize) -> String) -> String {
    match item {
        Item::Text(text) => quoted(text),
        Item::Class(class) => format!("/{class}/"),
        Item::Rule(rule) => name(*rule),
        Item::Group(choices) => format!("({})", written(choices, name)),
        Item::Repeated(item, least, most) => {
            let most = most.map(|most| most.to_string()).unwrap_or_default();
            format!("({}){{{least},{most}}}", item_written(item, name))
        }
    }
}

/// How far a walk descends that visits each rule once, from the first on.
fn depth(grammar: &[Choices]) -> usize {
    let mut below: Vec<Vec<usize>> = Vec::new();
    for choices in grammar {
        let mut rules = Vec::new();
        named(choices, &mut |rule| rules.push(rule));
        rules.reverse(); // The first is taken from the end.
        below.push(rules);
    }
    let levels: Vec<usize> = grammar.iter().map(|choices| 1 + groups(choices)).collect();
    let mut is_visited = vec![false; grammar.len()];
    let (mut path, mut deep, mut deepest) = (vec![0], levels[0], levels[0]);
    is_visited[0] = true;
    while let Some(&rule) = path.last() {
        match below[rule].pop() {
            Some(next) if is_visited[next] => {}
            Some(next) => {
                is_visited[next] = true;
                path.push(next);
                deep += levels[next];
                deepest = deepest.max(deep);
            }
            None => {
                path.pop();
                deep -= levels[rule];
            }
        }
    }
    deepest
}

/// Groups inside one another.
fn groups(choices: &Choices) -> usize {
    fn of_item(item: &Item) -> usize {
        match item {
            Item::Text(_) | Item::Class(_) | Item::Rule(_) => 0,
            Item::Group(choices) => 1 + groups(choices),
            Item::Repeated(item, ..) => of_item(item),
        }
    }
    choices.iter().flatten().map(of_item).max().unwrap_or(0)
}

/// Which rules reach no cycle.
fn regular(grammar: &[Choices]) -> Vec<bool> {
    let mut users = vec![Vec::new(); grammar.len()];
    let mut waits_for = vec![0; grammar.len()];
    for (rule, choices) in grammar.iter().enumerate() {
        named(choices, &mut |other| {
            users[other].push(rule);
            waits_for[rule] += 1;
        });
    }
    let mut is_regular = vec![false; grammar.len()];
    let mut ready: Vec<usize> = (0..grammar.len()).filter(|rule| waits_for[*rule] == 0).collect();
    while let Some(rule) = ready.pop() {
        is_regular[rule] = true;
        for &user in &users[rule] {
            waits_for[user] -= 1;
            if waits_for[user] == 0 {
                ready.push(user);
            }
        }
    }
    is_regular
}

/// Calls `see` with every rule that these name.
fn named(choices: &Choices, see: &mut dyn FnMut(usize)) {
    fn of_item(item: &Item, see: &mut dyn FnMut(usize)) {
        match item {
            Item::Text(_) | Item::Class(_) => {}
            Item::Rule(rule) => see(*rule),
            Item::Group(choices) => named(choices, see),
            Item::Repeated(item, ..) => of_item(item, see),
        }
    }
    choices.iter().flatten().for_each(|item| of_item(item, see));
}

/// Reads a grammar.
struct Reader<'s> {
    cursor: Cursor<'s>,
    /// In the order in which they are named; `root` is the first.
    numbers: BTreeMap<String, usize>,
    rules: Vec<Option<Choices>>,
}

impl<'s> Reader<'s> {
    fn new(source: &'s str) -> Self {
        let cursor = Cursor::new(source, &GBNF);
        let mut reader = Self { cursor, numbers: BTreeMap::new(), rules: Vec::new() };
        reader.number("root");
        reader
    }

    fn grammar(mut self) -> Result<Vec<Choices>, GrammarError> {
        loop {
            self.cursor.skip_lines();
            if self.cursor.peek().is_none() {
                break;
            }
            let name = self.name()?;
            self.cursor.skip_lines();
            if !self.cursor.eat("::=") {
                return refused(format_args!("`::=` is missing behind `{name}`"));
            }
            let choices = self.choices(0)?;
            let number = self.number(&name);
            if self.rules.len() > MAX_RULES {
                return refused(format_args!("it has more than {MAX_RULES} rules"));
            }
            self.rules[number] = Some(choices);
        }
        let names: BTreeMap<usize, String> =
            self.numbers.into_iter().map(|(name, number)| (number, name)).collect();
        let whole = self.rules.into_iter().zip(names.values());
        whole
            .map(|(rule, name)| match rule {
                Some(rule) => Ok(rule),
                None => refused(format_args!("it has no rule `{name}`")),
            })
            .collect()
    }

    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        self.rules.push(None);
        self.numbers.insert(name.to_owned(), self.rules.len() - 1);
        self.rules.len() - 1
    }

    fn name(&mut self) -> Result<String, GrammarError> {
        let name = self.cursor.eat_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        match (name.is_empty(), self.cursor.peek()) {
            (false, _) => Ok(name.to_owned()),
            (true, Some(c)) => {
                refused(format_args!("a name is expected, not `{}`", c.escape_debug()))
            }
            (true, None) => refused("a name is expected at its end"),
        }
    }

    fn choices(&mut self, depth: usize) -> Result<Choices, GrammarError> {
        if depth > MAX_GROUPS {
            return refused(format_args!(
                "it has more than {MAX_GROUPS} groups inside one another"
            ));
        }
        self.cursor.skip_lines();
        let mut choices = vec![self.sequence(depth)?];
        while self.cursor.eat_next_choice() {
            self.cursor.skip_lines();
            choices.push(self.sequence(depth)?);
        }
        Ok(choices)
    }

    fn sequence(&mut self, depth: usize) -> Result<Vec<Item>, GrammarError> {
        let mut items = Vec::new();
        loop {
            let item = match self.cursor.peek() {
                Some('"') => Item::Text(self.cursor.text().or_else(refused)?),
                Some('[') => Item::Class(self.class()?),
                Some('.') => {
                    self.cursor.bump();
                    Item::Class("(?s:.)".to_owned())
                }
                Some('(') => {
                    self.cursor.bump();
                    let choices = self.choices(depth + 1)?;
                    if !self.cursor.eat(")") {
                        return refused("a group has no end");
                    }
                    Item::Group(choices)
                }
                Some(c) if c.is_ascii_alphanumeric() => {
                    let name = self.name()?;
                    Item::Rule(self.number(&name))
                }
                Some('<' | '!') => return refused("tokens in `<…>` are not supported"),
                _ => return Ok(items),
            };
            items.push(self.repeated(item)?);
            self.cursor.skip_between_items(depth);
        }
    }

    fn repeated(&mut self, item: Item) -> Result<Item, GrammarError> {
        self.cursor.skip_space();
        let (least, most) = match self.cursor.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => self.count()?,
            _ => return Ok(item),
        };
        if !matches!(self.cursor.bump(), Some('*' | '+' | '?' | '}')) {
            return refused("a count has no end");
        }
        self.cursor.skip_space();
        match self.cursor.peek() {
            Some('*' | '+' | '?' | '{') => refused("an item has two marks of repetition"),
            _ => Ok(Item::Repeated(Box::new(item), least, most)),
        }
    }

    /// `{2}`, `{2,}` or `{2,5}`, up to its end.
    fn count(&mut self) -> Result<(u32, Option<u32>), GrammarError> {
        self.cursor.bump();
        let bounds = self.cursor.eat_while(|c| !matches!(c, '}' | '\n'));
        let number = |text: &str| text.trim().parse().ok().filter(|n| *n <= MAX_REPEATS);
        let read = match bounds.split_once(',') {
            None => number(bounds).map(|n| (n, Some(n))),
            Some((least, most)) if most.trim().is_empty() => number(least).map(|n| (n, None)),
            Some((least, most)) => number(least).zip(number(most).map(Some)),
        };
        match read.filter(|(least, most)| most.is_none_or(|most| *least <= most)) {
            Some(count) => Ok(count),
            None => refused(format_args!("`{{{}}}` is no count", bounds.escape_debug())),
        }
    }

    fn class(&mut self) -> Result<String, GrammarError> {
        self.cursor.bump();
        let mut class = "[".to_owned();
        if self.cursor.eat("^") {
            class.push('^');
        }
        let begin = class.len();
        loop {
            match self.cursor.bump() {
                Some(']') if class.len() > begin => {
                    class.push(']');
                    return Ok(class);
                }
                Some(']') => return refused("a class is empty"),
                Some('-') if class.len() > begin && self.cursor.peek() != Some(']') => {
                    class.push('-');
                }
                Some('\\') => {
                    let c = self.cursor.escape().or_else(refused)?;
                    push_code(&mut class, c);
                }
                Some(c) => push_code(&mut class, c),
                None => return refused("a class has no end"),
            }
        }
    }
}

/// A character by its code: none of them has a meaning of its own.
fn push_code(class: &mut String, c: char) {
    match c {
        c if c.is_ascii_alphanumeric() => class.push(c),
        c => write!(class, "\\x{{{:X}}}", u32::from(c)).expect("a String takes every write"),
    }
}
