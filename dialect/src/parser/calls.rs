//! The states of a parser inside a call: before its arguments, within them, and behind them.

use super::{Parser, State, push_part};
use crate::call::{Arguments, Head, read_call, read_head};
use crate::json::{Progress, Scan};
use crate::{Dialect, MISTRAL_ARGUMENTS, Part};

/// Separates name and id in newer Mistral models.
const MISTRAL_CALL_ID: &str = "[CALL_ID]";

impl Parser {
    pub(super) fn call(&mut self, parts: &mut Vec<Part>) -> bool {
        let State::Call { json_at, scan, in_list, streams } = &mut self.state else { return false };
        let marked = &self.text[*json_at..];
        let mut call = marked.trim_start();
        if self.dialect == Dialect::Mistral
            && !*in_list
            && let Some(list) = call.strip_prefix('[')
        {
            (*json_at, *in_list) = (self.text.len() - list.len(), true);
            call = list.trim_start();
        }
        if call.is_empty() {
            return false;
        }
        let start = self.text.len() - call.len();
        let in_list = *in_list;
        if self.dialect == Dialect::Mistral && !in_list && !call.starts_with('{') {
            return match split_name(call) {
                Named::Incomplete => false,
                Named::No => self.reject_call(parts, 0),
                Named::Yes { name, json_at } => {
                    self.begin_call(parts, name.to_owned(), start + json_at, in_list, false)
                }
            };
        }
        if *streams {
            match read_head(call) {
                Head::Call { name, arguments_at } => {
                    return self.begin_call(parts, name, start + arguments_at, in_list, true);
                }
                Head::Other => *streams = false,
                Head::Incomplete => {}
            }
        }
        let end = match scan.advance(call) {
            Progress::Incomplete => return false,
            Progress::Broken(len) => return self.reject_call(parts, start + len),
            Progress::Complete(len) => start + len,
        };
        let arguments = match self.dialect {
            Dialect::Llama3 => Arguments::Required,
            _ => Arguments::Optional,
        };
        let Some(call) = read_call(&self.text[start..end], arguments) else {
            return self.reject_call(parts, end);
        };
        self.text.drain(..end);
        let index = self.start_call(parts, call.name);
        parts.push(Part::ToolCallArguments { index, json_fragment: call.arguments });
        parts.push(Part::ToolCallEnd { index });
        self.state = State::behind_call(in_list);
        true
    }

    /// Returns the name; the arguments begin at `arguments_at`.
    fn begin_call(
        &mut self,
        parts: &mut Vec<Part>,
        name: String,
        arguments_at: usize,
        in_list: bool,
        in_object: bool,
    ) -> bool {
        self.start_call(parts, name);
        self.text.drain(..arguments_at);
        self.state = State::Arguments { scan: Scan::default(), in_list, in_object };
        true
    }

    fn start_call(&mut self, parts: &mut Vec<Part>, name: String) -> usize {
        let index = self.calls;
        self.calls += 1;
        parts.push(Part::ToolCallStart { index, name });
        index
    }

    pub(super) fn arguments(&mut self, parts: &mut Vec<Part>) -> bool {
        let State::Arguments { scan, in_list, in_object } = &mut self.state else { return false };
        let (in_list, in_object, index) = (*in_list, *in_object, self.calls - 1);
        let (len, is_over) = match scan.advance(&self.text) {
            Progress::Incomplete => (self.text.len(), false),
            Progress::Broken(len) | Progress::Complete(len) => (len, true),
        };
        let json_fragment: String = self.text.drain(..len).collect();
        if !json_fragment.is_empty() {
            parts.push(Part::ToolCallArguments { index, json_fragment });
        }
        if !is_over {
            scan.drop_front(len);
            return false;
        }
        parts.push(Part::ToolCallEnd { index });
        self.state = match in_object {
            true => State::Tail { scan: Scan::in_object(), in_list },
            false => State::behind_call(in_list),
        };
        true
    }

    pub(super) fn tail(&mut self) -> bool {
        let State::Tail { scan, in_list } = &mut self.state else { return false };
        match scan.advance(&self.text) {
            Progress::Incomplete => return false,
            Progress::Complete(len) => drop(self.text.drain(..len)),
            Progress::Broken(_) => {} // Whatever follows, the call is over.
        }
        self.state = State::behind_call(*in_list);
        true
    }

    pub(super) fn next_of_list(&mut self) -> bool {
        let text = self.text.trim_start();
        let space = self.text.len() - text.len();
        self.state = match text.chars().next() {
            None => return false,
            Some(',') => State::call(space + 1, true),
            Some(']') => {
                self.text.drain(..=space);
                State::Called
            }
            Some(_) => State::Called,
        };
        true
    }

    /// Returns the text up to `end` as content: it is not a call.
    fn reject_call(&mut self, parts: &mut Vec<Part>, end: usize) -> bool {
        let State::Call { json_at, .. } = self.state else { return false };
        let content = self.text.drain(..end.max(json_at)).collect();
        self.state = State::Content { trims: false, is_empty: false };
        push_part(parts, Part::Content(content));
        true
    }
}

/// Names have at most 64 bytes in OpenAI's interface; this leaves room for an id and marks.
const MAX_NAME_BYTES: usize = 256;

/// The text between a Mistral mark and the arguments.
enum Named<'a> {
    Incomplete,
    No,
    Yes { name: &'a str, json_at: usize },
}

/// `name[CALL_ID]id[ARGS]{…` or `name{…`, as newer Mistral models write it.
fn split_name(call: &str) -> Named<'_> {
    let Some(at) = call.find('{').filter(|&at| at <= MAX_NAME_BYTES) else {
        return if call.len() > MAX_NAME_BYTES { Named::No } else { Named::Incomplete };
    };
    let head = call[..at].trim_end();
    let name_and_id = head.strip_suffix(MISTRAL_ARGUMENTS).unwrap_or(head);
    let name = name_and_id.split(MISTRAL_CALL_ID).next().unwrap_or_default().trim();
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.is_empty() || !name.chars().all(allowed) {
        Named::No
    } else {
        Named::Yes { name, json_at: at }
    }
}
