//! Lists and objects that are written as tags: `<key>…</key>` of an object, `<item>…</item>` of a
//! list, each behind the mark of the form.

use serde_json::{Map, Value, json};

use crate::Kind;
use crate::forms::{Tagged, ValueEnd};
use crate::schema::{Schema, alternatives};

/// Values inside one another: a model that repeats itself must not overflow the stack.
const MAX_DEPTH: usize = 64;

/// The tag of a list's items.
const ITEM: &str = "item";

/// The mark before a closing tag.
fn close_mark(form: &Tagged) -> &'static str {
    match form.value_end {
        ValueEnd::Mark(mark) | ValueEnd::WithKey(mark, _) => mark,
    }
}

/// Whether the value is made of tags. `None`: more text decides.
pub(super) fn begins(form: &Tagged, value: &str) -> Option<bool> {
    let value = value.trim_start();
    let (open, close) = (form.parameter, close_mark(form));
    if value.len() <= open.len() && open.starts_with(value) {
        return None; // `close` begins with `open` and another letter.
    }
    Some(value.starts_with(open) && !value.starts_with(close) && !close.starts_with(value))
}

/// Where `end_mark`, the closing tag of the value itself, begins. `searched` and `depth`: what is read
/// so far.
pub(super) fn end(
    form: &Tagged,
    value: &str,
    end_mark: &str,
    searched: &mut usize,
    depth: &mut usize,
) -> Option<usize> {
    let (open, close) = (form.parameter, close_mark(form));
    while let Some(at) = value[*searched..].find(open) {
        *searched += at;
        let tag = &value[*searched..];
        if tag.len() == open.len() {
            return None; // One letter more tells a closing tag from an opening one.
        }
        if !tag.starts_with(close) {
            *depth += 1;
        } else if *depth > 0 {
            *depth -= 1;
        } else if tag.starts_with(end_mark) {
            return Some(*searched);
        } else if end_mark.starts_with(tag) {
            return None;
        }
        *searched += open.len();
    }
    let mut from = value.len().saturating_sub(open.len()).max(*searched);
    while !value.is_char_boundary(from) {
        from -= 1;
    }
    *searched = from;
    None
}

/// The JSON of a value that is made of tags and matches one of these schemas.
pub(super) fn to_json(form: &Tagged, value: &str, schemas: &[Schema<'_>]) -> String {
    let mut reader = Reader { form, rest: value, depth: 0 };
    match reader.value(schemas) {
        Some(json) if reader.rest.trim().is_empty() => json.to_string(),
        _ => Value::from(value).to_string(),
    }
}

struct Reader<'a> {
    form: &'a Tagged,
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    /// A value of one of these schemas, up to the closing tag around it.
    fn value(&mut self, schemas: &[Schema<'_>]) -> Option<Value> {
        let (open, close) = (self.form.parameter, close_mark(self.form));
        let alternatives = alternatives(schemas);
        let mut members: Vec<(String, Value)> = Vec::new();
        loop {
            let text = self.rest.trim_start();
            if !text.starts_with(open) || text.starts_with(close) {
                break;
            }
            let (key, rest) = text[open.len()..].split_once(self.form.key_end)?;
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return None;
            }
            self.rest = rest;
            let value = self.value(&inner(&alternatives, key))?;
            let closing = self.rest.trim_start().strip_prefix(close)?;
            self.rest = closing.strip_prefix(key)?.strip_prefix(self.form.key_end)?;
            self.depth -= 1;
            members.push((key.to_owned(), value));
        }
        if members.is_empty() {
            let end = self.rest.find(close).unwrap_or(self.rest.len());
            let (text, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Some(leaf(text, schemas, &alternatives));
        }
        let has_items = members.iter().all(|(key, _)| key == ITEM);
        if has_items && !has_item_key(&alternatives) {
            return Some(members.into_iter().map(|(_, value)| value).collect());
        }
        Some(Value::Object(members.into_iter().collect::<Map<_, _>>()))
    }
}

/// Whether a tag of an item is a member: one of the schemas declares it, or one takes members of any name and none
/// takes a list.
fn has_item_key(alternatives: &[Schema<'_>]) -> bool {
    let declares = |one: &Schema<'_>| one.member(ITEM).is_some();
    let is_list = |one: &Schema<'_>| {
        one.items().is_some() || one.get("type").is_some_and(|name| name == "array")
    };
    let takes_any = |one: &Schema<'_>| one.others().is_some();
    alternatives.iter().any(declares)
        || (alternatives.iter().any(takes_any) && !alternatives.iter().any(is_list))
}

/// `alternatives`: those of the schemas.
fn leaf(text: &str, schemas: &[Schema<'_>], alternatives: &[Schema<'_>]) -> Value {
    let kind = Kind::of_any(schemas);
    let empty = || {
        let mut types = alternatives.iter().filter_map(|one| one.get("type")?.as_str());
        let empty = types.find_map(|name| match name {
            "array" => Some(json!([])),
            "object" => Some(json!({})),
            _ => None,
        });
        empty.filter(|_| text.trim().is_empty() && kind == Kind::Json)
    };
    let json = || kind.to_json_of(text, schemas);
    let read = || serde_json::from_str(&json()).unwrap_or_else(|_| Value::from(text));
    empty().unwrap_or_else(read)
}

/// The schemas of a member or an item.
fn inner<'a>(alternatives: &[Schema<'a>], key: &str) -> Vec<Schema<'a>> {
    let of_item = |one: &Schema<'a>| one.items().filter(|_| key == ITEM);
    let of = |one: &Schema<'a>| one.member(key).or_else(|| of_item(one)).or_else(|| one.others());
    alternatives.iter().filter_map(of).collect()
}
