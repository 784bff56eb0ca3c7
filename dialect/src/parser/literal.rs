//! Calls in another notation than JSON: read when their closing mark is there, or the answer ends.

use super::{Parser, State};
use crate::Part;
use crate::forms::{Call, Notation};
use crate::literal::read;

impl Parser {
    pub(super) fn literal_call(
        &mut self,
        notation: Notation,
        call_at: usize,
        parts: &mut Vec<Part>,
    ) -> bool {
        let close = self.form.behind[0];
        let State::Call { searched, .. } = &mut self.state else { return false };
        let mut from = (*searched).max(call_at);
        while !self.text.is_char_boundary(from) {
            from -= 1;
        }
        let Some(len) = self.text[from..].find(close) else {
            *searched = self.text.len().saturating_sub(close.len());
            return false;
        };
        let end = from + len;
        self.return_literal(notation, call_at, end, parts) || self.reject_call(parts, end)
    }

    /// Reads a call without its closing mark at the end of the answer. Returns whether it is one.
    pub(super) fn end_literal(&mut self, parts: &mut Vec<Part>) -> bool {
        let (State::Call { call_at, .. }, Call::Literal(notation)) = (&self.state, &self.form.call)
        else {
            return false;
        };
        self.return_literal(*notation, *call_at, self.text.len(), parts)
    }

    fn return_literal(
        &mut self,
        notation: Notation,
        from: usize,
        end: usize,
        parts: &mut Vec<Part>,
    ) -> bool {
        let Some(calls) = read(notation, &self.text[from..end]) else { return false };
        self.text.drain(..end);
        for (name, json_fragment) in calls {
            let index = self.start_call(parts, name);
            parts.push(Part::ToolCallArguments { index, json_fragment });
            parts.push(Part::ToolCallEnd { index });
        }
        self.state = State::Called;
        true
    }
}
