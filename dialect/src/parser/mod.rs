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
//!
//! Reading order: this file (reasoning, content, and what follows a call), [`opening`] (where a call begins),
//! [`calls`] (calls in JSON), [`tagged`] (arguments in tags), [`literal`] (other notations), [`channels`] (messages
//! with a header).

mod calls;
mod channels;
mod literal;
mod opening;
mod tagged;

use crate::forms::{Call, Form, THINK};
use crate::json::Scan;
use crate::mark::partial_mark;
use crate::reasoning::written_marks;
use crate::{Dialect, Part, Signatures};
use opening::Opening;

/// Names have at most 64 bytes in OpenAI's interface; this leaves room for an id and marks.
const MAX_NAME_BYTES: usize = 256;

/// Reads one answer.
#[derive(Clone, Debug)]
pub struct Parser {
    form: &'static Form,
    /// `None`: calls are content.
    tools: Option<Signatures>,
    /// Closes reasoning that the prompt has opened, too: a fine-tuned model may think as others do. Or empty.
    other_close: &'static str,
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
    /// `text` begins with white space, the marks, more white space and the call itself.
    Call {
        call_at: usize,
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
    /// The name of a call with tags is returned.
    Tags(tagged::Tags),
    /// The name of a call in another notation is returned, and its arguments before `text`.
    Literal(crate::literal::Arguments),
    /// Before the body of a message; or within one, before what may be the next.
    Header {
        within: Option<channels::Body>,
    },
    /// In the body of a message.
    Body(channels::Body),
    /// In the message of a call, before its marks.
    CallBody,
    /// A call is complete; its closing marks may follow.
    Called,
}

impl State {
    fn call(call_at: usize, in_list: bool) -> Self {
        Self::Call { call_at, scan: Scan::default(), in_list, streams: true }
    }

    fn behind_call(in_list: bool) -> Self {
        if in_list { Self::List } else { Self::Called }
    }
}

impl Parser {
    /// `tools`: what the answer may call; `None` where calls are content. `starts_in_reasoning`: the
    /// prompt has opened the think mark, see [`opens_reasoning`](crate::opens_reasoning).
    pub fn new(dialect: Dialect, tools: Option<Signatures>, starts_in_reasoning: bool) -> Self {
        let form = dialect.form();
        let state = match (&form.call, starts_in_reasoning) {
            (Call::Channel(_), true) => State::Body(channels::Body::new(channels::Kind::Reasoning)),
            (_, true) => State::Reasoning { close: form.reasoning.1, begun: false },
            (Call::Channel(_), false) => State::Header { within: None },
            (_, false) => State::Start,
        };
        let other_close = if starts_in_reasoning && form.reasoning != THINK { THINK.1 } else { "" };
        Self { form, tools, other_close, state, text: String::new(), calls: 0 }
    }

    /// Parses the next chunk of the answer.
    pub fn push(&mut self, text: &str) -> Vec<Part> {
        self.text.push_str(text);
        let mut parts = Vec::new();
        while self.step(&mut parts) {}
        parts
    }

    /// [`Self::finish`] for an answer that was cut: marks of a call that it does not reach are left out.
    pub fn cut(&mut self) -> Vec<Part> {
        if self.is_at_call() {
            let content = match (&self.state, self.opening()) {
                (
                    State::Start | State::Content { .. },
                    Opening::Undecided(at) | Opening::Call { mark_at: at, .. },
                ) => self.text[..at].trim_end().len(),
                _ => 0,
            };
            self.text.truncate(content);
            self.state = State::Content { trims: false, is_empty: false };
        }
        self.finish()
    }

