//! Calls with each argument in a tag of its own, returned as JSON: texts as they come, other values
//! when they are complete.

use super::{MAX_NAME_BYTES, Parser, State};
use crate::forms::{Tagged, ValueEnd};
use crate::json::inside_quotes;
use crate::mark::{awaits_any, partial_mark};
use crate::schema::Schema;
use crate::signatures::Parameter;
use crate::{Kind, Part};

mod nested;

/// Takes a value as it is, its end mark included: some models put code into it.
const CDATA: (&str, &str) = ("<![CDATA[", "]]>");

/// A call with tags whose name is returned.
#[derive(Clone, Debug)]
pub(super) struct Tags {
    form: &'static Tagged,
    tool: String,
    /// Arguments so far.
    count: usize,
    value: Option<Value>,
}

/// The value at the beginning of the text.
#[derive(Clone, Debug)]
struct Value {
    kind: Kind,
    /// `None`: the tool does not declare it.
    parameter: Option<Parameter>,
    end: String,
    /// What opens and closes the value is not known yet.
    is_new: bool,
    /// The quote before a text is returned.
    is_open: bool,
    /// How much of the text is searched for the end, and how many tags are open there.
    searched: usize,
    depth: usize,
}

impl Value {
    fn schema(&self) -> Option<Schema<'_>> {
        self.parameter.as_ref().map(Parameter::schema)
    }

    /// Removes what opens the value. `false`: it needs more text.
    fn begin(&mut self, text: &mut String, is_framed: bool) -> bool {
        if is_framed && text.is_empty() || awaits_any(text.trim_start(), [CDATA.0]) {
            return false;
        }
        if let Some(inner) = text.trim_start().strip_prefix(CDATA.0) {
            *text = inner.to_owned();
            self.end = format!("{}{}", CDATA.1, self.end);
        } else if is_framed && text.starts_with('\n') {
            text.remove(0);
        }
        self.is_new = false;
        true
    }

    /// Where the value ends. Reads each byte once, and those of half a mark again. `behind`: what stands behind the mark
    /// that ends a value; empty: each mark ends it.
    fn find_end(&mut self, text: &str, behind: &[&str]) -> End {
        let mut from = self.searched.min(text.len());
        while !text.is_char_boundary(from) {
            from -= 1;
        }
        while let Some(at) = text[from..].find(&self.end).map(|at| from + at) {
            let rest = text[at + self.end.len()..].trim_start();
            if behind.is_empty() || behind.iter().any(|mark| rest.starts_with(*mark)) {
                return End::At(at);
            }
            if behind.iter().any(|mark| mark.starts_with(rest)) {
                self.searched = at;
                return End::Undecided(at);
            }
            from = at + self.end.len();
        }
        self.searched = text.len().saturating_sub(self.end.len()).max(from);
        End::Unknown
    }

    /// The JSON of the value that ends with `written`, behind what of it is returned.
    fn closed(&self, written: &str) -> String {
        if self.kind != Kind::Text {
            return self.kind.to_json_of(written, self.schema().as_slice());
        }
        let quote = if self.is_open { "" } else { "\"" };
        format!("{quote}{}\"", inside_quotes(written))
    }
}

/// Without the last line feed, which belongs to the mark that follows, if one does.
fn unframed<'t>(form: &Tagged, written: &'t str) -> &'t str {
    if form.is_framed { written.strip_suffix('\n').unwrap_or(written) } else { written }
}

/// Where a value ends.
#[derive(Clone, Copy)]
enum End {
    At(usize),
    /// A mark is there; what follows it decides whether it ends the value.
    Undecided(usize),
    Unknown,
}

