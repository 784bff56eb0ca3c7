//! Messages with a header: reasoning, text for the user, and calls.

use super::{Opening, Parser, State, push_part};
use crate::Part;
use crate::forms::{Call, Channels};
use crate::json::Scan;
use crate::mark::{awaits_any, partial_mark};

/// A header has at most a name and a few words.
const MAX_HEADER_BYTES: usize = 512;

/// In a message that is no call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body {
    pub kind: Kind,
    /// Something of it is returned; until then white space is dropped.
    pub begun: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Content,
    Reasoning,
    /// For a tool that is built into the model's interface, and not offered.
    Dropped,
}

impl Body {
    pub fn new(kind: Kind) -> Self {
        Self { kind, begun: false }
    }

    pub fn part(self, text: String) -> Part {
        match self.kind {
            Kind::Content => Part::Content(text),
            Kind::Reasoning => Part::Reasoning(text),
            Kind::Dropped => Part::Content(String::new()),
        }
    }
}

/// The text before the body of a message.
enum Header {
    Incomplete,
    No,
    /// Its length in bytes, with white space before it.
    Yes(usize),
}

impl Channels {
    fn header(&self, text: &str) -> Header {
        let trimmed = text.trim_start();
        let space = text.len() - trimmed.len();
        let begins = || self.starts.iter().copied().chain([self.to, self.header_end]);
        if trimmed.is_empty() || awaits_any(trimmed, begins()) {
            return Header::Incomplete;
        }
        if !begins().any(|begin| trimmed.starts_with(begin)) {
            return Header::No;
        }
        let is_cut = trimmed.len() > MAX_HEADER_BYTES;
        let head = &trimmed.as_bytes()[..trimmed.len().min(MAX_HEADER_BYTES)];
        let mark = self.header_end.as_bytes();
        let end = head.windows(mark.len()).position(|window| window == mark);
        let name = self.without_start(&trimmed[..end.unwrap_or(0)]);
        let is_name = |text: &str| text.trim_end().chars().all(is_of_name);
        match end {
            Some(end) if !self.to.is_empty() || is_name(name) => {
                Header::Yes(space + end + mark.len())
            }
            None if !is_cut && (!self.to.is_empty() || is_name(self.without_start(trimmed))) => {
                Header::Incomplete
            }
            _ => Header::No,
        }
    }

    fn without_start<'a>(&self, text: &'a str) -> &'a str {
        self.starts.iter().find_map(|start| text.strip_prefix(start)).unwrap_or(text)
    }

    /// Whom a message is for.
    fn recipient<'a>(&self, header: &'a str) -> Option<&'a str> {
        let header = header.trim().trim_end_matches(self.header_end);
        if self.to.is_empty() {
            return Some(self.without_start(header).trim());
        }
        let (_, rest) = header.split_once(self.to)?;
        rest.split(|c: char| c.is_whitespace() || c == '<').next()
    }
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.:".contains(c)
}

impl Parser {
    pub(super) fn message(&mut self, parts: &mut Vec<Part>) -> bool {
        let Call::Channel(form) = &self.form.call else { return false };
        match self.state {
            State::Header { .. } => self.header(form, parts),
            State::Body(_) => self.body(form, parts),
            _ => self.call_body(),
        }
    }

    /// The header of a call, from the last letter before the name on.
    pub(super) fn opened_header(&self, form: &Channels) -> Option<&str> {
        self.tools.as_ref()?;
        let (before, _) = self.form.before_name();
        let (_, recipient) = self.text.split_once(form.to).filter(|_| !before.is_empty())?;
        recipient.strip_prefix(before)
    }

    pub(super) fn has_wordy_headers(&self) -> bool {
        matches!(&self.form.call, Call::Channel(form) if form.to.is_empty())
    }

