//! Puts an answer together from the text of its tokens: content, reasoning, calls.
//!
//! Each push tells what is new, for a stream; the whole is there at any time, for the transcript
//! and for clients that wait.

use hob_dialect::{Dialect, Parser, Part};
use serde_json::{Value, json};

use crate::service::names;
use crate::wire::message::{Message, tool_call};

/// An answer that grows.
#[derive(Debug)]
pub struct Assembly {
    /// `None`: text is passed on as it is.
    parser: Option<Parser>,
    dialect: Dialect,
    content: String,
    reasoning: String,
    calls: Vec<Call>,
    is_reasoning: bool,
}

#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

/// What a piece of text added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delta {
    /// Text for the user.
    pub content: String,
    /// Text between think marks.
    pub reasoning: String,
    /// Pieces of calls, in OpenAI's shape.
    pub tool_calls: Vec<Value>,
}

impl Delta {
    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.content.is_empty() && self.reasoning.is_empty() && self.tool_calls.is_empty()
    }

    /// Into the call's last piece, where it is in this delta: each call has one entry a chunk.
    fn add_arguments(&mut self, index: usize, fragment: &str) {
        if let Some(last) = self.tool_calls.last_mut()
            && last["index"] == index
        {
            let before = last["function"]["arguments"].as_str().unwrap_or_default();
            last["function"]["arguments"] = format!("{before}{fragment}").into();
        } else {
            let piece = json!({"index": index, "function": {"arguments": fragment}});
            self.tool_calls.push(piece);
        }
    }

    /// Adds what came after it.
    pub fn append(&mut self, later: Self) {
        self.content.push_str(&later.content);
        self.reasoning.push_str(&later.reasoning);
        self.tool_calls.extend(later.tool_calls);
    }
}

impl Assembly {
    /// `reads_calls`: calls are read, rather than passed on as text. `thinks`: the prompt has
    /// opened the think mark.
    pub fn new(dialect: Dialect, reads_calls: bool, thinks: bool) -> Self {
        Self {
            parser: Some(Parser::new(dialect, reads_calls, thinks)),
            dialect,
            content: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
            is_reasoning: thinks,
        }
    }

    /// Passes every letter on as content.
    pub fn verbatim() -> Self {
        Self { parser: None, ..Self::new(Dialect::Plain, false, false) }
    }

    /// Takes the next piece of the answer.
    pub fn push(&mut self, text: &str) -> Delta {
        let parts = match &mut self.parser {
            Some(parser) => parser.push(text),
            None => vec![Part::Content(text.to_owned())],
        };
        self.take(parts)
    }

    /// Ends the answer.
    pub fn finish(&mut self) -> Delta {
        let parts = self.parser.as_mut().map(Parser::finish).unwrap_or_default();
        self.take(parts)
    }

    /// Whether the last text stood between think marks.
    pub fn is_reasoning(&self) -> bool {
        self.is_reasoning
    }

    /// Whether the model called a tool.
    pub fn calls_tools(&self) -> bool {
        !self.calls.is_empty()
    }

    /// What there is so far, as a message.
    pub fn message(&self) -> Message {
        let call = |call: &Call| tool_call(&call.id, &call.name, &call.arguments);
        let calls: Vec<Value> = self.calls.iter().map(call).collect();
        Message::answer(&self.content, &self.reasoning, &calls)
    }

    fn take(&mut self, parts: Vec<Part>) -> Delta {
        let mut delta = Delta::default();
        for part in parts {
            self.is_reasoning = matches!(part, Part::Reasoning(_));
            match part {
                Part::Content(text) => {
                    self.content.push_str(&text);
                    delta.content.push_str(&text);
                }
                Part::Reasoning(text) => {
                    self.reasoning.push_str(&text);
                    delta.reasoning.push_str(&text);
                }
                Part::ToolCallStart { index, name } => {
                    let id = names::call(self.dialect);
                    delta.tool_calls.push(json!({"index": index, "id": id, "type": "function",
                        "function": {"name": name, "arguments": ""}}));
                    self.calls.push(Call { id, name, arguments: String::new() });
                }
                Part::ToolCallArguments { index, json_fragment } => {
                    delta.add_arguments(index, &json_fragment);
                    if let Some(call) = self.calls.get_mut(index) {
                        call.arguments.push_str(&json_fragment);
                    }
                }
                Part::ToolCallEnd { .. } => {}
            }
        }
        delta
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_streamed_and_kept_whole() {
        let mut assembly = Assembly::new(Dialect::Hermes, true, false);
        let text = "<think>hm</think>Let me see.\n<tool_call>\n\
                    {\"name\": \"look\", \"arguments\": {\"at\": 1}}\n</tool_call>";
        let mut deltas: Vec<Delta> = text.split_inclusive(' ').map(|t| assembly.push(t)).collect();
        deltas.push(assembly.finish());

        let streamed: String = deltas.iter().map(|delta| delta.content.as_str()).collect();
        assert_eq!(streamed.trim_end(), "Let me see.");
        let first = deltas.iter().flat_map(|delta| &delta.tool_calls).next().unwrap();
        let message = assembly.message().to_json();
        assert_eq!(message["tool_calls"][0]["id"], first["id"]);
        assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{\"at\": 1}");
        assert_eq!(message["reasoning_content"], "hm");
        assert!(assembly.calls_tools());
    }

    #[test]
    fn an_answer_that_begins_inside_the_think_mark_is_reasoning() {
        let mut assembly = Assembly::new(Dialect::Plain, false, true);
        assert_eq!(assembly.push("so ").reasoning, "so");
        assert!(assembly.is_reasoning());
        let delta = assembly.push("it is</think>Yes");
        assert_eq!((delta.reasoning.as_str(), delta.content.as_str()), (" it is", "Yes"));
        assert!(!assembly.is_reasoning());
    }
}