    /// Parses the rest at the end of the answer. Arguments that are not complete stay without an end.
    pub fn finish(&mut self) -> Vec<Part> {
        let mut parts = Vec::new();
        let rest = std::mem::take(&mut self.text);
        let part = match &self.state {
            State::Reasoning { .. } => Part::Reasoning(rest.trim_end().to_owned()),
            State::Body(body) if body.kind == channels::Kind::Reasoning => {
                body.part(rest.trim_end().to_owned())
            }
            State::Body(body) => body.part(rest),
            State::Content { trims: true, .. } | State::Tail { .. } | State::List => {
                Part::Content(rest.trim_start().to_owned())
            }
            // Where a header is a name alone, what may become one is words.
            State::Header { within } if self.has_wordy_headers() => {
                within.map_or(Part::Content(rest.clone()), |body| body.part(rest))
            }
            State::Called | State::Arguments { .. } | State::Header { .. } => {
                Part::Content(String::new())
            }
            State::Tags(tags) => tags.rest(&rest, self.calls - 1, self.form.behind),
            State::Literal(arguments) => {
                let json_fragment = arguments.rest(&rest);
                Part::ToolCallArguments { index: self.calls - 1, json_fragment }
            }
            State::Start | State::Content { .. } | State::Call { .. } | State::CallBody => {
                Part::Content(rest)
            }
        };
        push_part(&mut parts, part);
        parts
    }

    /// Parses one step. `false`: the parser needs more text.
    fn step(&mut self, parts: &mut Vec<Part>) -> bool {
        match &mut self.state {
            State::Start => self.start(),
            State::Reasoning { .. } => self.reasoning(parts),
            State::Content { .. } => self.content(parts),
            State::Call { call_at, .. } => {
                let call_at = *call_at;
                match &self.form.call {
                    Call::Json(json) => self.call(json, parts),
                    Call::Named(named) => self.named_call(named, call_at, parts),
                    Call::Tagged(tagged) => self.tagged_call(tagged, call_at, parts),
                    Call::Literal(notation) => self.literal_call(*notation, call_at, parts),
                    Call::Channel(channels) => match &channels.tagged {
                        Some(tagged) => self.tagged_call(tagged, call_at, parts),
                        None => false,
                    },
                }
            }
            State::Arguments { .. } => self.arguments(parts),
            State::Tail { .. } => self.tail(),
            State::List => self.next_of_list(),
            State::Tags(_) => self.tags(parts),
            State::Literal(_) => self.literal(parts),
            State::Header { .. } | State::Body(_) | State::CallBody => self.message(parts),
            State::Called => self.after_call(),
        }
    }

