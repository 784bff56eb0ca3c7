//! Splits a model's answer into content, reasoning and calls while it is written.
//!
//! - Text is passed on as soon as it can no longer be the beginning of a mark. White space waits
//!   for what follows it.
//! - Reasoning stands at the beginning of an answer only; marks inside it mean nothing.
//! - A call is passed on when it is complete. If it turns out to be none, its text is content.

use crate::call::{Arguments, Call, read_call, read_calls, read_named_call};
use crate::json::{Progress, Scan};
use crate::{
    Dialect, HERMES_CLOSE, HERMES_OPEN, LLAMA_PYTHON, MISTRAL_ARGUMENTS, MISTRAL_CALLS, Part,
};

/// Stands between name and id in newer Mistral models.
const MISTRAL_CALL_ID: &str = "[CALL_ID]";

/// What opens and closes reasoning.
const THINK_MARKS: [(&str, &str); 2] = [("<think>", "</think>"), ("[THINK]", "[/THINK]")];

/// Whether a rendered prompt leaves the think mark open, so that the answer begins inside it.
pub fn opens_reasoning(prompt: &str) -> bool {
    let end = prompt.trim_end();
    THINK_MARKS.iter().any(|(open, _)| end.ends_with(open))
}

/// Reads one answer.
#[derive(Clone, Debug)]
pub struct Parser {
    /// What announces a call. Empty: there are no calls.
    call_mark: &'static str,
    dialect: Dialect,
    state: State,
    text: String, // Not yet decided.
    calls: usize,
}

#[derive(Clone, Debug)]
enum State {
    /// Nothing but white space so far.
    Start,
    Reasoning {
        close: &'static str,
        begun: bool,
    },
    Content {
        /// White space in front belongs to what stood before it.
        trims: bool,
        /// No content yet: a Llama 3 call may begin without a mark.
        untouched: bool,
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
        let state = match starts_in_reasoning {
            true => State::Reasoning { close, begun: false },
            false => State::Start,
        };
        Self { call_mark, dialect, state, text: String::new(), calls: 0 }
    }

    /// Takes the next piece of the answer.
    pub fn push(&mut self, text: &str) -> Vec<Part> {
        self.text.push_str(text);
        let mut parts = Vec::new();
        while self.step(&mut parts) {}
        parts
    }

    /// Ends the answer.
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

    /// Decides what can be decided. `false`: more text is needed.
    fn step(&mut self, parts: &mut Vec<Part>) -> bool {
        match &mut self.state {
            State::Start => self.begin(),
            State::Reasoning { .. } => self.reason(parts),
            State::Content { .. } => self.tell(parts),
            State::Call { .. } => self.call(parts),
            State::Called => self.after_call(),
        }
    }

    fn begin(&mut self) -> bool {
        let text = self.text.trim_start();
        let opened = THINK_MARKS.iter().find(|(open, _)| text.starts_with(open));
        if let Some((open, close)) = opened {
            let after = self.text.len() - text.len() + open.len();
            self.text.drain(..after);
            self.state = State::Reasoning { close, begun: false };
        } else if THINK_MARKS.iter().any(|(open, _)| open.starts_with(text)) {
            return false;
        } else {
            self.state = State::Content { trims: false, untouched: true };
        }
        true
    }

    fn reason(&mut self, parts: &mut Vec<Part>) -> bool {
        let State::Reasoning { close, begun } = &mut self.state else { return false };
        if !*begun {
            let space = self.text.len() - self.text.trim_start().len();
            self.text.drain(..space);
            *begun = !self.text.is_empty();
        }
        let end = self.text.find(*close);
        let certain = end.unwrap_or(self.text.len() - partial_mark(&self.text, close));
        let reasoning = self.text[..certain].trim_end().to_owned();
        let Some(end) = end else {
            self.text.drain(..reasoning.len());
            push_part(parts, Part::Reasoning(reasoning));
            return false;
        };
        self.text.drain(..end + close.len());
        self.state = State::Content { trims: true, untouched: true };
        push_part(parts, Part::Reasoning(reasoning));
        true
    }

