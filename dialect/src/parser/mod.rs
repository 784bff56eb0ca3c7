//! Splits a streamed answer into content, reasoning and calls.
//!
//! - The parser returns text as soon as it cannot be the beginning of a mark. White space waits for
//!   the text that follows it.
//! - Only the beginning of an answer can be reasoning; marks inside it have no meaning.
//! - The parser returns the name of a call when its arguments begin, and then the arguments as they
//!   come. From there on it is a call, whatever follows: arguments that end early or are no JSON are
//!   returned as the model wrote them.
//! - A call in another order of members is returned when it is complete. Its text is content if it is
//!   invalid, and so is the text of a call that breaks off before its arguments.

mod calls;

use crate::json::Scan;
use crate::{Dialect, HERMES_CLOSE, HERMES_OPEN, LLAMA_PYTHON, MISTRAL_CALLS, Part};

/// The marks that open and close reasoning.
const THINK_MARKS: [(&str, &str); 2] = [("<think>", "</think>"), ("[THINK]", "[/THINK]")];

/// Whether a rendered prompt ends with an open think mark, so that the answer begins with
/// reasoning.
pub fn opens_reasoning(prompt: &str) -> bool {
    let end = prompt.trim_end();
    THINK_MARKS.iter().any(|(open, _)| end.ends_with(open))
}

/// The text that a model has written for this answer, as far as its marks are known.
/// `starts_in_reasoning`: as for [`Parser::new`]. Calls are not written.
pub fn written(
    dialect: Dialect,
    starts_in_reasoning: bool,
    reasoning: &str,
    content: &str,
) -> String {
    let (open, close) = THINK_MARKS[usize::from(dialect == Dialect::Mistral)];
    let mut text = String::new();
    if !reasoning.is_empty() && !starts_in_reasoning {
        text = format!("{open}\n");
    }
    text.push_str(reasoning);
    let has_reasoning = starts_in_reasoning || !reasoning.is_empty();
    if has_reasoning && !content.is_empty() {
        text.push_str(&format!("\n{close}\n\n"));
    }
    text.push_str(content);
    text
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
        in_list: bool,
        /// It begins with its name, or may do so; else it is read when it is complete.
        streams: bool,
    },
    /// The name and the arguments before `text` are returned.
    Arguments {
        scan: Scan,
        in_list: bool,
        /// Other members and a `}` follow.
        in_object: bool,
    },
    /// The arguments are returned; `text` ends the object around them.
    Tail {
        scan: Scan,
        in_list: bool,
    },
    /// Behind a call of a list.
    List,
    /// A call is complete; its closing mark may follow.
    Called,
}

impl State {
    fn call(json_at: usize, in_list: bool) -> Self {
        Self::Call { json_at, scan: Scan::default(), in_list, streams: true }
    }

    fn behind_call(in_list: bool) -> Self {
        if in_list { Self::List } else { Self::Called }
    }
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

    /// Parses the rest at the end of the answer. Arguments that are not complete stay without an end.
    pub fn finish(&mut self) -> Vec<Part> {
        let rest = std::mem::take(&mut self.text);
        let part = match self.state {
            State::Reasoning { .. } => Part::Reasoning(rest.trim_end().to_owned()),
            State::Content { trims: true, .. } | State::Tail { .. } | State::List => {
                Part::Content(rest.trim_start().to_owned())
            }
            State::Called | State::Arguments { .. } => Part::Content(String::new()),
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
            State::Arguments { .. } => self.arguments(parts),
            State::Tail { .. } => self.tail(),
            State::List => self.next_of_list(),
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
            self.state = State::call(space, false);
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
            self.state = State::call(json_at, false);
        }
        found.is_some()
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