    fn start(&mut self) -> bool {
        let text = self.text.trim_start();
        let space = self.text.len() - text.len();
        let own_close = self.form.reasoning.1;
        if let Some((open, close)) = written_marks().find(|(open, _)| text.starts_with(open)) {
            self.text.drain(..space + open.len());
            self.state = State::Reasoning { close, begun: false };
        } else if text.starts_with(own_close) {
            // The model closes reasoning that it has not opened.
            self.text.drain(..space + own_close.len());
            self.state = State::Content { trims: true, is_empty: true };
        } else if written_marks().any(|(open, _)| open.starts_with(text))
            || own_close.starts_with(text)
        {
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
        let ends = [*close, self.form.before_text, self.other_close];
        let ends = || ends.into_iter().filter(|end| !end.is_empty());
        let found = ends().filter_map(|mark| Some((self.text.find(mark)?, mark)));
        let end = found.min_by_key(|(at, _)| *at);
        let partial = ends().map(|mark| partial_mark(&self.text, mark)).max().unwrap_or(0);
        let mut known = end.map_or(self.text.len() - partial, |(at, _)| at);
        let mut call = None;
        if self.form.calls_end_reasoning {
            let opening = self.opening();
            let (Opening::Undecided(at) | Opening::Call { mark_at: at, .. }) = opening;
            if let Opening::Call { call_at, .. } = opening
                && at < known
            {
                call = Some(call_at);
            }
            known = known.min(at);
        }
        let reasoning = self.text[..known].trim_end().to_owned();
        let bytes = reasoning.len();
        push_part(parts, Part::Reasoning(reasoning));
        self.state = match (call, end) {
            (Some(call_at), _) => State::call(call_at - bytes, false),
            (None, Some((end, mark))) if end == known => {
                self.text.drain(..end + mark.len());
                self.state = State::Content { trims: true, is_empty: true };
                return true;
            }
            (None, _) => {
                self.text.drain(..bytes);
                return false;
            }
        };
        self.text.drain(..bytes);
        true
    }

    fn content(&mut self, parts: &mut Vec<Part>) -> bool {
        let opening = self.opening();
        let reads_bare = matches!(&self.form.call, Call::Json(json) if json.is_bare);
        let State::Content { trims, is_empty } = &mut self.state else { return false };
        let space = self.text.len() - self.text.trim_start().len();
        if space == self.text.len() {
            return false;
        }
        if *is_empty && reads_bare && self.tools.is_some() && self.text[space..].starts_with('{') {
            self.state = State::call(space, false);
            return true;
        }
        let (Opening::Undecided(mut end) | Opening::Call { mark_at: mut end, .. }) = opening;
        let marks = self.form.silent.iter();
        let first = marks.filter_map(|mark| Some((self.text.find(*mark)?, *mark))).min();
        let silent = first.filter(|(at, _)| *at < end);
        let partial = self.form.silent.iter().map(|mark| partial_mark(&self.text, mark)).max();
        end = end.min(self.text.len() - partial.unwrap_or(0));
        end = silent.map_or(end, |(at, _)| at);
        let mut content = self.text[..end].trim_end().to_owned();
        let content_bytes = content.len();
        if content_bytes > 0 {
            if std::mem::take(trims) {
                content.drain(..space);
            }
            *is_empty = false;
        }
        self.text.drain(..content_bytes);
        push_part(parts, Part::Content(content));
        if let Some((at, mark)) = silent {
            let at = at - content_bytes;
            self.text.replace_range(at..at + mark.len(), "");
            return true;
        }
        let Opening::Call { call_at, .. } = opening else { return false };
        self.state = State::call(call_at - content_bytes, false);
        true
    }

    /// Returns the name of a call; `text` goes on behind `bytes`.
    fn begin_call(&mut self, parts: &mut Vec<Part>, name: String, bytes: usize, state: State) {
        self.start_call(parts, name);
        self.text.drain(..bytes);
        self.state = state;
    }

    fn start_call(&mut self, parts: &mut Vec<Part>, name: String) -> usize {
        let index = self.calls;
        self.calls += 1;
        parts.push(Part::ToolCallStart { index, name });
        index
    }

    /// Returns the text up to `end` as content: it is not a call.
    fn reject_call(&mut self, parts: &mut Vec<Part>, end: usize) -> bool {
        let State::Call { call_at, .. } = self.state else { return false };
        let content = self.text.drain(..end.max(call_at)).collect();
        self.state = State::Content { trims: false, is_empty: false };
        push_part(parts, Part::Content(content));
        true
    }

    fn after_call(&mut self) -> bool {
        let text = self.text.trim_start();
        let behind = self.form.behind;
        if let Some(mark) = behind.iter().find(|mark| text.starts_with(**mark)) {
            self.text = text[mark.len()..].to_owned();
            return true;
        }
        if behind.iter().any(|mark| mark.starts_with(text)) {
            return false; // Also when the text ends here.
        }
        // Llama 3 writes several calls one after the other, without marks.
        self.state = match self.form.call {
            Call::Channel(_) => State::Header { within: None },
            _ => State::Content { trims: true, is_empty: true },
        };
        true
    }
}

fn push_part(parts: &mut Vec<Part>, part: Part) {
    let (Part::Content(text)
    | Part::Reasoning(text)
    | Part::ToolCallArguments { json_fragment: text, .. }) = &part
    else {
        return parts.push(part);
    };
    if !text.is_empty() {
        parts.push(part);
    }
}

#[cfg(test)]
mod tests;
