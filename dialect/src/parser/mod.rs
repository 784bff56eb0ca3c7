//! Splits a streamed answer into content, reasoning and calls.
//!
//! - The parser returns text as soon as it cannot be the beginning of a mark. White space waits for
//!   the text that follows it.
//! - Only the beginning of an answer can be reasoning; marks inside it have no meaning.
//! - The parser returns a call when it is complete. The text of an invalid call is content.

use crate::call::{Arguments, Call, read_call, read_calls, read_named_call};
use crate::json::{Progress, Scan};
use crate::{
    Dialect, HERMES_CLOSE, HERMES_OPEN, LLAMA_PYTHON, MISTRAL_ARGUMENTS, MISTRAL_CALLS, Part,
};

/// Separates name and id in newer Mistral models.
const MISTRAL_CALL_ID: &str = "[CALL_ID]";

/// The marks that open and close reasoning.
const THINK_MARKS: [(&str, &str); 2] = [("<think>", "</think>"), ("[THINK]", "[/THINK]")];

/// Whether a rendered prompt ends with an open think mark, so that the answer begins with
/// reasoning.
pub fn opens_reasoning(prompt: &str) -> bool {
    let end = prompt.trim_end();
    THINK_MARKS.iter().any(|(open, _)| end.ends_with(open))
}

/// Reads one answer.
#[derive(Clone, Debug)]
pub struct Parser {
    /// The mark before a call; empty when the parser reads no calls.
    call_mark: &'static str,
    dialect: Dialect,
    state: State,
    text: String, // Not returned yet.
    calls: usize,
}

#[derive(Clone, Debug)]
enum State {
    /// Only white space so far.
    Start,
    Reasoning {
        close: &'static str,
        begun: bool,
    },
    Content {
        /// Leading white space belongs to the call or reasoning before it.
        trims: bool,
        /// No content so far: a Llama 3 call may begin without a mark.
        is_empty: bool,
    },
    /// `text` begins with white space, the mark, more white space and the call itself.
    Call {
        json_at: usize,
        scan: Scan,
    },
    /// A call is complete; its closing mark may follow.
    Called,
}

impl Parser {
    /// `starts_in_reasoning`: the prompt has opened the think mark, see [`opens_reasoning`].
    pub fn new(dialect: Dialect, tools_offered: bool, starts_in_reasoning: bool) -> Self {
        let close = THINK_MARKS[usize::from(dialect == Dialect::Mistral)].1;
        let dialect = if tools_offered { dialect } else { Dialect::Plain };
        let call_mark = match dialect {
            Dialect::Hermes => HERMES_OPEN,
            Dialect::Llama3 => LLAMA_PYTHON,
            Dialect::Mistral => MISTRAL_CALLS,
            Dialect::Plain => "",
        };
        let state = if starts_in_reasoning {
            State::Reasoning { close, begun: false }
        } else {
            State::Start
        };
        Self { call_mark, dialect, state, text: String::new(), calls: 0 }
    }

    /// Parses the next chunk of the answer.
    pub fn push(&mut self, text: &str) -> Vec<Part> {
        self.text.push_str(text);
        let mut parts = Vec::new();
        while self.step(&mut parts) {}
        parts
    }

    /// Parses the rest at the end of the answer.
    pub fn finish(&mut self) -> Vec<Part> {
        let rest = std::mem::take(&mut self.text);
        let part = match self.state {
            State::Reasoning { .. } => Part::Reasoning(rest.trim_end().to_owned()),
            State::Content { trims: true, .. } => Part::Content(rest.trim_start().to_owned()),
            State::Called => Part::Content(String::new()),
            State::Start | State::Content { .. } | State::Call { .. } => Part::Content(rest),
        };
        let mut parts = Vec::new();
        push_part(&mut parts, part);
        parts
    }

    /// Parses one step. `false`: the parser needs more text.
    fn step(&mut self, parts: &mut Vec<Part>) -> bool {
        match &mut self.state {
            State::Start => self.start(),
            State::Reasoning { .. } => self.reasoning(parts),
            State::Content { .. } => self.content(parts),
            State::Call { .. } => self.call(parts),
            State::Called => self.after_call(),
        }
    }

    fn start(&mut self) -> bool {
        let text = self.text.trim_start();
        let opened = THINK_MARKS.iter().find(|(open, _)| text.starts_with(open));
        if let Some((open, close)) = opened {
            let after = self.text.len() - text.len() + open.len();
            self.text.drain(..after);
            self.state = State::Reasoning { close, begun: false };
        } else if THINK_MARKS.iter().any(|(open, _)| open.starts_with(text)) {
            return false;
        } else {
            self.state = State::Content { trims: false, is_empty: true };
        }
        true
    }

    fn reasoning(&mut self, parts: &mut Vec<Part>) -> bool {
        let State::Reasoning { close, begun } = &mut self.state else { return false };
        if !*begun {
            let space = self.text.len() - self.text.trim_start().len();
            self.text.drain(..space);
            *begun = !self.text.is_empty();
        }
        let end = self.text.find(*close);
        let undecided_from = end.unwrap_or(self.text.len() - partial_mark(&self.text, close));
        let reasoning = self.text[..undecided_from].trim_end().to_owned();
        let Some(end) = end else {
            self.text.drain(..reasoning.len());
            push_part(parts, Part::Reasoning(reasoning));
            return false;
        };
        self.text.drain(..end + close.len());
        self.state = State::Content { trims: true, is_empty: true };
        push_part(parts, Part::Reasoning(reasoning));
        true
    }

