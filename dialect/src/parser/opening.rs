//! Where a call begins: the marks before it, whole or in part.

use super::{Parser, State};
use crate::call::at_name;
use crate::forms::{Call, Json};
use crate::mark::partial_mark;

/// Where the next call begins.
pub(super) enum Opening {
    /// The text from here on may be the beginning of a mark.
    Undecided(usize),
    /// The first mark, and the text behind the last one.
    Call { mark_at: usize, call_at: usize },
}

impl Parser {
    /// As [`Form::marks_names`](crate::forms::Form::marks_names).
    pub fn marks_names(&self) -> bool {
        self.form.marks_names()
    }

    /// Whether the arguments of a call stand in tags.
    pub fn reads_tags(&self) -> bool {
        matches!(self.form.call, Call::Tagged(_))
    }

    /// The text of a call from where its name follows, as long as nothing of the call is returned and
    /// if the form marks names.
    ///
    /// Behind a mark, it begins with the last letter of the mark. In JSON, it begins behind the `:` of
    /// the name, or behind the `{` where the name is a key. Where either JSON or a name follows the
    /// mark, it begins behind the mark.
    pub fn opened_call(&self) -> Option<&str> {
        if !self.marks_names() {
            return None;
        }
        let letter = self.form.before_name().1.len();
        match (&self.state, &self.form.call) {
            (State::Call { in_list: true, .. }, Call::Json(Json { named: Some(_), .. })) => None,
            (State::Call { call_at, streams, .. }, Call::Json(json)) => {
                let call = &self.text[*call_at..];
                match json {
                    Json { named: Some(_), .. } => Some(call),
                    Json { is_keyed: true, .. } => call.trim_start().strip_prefix('{'),
                    _ => streams.then(|| at_name(call)).flatten(),
                }
            }
            (State::Call { in_list: true, .. }, _) => None,
            (State::Call { call_at, .. }, _) => Some(&self.text[call_at - letter..]),
            (State::Header { .. }, Call::Channel(form)) => self.opened_header(form),
            (State::Content { .. } | State::CallBody, _) => self.half_opened(),
            (State::Reasoning { .. }, _) if self.form.calls_end_reasoning => self.half_opened(),
            _ => None,
        }
    }

    /// A mark of which only the last letter is missing opens a call behind another mark.
    fn half_opened(&self) -> Option<&str> {
        self.tools.as_ref()?;
        let mut text = self.text.trim_start();
        let mut is_behind = false;
        while let Some(rest) = self.form.before.iter().find_map(|mark| text.strip_prefix(mark)) {
            (text, is_behind) = (rest.trim_start(), true);
        }
        (is_behind && text == self.form.before_name().0).then_some("")
    }

    /// Whether the text so far ends with the marks of a call, or a part of them, and nothing of the call is
    /// returned.
    pub fn is_at_call(&self) -> bool {
        match &self.state {
            State::Call { call_at, .. } => !self.text[..*call_at].trim().is_empty(),
            State::CallBody => true,
            State::Tail { .. } | State::List => !self.text.trim().is_empty(),
            State::Start | State::Content { .. } => match self.opening() {
                Opening::Undecided(at) => at < self.text.len(),
                Opening::Call { .. } => true,
            },
            _ => false,
        }
    }

    /// Looks for the marks before a call. Marks of all calls together count only before a call.
    pub(super) fn opening(&self) -> Opening {
        let text = &self.text;
        let openings = || self.form.openings().filter(|_| self.tools.is_some());
        let mut from = 0;
        loop {
            let found = openings().filter_map(|mark| Some((from + text[from..].find(mark)?, mark)));
            let Some((mark_at, mark)) = found.min_by_key(|&(at, mark)| (at, mark.len())) else {
                let partial = openings().map(|mark| partial_mark(&text[from..], mark)).max();
                return Opening::Undecided(text.len() - partial.unwrap_or(0));
            };
            let mut call_at = mark_at + mark.len();
            if mark == self.form.open {
                return Opening::Call { mark_at, call_at };
            }
            loop {
                let rest = text[call_at..].trim_start();
                call_at = text.len() - rest.len();
                if let Some(mark) = openings().find(|mark| rest.starts_with(mark)) {
                    call_at += mark.len();
                    if mark == self.form.open {
                        return Opening::Call { mark_at, call_at };
                    }
                } else if openings().any(|mark| mark.starts_with(rest)) {
                    return Opening::Undecided(mark_at);
                } else {
                    break;
                }
            }
            from = mark_at + mark.len();
        }
    }
}
