//! Calls whose arguments are JSON: before the arguments, within them, and behind them.

use super::{MAX_NAME_BYTES, Parser, State};
use crate::Part;
use crate::call::{Arguments, Head, read_call, read_head, read_keyed, read_keyed_head};
use crate::forms::{Json, Named};
use crate::json::{Progress, Scan};

impl Parser {
    pub(super) fn call(&mut self, form: &'static Json, parts: &mut Vec<Part>) -> bool {
        let State::Call { call_at, scan, in_list, streams, .. } = &mut self.state else {
            return false;
        };
        let mut call = self.text[*call_at..].trim_start();
        if form.is_list
            && !*in_list
            && let Some(list) = call.strip_prefix('[')
        {
            (*call_at, *in_list) = (self.text.len() - list.len(), true);
            call = list.trim_start();
        }
        if call.is_empty() {
            return false;
        }
        let start = self.text.len() - call.len();
        let in_list = *in_list;
        if let Some(named) = &form.named
            && !in_list
            && !call.starts_with('{')
        {
            return self.named_call(named, start, parts);
        }
        if *streams {
            match if form.is_keyed { read_keyed_head(call) } else { read_head(call) } {
                Head::Call { name, arguments_at } => {
                    let state =
                        State::Arguments { scan: Scan::default(), in_list, in_object: true };
                    self.begin_call(parts, name, start + arguments_at, state);
                    return true;
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
        let json = &self.text[start..end];
        let call = match (form.is_keyed, form.is_bare) {
            (true, _) => read_keyed(json),
            (false, true) => read_call(json, Arguments::Required),
            (false, false) => read_call(json, Arguments::Optional),
        };
        let Some(call) = call else {
            return self.reject_call(parts, end);
        };
        self.text.drain(..end);
        let index = self.start_call(parts, call.name);
        parts.push(Part::ToolCallArguments { index, json_fragment: call.arguments });
        parts.push(Part::ToolCallEnd { index });
        self.state = State::behind_call(in_list);
        true
    }

    /// A name in front of the JSON. The call begins at `start`.
    pub(super) fn named_call(
        &mut self,
        form: &'static Named,
        start: usize,
        parts: &mut Vec<Part>,
    ) -> bool {
        let tools = self.tools.as_ref();
        let declares = |name: &str| tools.is_some_and(|tools| tools.declares(name));
        match split_name(form, &self.text[start..], declares) {
            Split::Incomplete => false,
            Split::No => self.reject_call(parts, 0),
            Split::Yes { name, json_at } => {
                let name = name.to_owned();
                let (scan, in_list, in_object) = (Scan::default(), false, false);
                let state = State::Arguments { scan, in_list, in_object };
                self.begin_call(parts, name, start + json_at, state);
                true
            }
        }
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
        self.state = if in_object {
            State::Tail { scan: Scan::in_object(), in_list }
        } else {
            State::behind_call(in_list)
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
}

/// The text between a mark and the arguments.
enum Split<'a> {
    Incomplete,
    No,
    Yes { name: &'a str, json_at: usize },
}

/// Finds the name in front of the `{` of the arguments: the longest that is declared, where it ends with one of the
/// form's marks, or else up to the first of these. The name of a tool may contain a mark, such as the `:` of Kimi K2.
fn split_name<'a>(form: &Named, call: &'a str, declares: impl Fn(&str) -> bool) -> Split<'a> {
    let Some(at) = call.find('{').filter(|&at| at <= MAX_NAME_BYTES) else {
        return if call.len() > MAX_NAME_BYTES { Split::No } else { Split::Incomplete };
    };
    let head = call[..at].trim();
    let name = head.strip_prefix(form.before_name).unwrap_or(head);
    let marks = form.name_ends.iter().flat_map(|end| name.match_indices(*end));
    let mut ends: Vec<usize> = marks.map(|(at, _)| at).chain([name.len()]).collect();
    ends.sort_unstable();
    let up_to = |end: usize| name[..end].trim();
    if let Some(name) = ends.iter().rev().map(|&end| up_to(end)).find(|name| declares(name)) {
        return Split::Yes { name, json_at: at };
    }
    let name = up_to(ends[0]);
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.is_empty() || !name.chars().all(allowed) {
        Split::No
    } else {
        Split::Yes { name, json_at: at }
    }
}