    fn content(&mut self, parts: &mut Vec<Part>) -> bool {
        let State::Content { trims, is_empty } = &mut self.state else { return false };
        let space = self.text.len() - self.text.trim_start().len();
        if space == self.text.len() {
            return false;
        }
        if *is_empty && self.dialect == Dialect::Llama3 && self.text[space..].starts_with('{') {
            self.state = State::Call { json_at: space, scan: Scan::default() };
            return true;
        }
        let mark = self.call_mark;
        let found = if mark.is_empty() { None } else { self.text.find(mark) };
        let undecided_from = found.unwrap_or(self.text.len() - partial_mark(&self.text, mark));
        let mut content = self.text[..undecided_from].trim_end().to_owned();
        let content_bytes = content.len();
        if content_bytes > 0 {
            if std::mem::take(trims) {
                content.drain(..space);
            }
            *is_empty = false;
        }
        self.text.drain(..content_bytes);
        push_part(parts, Part::Content(content));
        if found.is_some() {
            let json_at = self.text.len() - self.text.trim_start().len() + mark.len();
            self.state = State::Call { json_at, scan: Scan::default() };
        }
        found.is_some()
    }

    fn call(&mut self, parts: &mut Vec<Part>) -> bool {
        let State::Call { json_at, scan } = &mut self.state else { return false };
        let marked = &self.text[*json_at..];
        let call = marked.trim_start();
        if call.is_empty() {
            return false;
        }
        let (name, json) = match (self.dialect, call.starts_with(['{', '['])) {
            (Dialect::Mistral, false) => match split_name(call) {
                Named::Incomplete => return false,
                Named::No => return self.reject_call(parts, 0),
                Named::Yes { name, json } => (Some(name), json),
            },
            _ => (None, call),
        };
        let start = self.text.len() - json.len();
        let end = match scan.advance(json) {
            Progress::Incomplete => return false,
            Progress::Broken(len) => return self.reject_call(parts, start + len),
            Progress::Complete(len) => start + len,
        };
        let json = &self.text[start..end];
        let calls = match (name, self.dialect) {
            (Some(name), _) => read_named_call(name, json).map(|call| vec![call]),
            (None, Dialect::Llama3) => read_call(json, Arguments::Required).map(|call| vec![call]),
            (None, Dialect::Mistral) => read_calls(json),
            (None, _) => read_call(json, Arguments::Optional).map(|call| vec![call]),
        };
        let Some(calls) = calls else { return self.reject_call(parts, end) };
        self.text.drain(..end);
        self.state = State::Called;
        for call in calls {
            self.push_call(call, parts);
        }
        true
    }

    fn push_call(&mut self, call: Call, parts: &mut Vec<Part>) {
        let index = self.calls;
        self.calls += 1;
        parts.push(Part::ToolCallStart { index, name: call.name });
        parts.push(Part::ToolCallArguments { index, json_fragment: call.arguments });
        parts.push(Part::ToolCallEnd { index });
    }

    /// Returns the text up to `end` as content: it is not a call.
    fn reject_call(&mut self, parts: &mut Vec<Part>, end: usize) -> bool {
        let State::Call { json_at, .. } = self.state else { return false };
        let content = self.text.drain(..end.max(json_at)).collect();
        self.state = State::Content { trims: false, is_empty: false };
        push_part(parts, Part::Content(content));
        true
    }

    fn after_call(&mut self) -> bool {
        let text = self.text.trim_start();
        let close = match self.dialect {
            Dialect::Hermes => HERMES_CLOSE,
            Dialect::Llama3 => ";",
            Dialect::Mistral | Dialect::Plain => "",
        };
        if let Some(rest) = text.strip_prefix(close) {
            self.text = rest.to_owned();
        } else if close.starts_with(text) {
            return false; // Also when the text ends here.
        }
        // Llama 3 writes several calls one after the other, without marks.
        self.state = State::Content { trims: true, is_empty: true };
        true
    }
}

/// Names have at most 64 bytes in OpenAI's interface; this leaves room for an id and marks.
const MAX_NAME_BYTES: usize = 256;

/// The text between a Mistral mark and the arguments.
enum Named<'a> {
    Incomplete,
    No,
    Yes { name: &'a str, json: &'a str },
}

/// `name[CALL_ID]id[ARGS]{…` or `name{…`, as newer Mistral models write it.
fn split_name(call: &str) -> Named<'_> {
    let Some(at) = call.find('{').filter(|&at| at <= MAX_NAME_BYTES) else {
        return if call.len() > MAX_NAME_BYTES { Named::No } else { Named::Incomplete };
    };
    let (head, json) = call.split_at(at);
    let head = head.trim_end();
    let name_and_id = head.strip_suffix(MISTRAL_ARGUMENTS).unwrap_or(head);
    let name = name_and_id.split(MISTRAL_CALL_ID).next().unwrap_or_default().trim();
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.is_empty() || !name.chars().all(allowed) {
        Named::No
    } else {
        Named::Yes { name, json }
    }
}

/// The length of the longest suffix of `text` that is a proper prefix of `mark`.
fn partial_mark(text: &str, mark: &str) -> usize {
    let longest = mark.len().saturating_sub(1).min(text.len());
    let ends = |len: &usize| text.as_bytes().ends_with(&mark.as_bytes()[..*len]);
    (1..=longest).rev().find(ends).unwrap_or(0)
}

fn push_part(parts: &mut Vec<Part>, part: Part) {
    let empty = matches!(&part, Part::Content(text) | Part::Reasoning(text) if text.is_empty());
    if !empty {
        parts.push(part);
    }
}

#[cfg(test)]
mod tests;
