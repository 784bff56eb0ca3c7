//! Calls in another notation than JSON, returned as JSON: texts as they come, other values when they
//! are complete.

use super::{Parser, State};
use crate::Part;
use crate::forms::Notation;
use crate::literal::{Arguments, End, Head, read_head};

impl Parser {
    pub(super) fn literal_call(
        &mut self,
        notation: Notation,
        call_at: usize,
        parts: &mut Vec<Part>,
    ) -> bool {
        let State::Call { in_list, .. } = self.state else { return false };
        match read_head(notation, in_list, &self.text[call_at..]) {
            Head::Incomplete => false,
            Head::No => self.reject_call(parts, call_at),
            Head::Call { name, arguments_at } => {
                let state = State::Literal(Arguments::new(notation));
                self.begin_call(parts, name, call_at + arguments_at, state);
                true
            }
        }
    }

    pub(super) fn literal(&mut self, parts: &mut Vec<Part>) -> bool {
        let State::Literal(arguments) = &mut self.state else { return false };
        let index = self.calls - 1;
        let piece = arguments.advance(&self.text);
        let is_list = arguments.is_python();
        self.text.drain(..piece.bytes);
        if !piece.json.is_empty() {
            parts.push(Part::ToolCallArguments { index, json_fragment: piece.json });
        }
        if piece.end == End::Open {
            return false;
        }
        parts.push(Part::ToolCallEnd { index });
        self.state = State::behind_call(is_list && piece.end == End::Closed);
        true
    }
}