    /// Reads up to the body of the next message. Text without a header is content, or goes on with
    /// the body before it.
    pub(super) fn header(&mut self, form: &'static Channels, parts: &mut Vec<Part>) -> bool {
        let State::Header { within } = self.state else { return false };
        let end = match form.header(&self.text) {
            Header::Incomplete => return false,
            Header::Yes(end) if self.has_recipient(form, &self.text[..end]) => end,
            Header::Yes(_) | Header::No => {
                self.reject_header(form, within, parts);
                return true;
            }
        };
        let header: String = self.text.drain(..end).collect();
        let recipient = form.recipient(&header);
        let is_reasoning = form.reasoning.is_some_and(|mark| header.contains(mark));
        let function = recipient.and_then(|name| name.strip_prefix(form.function));
        let function = function.filter(|name| {
            let is_reserved = *name == form.user || is_reasoning;
            let may_be = !form.function.is_empty() || !is_reserved;
            self.tools.is_some() && !name.is_empty() && may_be
        });
        if let Some(name) = function {
            if form.tagged.is_some() {
                self.state = State::CallBody;
                return true;
            }
            let (scan, in_list, in_object) = (Scan::default(), false, false);
            let state = State::Arguments { scan, in_list, in_object };
            self.begin_call(parts, name.to_owned(), 0, state);
            return true;
        }
        let is_known = |name: &str| name == form.user || name.starts_with(form.function);
        self.state = State::Body(Body::new(match recipient {
            _ if is_reasoning => Kind::Reasoning,
            Some(name) if !is_known(name) => Kind::Dropped,
            _ => Kind::Content,
        }));
        true
    }

    /// Where a header is nothing but a name, only names that are known make one.
    fn has_recipient(&self, form: &Channels, header: &str) -> bool {
        let is_known = |name: &str| {
            name == form.user || self.tools.as_ref().is_some_and(|tools| tools.declares(name))
        };
        !form.to.is_empty() || form.recipient(header).is_some_and(is_known)
    }

    /// The mark that looked like the beginning of a message is text.
    fn reject_header(&mut self, form: &Channels, within: Option<Body>, parts: &mut Vec<Part>) {
        let text = self.text.trim_start();
        let space = self.text.len() - text.len();
        let mark = form.starts.iter().find(|start| text.starts_with(**start));
        let mark_bytes = mark.map_or(0, |mark| mark.len());
        let mut body = within.unwrap_or(Body::new(Kind::Content));
        let from = if body.begun { 0 } else { space };
        if mark_bytes > 0 {
            let written: String = self.text.drain(..space + mark_bytes).collect();
            push_part(parts, body.part(written[from..].to_owned()));
            body.begun = true;
        }
        self.state = State::Body(body);
    }

    /// Looks for the marks of a call, with which the message begins.
    pub(super) fn call_body(&mut self) -> bool {
        let space = self.text.len() - self.text.trim_start().len();
        self.state = match self.opening() {
            Opening::Undecided(at) if at <= space => return false,
            Opening::Call { mark_at, call_at } if mark_at == space => State::call(call_at, false),
            _ => State::Body(Body::new(Kind::Content)),
        };
        true
    }

    /// Returns the body of a message as it comes, up to the mark behind it.
    pub(super) fn body(&mut self, form: &'static Channels, parts: &mut Vec<Part>) -> bool {
        let State::Body(body) = &mut self.state else { return false };
        if !body.begun {
            let space = self.text.len() - self.text.trim_start().len();
            self.text.drain(..space);
            body.begun = !self.text.is_empty();
        }
        let ends = || form.ends.iter().chain(form.starts).copied();
        let found = ends().filter_map(|mark| Some((self.text.find(mark)?, mark)));
        let end = found.min_by_key(|(at, _)| *at);
        let partial = || ends().map(|mark| partial_mark(&self.text, mark)).max().unwrap_or(0);
        let known = end.map_or_else(|| self.text.len() - partial(), |(at, _)| at);
        let written = self.text[..known].trim_end().to_owned();
        let body = *body;
        self.text.drain(..written.len());
        let space = known - written.len();
        push_part(parts, body.part(written));
        let Some((_, mark)) = end else { return false };
        self.state = if form.starts.contains(&mark) {
            State::Header { within: Some(body) }
        } else {
            self.text.drain(..space + mark.len());
            State::Header { within: None }
        };
        true
    }
}