impl Tags {
    /// What stands behind a value: the next one, or the end of the call. A framed value may contain the mark that ends it,
    /// as code does, unless one of these follows.
    fn behind_value(&self, behind_call: &[&'static str]) -> Vec<&'static str> {
        if !self.form.is_framed {
            return Vec::new();
        }
        let own = [self.form.parameter, self.form.close];
        own.into_iter().chain(behind_call.iter().copied()).collect()
    }

    /// The part that the end of an answer makes of the text behind the last one. `behind_call`: marks behind a call.
    pub fn rest(&self, text: &str, index: usize, behind_call: &[&'static str]) -> Part {
        let behind = self.behind_value(behind_call);
        let framed = self.value.clone().filter(|_| self.form.is_framed);
        let end = framed.map(|mut value| value.find_end(text, &behind));
        let json_fragment = match (&self.value, end) {
            (Some(value), Some(End::At(at) | End::Undecided(at))) => {
                value.closed(unframed(self.form, &text[..at]))
            }
            (Some(value), _) if value.is_open => inside_quotes(text),
            _ => String::new(),
        };
        Part::ToolCallArguments { index, json_fragment }
    }
}

impl Parser {
    pub(super) fn tagged_call(
        &mut self,
        form: &'static Tagged,
        call_at: usize,
        parts: &mut Vec<Part>,
    ) -> bool {
        let call = &self.text[call_at..];
        let ends = [form.name_end, form.parameter, form.close];
        let found = ends.iter().filter_map(|end| Some((call.find(end)?, *end)));
        let Some((len, end)) = found.min_by_key(|(at, _)| *at) else {
            return call.len() > MAX_NAME_BYTES && self.reject_call(parts, call_at);
        };
        // Attributes may follow the name.
        let head_end = if end == form.name_end && !form.head_end.is_empty() {
            match call[len + end.len()..].find(form.head_end) {
                Some(at) => at + form.head_end.len(),
                None => return call.len() > MAX_NAME_BYTES && self.reject_call(parts, call_at),
            }
        } else {
            0
        };
        let name = call[..len].trim();
        let allowed = |c: char| c.is_alphanumeric() || "_-.:/".contains(c);
        if name.is_empty() || len + head_end > MAX_NAME_BYTES || !name.chars().all(allowed) {
            return self.reject_call(parts, call_at);
        }
        // Another mark than the end of the name is read again.
        let behind = if end == form.name_end { len + end.len() + head_end } else { len };
        let tags = Tags { form, tool: name.to_owned(), count: 0, value: None };
        self.begin_call(parts, name.to_owned(), call_at + behind, State::Tags(tags));
        true
    }

    pub(super) fn tags(&mut self, parts: &mut Vec<Part>) -> bool {
        let State::Tags(tags) = &self.state else { return false };
        if tags.value.is_some() { self.value(parts) } else { self.next_tag(parts) }
    }

    /// The key of the next argument, or the end of the call.
    fn next_tag(&mut self, parts: &mut Vec<Part>) -> bool {
        let State::Tags(tags) = &mut self.state else { return false };
        let (form, index) = (tags.form, self.calls - 1);
        let close = form.close;
        let text = self.text.trim_start();
        let space = self.text.len() - text.len();
        let is_close = text.starts_with(close);
        if !is_close && text.starts_with(form.parameter) {
            let tag = &text[form.parameter.len()..];
            let Some((key, rest)) = tag.split_once(form.key_end) else {
                return tag.len() > MAX_NAME_BYTES && self.end_tags(parts, space);
            };
            // An attribute of the tag may say that the value is a text.
            let rest_at = rest.trim_start();
            let Some((attributes, rest)) = rest_at.split_once(form.value) else {
                return rest_at.len() > MAX_NAME_BYTES && self.end_tags(parts, space);
            };
            let tools = self.tools.as_ref();
            let parameter = tools.and_then(|tools| tools.parameter(&tags.tool, key.trim()));
            let kind = parameter.as_ref().map_or(Kind::Any, Parameter::kind);
            let kind = match (attributes.trim(), kind) {
                (r#"string="true""#, _) => Kind::Text,
                (r#"string="false""#, _) => Kind::Json,
                (r#"type="string""#, Kind::Any) => Kind::Text,
                (_, kind) => kind,
            };
            let end = match form.value_end {
                ValueEnd::Mark(mark) => mark.to_owned(),
                ValueEnd::WithKey(before, behind) => format!("{before}{key}{behind}"),
            };
            let between = if tags.count == 0 { "{" } else { ", " };
            let key = serde_json::Value::from(key.trim());
            tags.count += 1;
            tags.value = Some(Value {
                kind,
                parameter,
                end,
                is_new: true,
                is_open: false,
                searched: 0,
                depth: 0,
            });
            self.text = rest.to_owned();
            let json_fragment = format!("{between}{key}: ");
            parts.push(Part::ToolCallArguments { index, json_fragment });
            return true;
        }
        if !is_close && awaits_any(text, [close, form.parameter]) {
            return false;
        }
        self.end_tags(parts, space + if is_close { close.len() } else { 0 })
    }

    /// Ends the call; `text` goes on behind `bytes`.
    fn end_tags(&mut self, parts: &mut Vec<Part>, bytes: usize) -> bool {
        let State::Tags(tags) = &self.state else { return false };
        let index = self.calls - 1;
        let json_fragment = if tags.count == 0 { "{}" } else { "}" }.to_owned();
        parts.push(Part::ToolCallArguments { index, json_fragment });
        parts.push(Part::ToolCallEnd { index });
        self.text.drain(..bytes);
        self.state = State::Called;
        true
    }

    fn value(&mut self, parts: &mut Vec<Part>) -> bool {
        let index = self.calls - 1;
        let State::Tags(tags) = &mut self.state else { return false };
        let behind = tags.behind_value(self.form.behind);
        let form = tags.form;
        let Some(value) = &mut tags.value else { return false };
        if value.is_new && !value.begin(&mut self.text, form.is_framed) {
            return false;
        }
        let is_nested = form.nests
            && value.kind != Kind::Text
            && match nested::begins(form, &self.text) {
                Some(is_nested) => is_nested,
                None => return false,
            };
        let end = if is_nested {
            let (mark, searched, depth) = (&value.end, &mut value.searched, &mut value.depth);
            nested::end(form, &self.text, mark, searched, depth).map_or(End::Unknown, End::At)
        } else {
            value.find_end(&self.text, &behind)
        };
        let known = match end {
            End::At(at) | End::Undecided(at) => at,
            End::Unknown => self.text.len() - partial_mark(&self.text, &value.end),
        };
        let written = unframed(form, &self.text[..known]);
        let End::At(end) = end else {
            if value.kind != Kind::Text {
                return false;
            }
            let mut json_fragment = String::new();
            if !std::mem::replace(&mut value.is_open, true) {
                json_fragment.push('"');
            }
            json_fragment.push_str(&inside_quotes(written));
            let bytes = written.len();
            self.text.drain(..bytes);
            value.searched = 0; // What is left may be the beginning of the end mark.
            if !json_fragment.is_empty() {
                parts.push(Part::ToolCallArguments { index, json_fragment });
            }
            return false;
        };
        let json_fragment = if is_nested {
            nested::to_json(form, written, value.schema().as_slice())
        } else {
            value.closed(written)
        };
        self.text.drain(..end + value.end.len());
        tags.value = None;
        parts.push(Part::ToolCallArguments { index, json_fragment });
        true
    }
}