    fn tell(&mut self, parts: &mut Vec<Part>) -> bool {
        let State::Content { trims, untouched } = &mut self.state else { return false };
        let space = self.text.len() - self.text.trim_start().len();
        if space == self.text.len() {
            return false;
        }
        if *untouched && self.dialect == Dialect::Llama3 && self.text[space..].starts_with('{') {
            self.state = State::Call { json_at: space, scan: Scan::default() };
            return true;
        }
        let mark = self.call_mark;
        let found = if mark.is_empty() { None } else { self.text.find(mark) };
        let certain = found.unwrap_or(self.text.len() - partial_mark(&self.text, mark));
        let content = self.text[..certain].trim_end();
        let (mut content, told) = (content.to_owned(), content.len());
        if told > 0 {
            if std::mem::take(trims) {
                content.drain(..space);
            }
            *untouched = false;
        }
        self.text.drain(..told);
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
                Named::No => return self.no_call(parts, 0),
                Named::Yes { name, json } => (Some(name), json),
            },
            _ => (None, call),
        };
        let start = self.text.len() - json.len();
        let end = match scan.advance(json) {
            Progress::Incomplete => return false,
            Progress::Broken(len) => return self.no_call(parts, start + len),
            Progress::Complete(len) => start + len,
        };
        let json = &self.text[start..end];
        let calls = match (name, self.dialect) {
            (Some(name), _) => read_named_call(name, json).map(|call| vec![call]),
            (None, Dialect::Llama3) => read_call(json, Arguments::Required).map(|call| vec![call]),
            (None, Dialect::Mistral) => read_calls(json),
            (None, _) => read_call(json, Arguments::Optional).map(|call| vec![call]),
        };
        let Some(calls) = calls else { return self.no_call(parts, end) };
        self.text.drain(..end);
        self.state = State::Called;
        for call in calls {
            self.pass_on(call, parts);
        }
        true
    }

    fn pass_on(&mut self, call: Call, parts: &mut Vec<Part>) {
        let index = self.calls;
        self.calls += 1;
        parts.push(Part::ToolCallStart { index, name: call.name });
        parts.push(Part::ToolCallArguments { index, json_fragment: call.arguments });
        parts.push(Part::ToolCallEnd { index });
    }

    /// What looked like a call up to `end` is content.
    fn no_call(&mut self, parts: &mut Vec<Part>, end: usize) -> bool {
        let State::Call { json_at, .. } = self.state else { return false };
        let content = self.text.drain(..end.max(json_at)).collect();
        self.state = State::Content { trims: false, untouched: false };
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
            return false; // Also when nothing has followed yet.
        }
        // Llama 3 writes several calls one after the other, without marks.
        self.state = State::Content { trims: true, untouched: true };
        true
    }
}

/// Names are at most 64 bytes in OpenAI's interface; an id and marks may stand beside one.
const LONGEST_NAME: usize = 256;

/// The text between a Mistral mark and the arguments.
enum Named<'a> {
    Incomplete,
    No,
    Yes { name: &'a str, json: &'a str },
}

/// `name[CALL_ID]id[ARGS]{…` or `name{…`, as newer Mistral models write it.
fn split_name(call: &str) -> Named<'_> {
    let Some(at) = call.find('{').filter(|&at| at <= LONGEST_NAME) else {
        return if call.len() > LONGEST_NAME { Named::No } else { Named::Incomplete };
    };
    let (head, json) = call.split_at(at);
    let head = head.trim_end();
    let head = head.strip_suffix(MISTRAL_ARGUMENTS).unwrap_or(head);
    let name = head.split_once(MISTRAL_CALL_ID).map_or(head, |(name, _)| name).trim();
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.is_empty() || !name.chars().all(allowed) {
        Named::No
    } else {
        Named::Yes { name, json }
    }
}

/// The length of the longest end of `text` that begins `mark` without completing it.
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
