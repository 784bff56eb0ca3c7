//! Messages with a header: reasoning, text for the user, and calls.

use super::{Parser, State, awaits_any, partial_mark, push_part};
use crate::Part;
use crate::forms::channels::{ANALYSIS, CHANNEL, MESSAGE, START, TO};
use crate::json::Scan;

/// A header has at most a name and a few words.
const MAX_HEADER_BYTES: usize = 512;

/// In a message that is no call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body {
    pub is_reasoning: bool,
    /// Something of it is returned; until then white space is dropped.
    pub begun: bool,
}

impl Body {
    fn new(is_reasoning: bool) -> Self {
        Self { is_reasoning, begun: false }
    }

    pub fn part(self, text: String) -> Part {
        if self.is_reasoning { Part::Reasoning(text) } else { Part::Content(text) }
    }
}

impl Parser {
    /// Reads up to the body of the next message. Text without a header is content.
    pub(super) fn header(&mut self, parts: &mut Vec<Part>) -> bool {
        let text = self.text.trim_start();
        let begins = [START, CHANNEL, "to=", MESSAGE];
        if awaits_any(text, begins) {
            return false;
        }
        if !begins.iter().any(|begin| text.starts_with(begin)) {
            self.state = State::Body(Body::new(false));
            return true;
        }
        let Some(end) = self.text.find(MESSAGE) else {
            if self.text.len() > MAX_HEADER_BYTES {
                self.state = State::Body(Body::new(false));
            }
            return self.text.len() > MAX_HEADER_BYTES;
        };
        let header: String = self.text.drain(..end + MESSAGE.len()).collect();
        let name = header.split_once(TO).map(|(_, rest)| {
            rest.split(|c: char| c.is_whitespace() || c == '<')
                .next()
                .unwrap_or_default()
                .to_owned()
        });
        self.state = match name {
            Some(name) if self.tools.is_some() && !name.is_empty() => {
                let (scan, in_list, in_object) = (Scan::default(), false, false);
                self.begin_call(parts, name, 0, State::Arguments { scan, in_list, in_object });
                return true;
            }
            _ if header.contains(ANALYSIS) => State::Body(Body::new(true)),
            _ => State::Body(Body::new(false)),
        };
        true
    }

    /// Returns the body of a message as it comes, up to the mark behind it.
    pub(super) fn body(&mut self, parts: &mut Vec<Part>) -> bool {
        let State::Body(body) = &mut self.state else { return false };
        if !body.begun {
            let space = self.text.len() - self.text.trim_start().len();
            self.text.drain(..space);
            body.begun = !self.text.is_empty();
        }
        let ends = || self.form.behind.iter().copied().chain([START, CHANNEL]);
        let found = ends().filter_map(|mark| Some((self.text.find(mark)?, mark)));
        let end = found.min_by_key(|(at, _)| *at);
        let partial = || ends().map(|mark| partial_mark(&self.text, mark)).max().unwrap_or(0);
        let known = end.map_or_else(|| self.text.len() - partial(), |(at, _)| at);
        let written = self.text[..known].trim_end().to_owned();
        let body = *body;
        let bytes = if end.is_some() { known } else { written.len() };
        self.text.drain(..bytes);
        push_part(parts, body.part(written));
        if let Some((_, mark)) = end {
            if ![START, CHANNEL].contains(&mark) {
                self.text.drain(..mark.len());
            }
            self.state = State::Header;
        }
        end.is_some()
    }
}
