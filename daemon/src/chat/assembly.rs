//! Parses the text of an answer into content, reasoning and tool calls.
//!
//! - Each push returns what is new, for streams. The message so far is available at any time, for
//!   the transcript and for clients that wait.

use hob_dialect::{Dialect, Parser, Part, Signatures};
use serde_json::{Value, json};

use super::names;
use crate::wire::message::{Message, tool_call};

/// How an answer is parsed.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    pub dialect: Dialect,
    /// The tools that are offered; `None`: calls are passed on as text.
    pub tools: Option<Signatures>,
    /// Calls of these tools are left out of the answer.
    pub drops_calls: bool,
    /// Calls behind the first are left out.
    pub has_one_call: bool,
}

#[derive(Debug)]
pub struct Assembly {
    /// `None`: all text is content.
    parser: Option<Parser>,
    dialect: Dialect,
    drops_calls: bool,
    has_one_call: bool,
    content: String,
    reasoning: String,
    calls: Vec<Call>,
    /// The arguments of the last call are not over.
    is_in_call: bool,
    is_reasoning: bool,
}

#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    arguments: String,
    /// The number that another engine gave it.
    given: Option<u64>,
}

/// What a push added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delta {
    pub content: String,
    pub reasoning: String,
    /// In OpenAI's form of streamed calls.
    pub tool_calls: Vec<Value>,
}

impl Delta {
    pub fn is_empty(&self) -> bool {
        self.content.is_empty() && self.reasoning.is_empty() && self.tool_calls.is_empty()
    }

    /// One entry of a call each, as OpenAI streams them: a call's name comes before its arguments, and the rest of an
    /// open call before the text behind it.
    pub fn split(self) -> Vec<Self> {
        let Self { content, reasoning, tool_calls: mut rest } = self;
        let has_text = !content.is_empty() || !reasoning.is_empty();
        let open = rest.iter().take_while(|piece| has_text && !begins_call(piece)).count();
        let mut begun = rest.split_off(open);
        let further = begun.split_off(begun.len().min(1));
        let one = |call| Self { tool_calls: vec![call], ..Self::default() };
        let text = Self { content, reasoning, tool_calls: begun };
        let before = rest.into_iter().map(one);
        before.chain(std::iter::once(text)).chain(further.into_iter().map(one)).collect()
    }

    pub fn append(&mut self, later: Self) {
        self.content.push_str(&later.content);
        self.reasoning.push_str(&later.reasoning);
        self.tool_calls.extend(later.tool_calls);
    }
}

/// Whether a piece in OpenAI's form is the first of its call.
pub fn begins_call(piece: &Value) -> bool {
    piece["id"].is_string()
}

impl Assembly {
    /// `thinks`: the prompt ends inside the think mark.
    pub fn new(reading: &Reading, thinks: bool) -> Self {
        let Reading { dialect, tools, drops_calls, has_one_call } = reading;
        Self {
            parser: Some(Parser::new(*dialect, tools.clone(), thinks)),
            dialect: *dialect,
            drops_calls: *drops_calls,
            has_one_call: *has_one_call,
            content: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
            is_in_call: false,
            is_reasoning: thinks,
        }
    }

    /// An assembly behind the text with which the answer has begun.
    pub fn begun(reading: &Reading, thinks: bool, text: &str) -> Self {
        let mut assembly = Self::new(reading, thinks);
        assembly.push(text);
        assembly
    }

    /// Keeps the reasoning of the answer that goes on where the begun text has none: the model has no form for it.
    pub fn keep_reasoning(&mut self, reasoning: &str) {
        if self.reasoning.is_empty() {
            self.reasoning.push_str(reasoning);
        }
    }

    /// Passes all text on as content.
    pub fn verbatim() -> Self {
        Self { parser: None, ..Self::new(&Reading::default(), false) }
    }

    pub fn push(&mut self, text: &str) -> Delta {
        let parts = match &mut self.parser {
            Some(parser) => parser.push(text),
            None => vec![Part::Content(text.to_owned())],
        };
        self.add(parts)
    }

    /// Adds what another engine has parsed. Returns it with each call in OpenAI's form: its first piece has the id and
    /// the name, and no other has.
    pub fn accept(&mut self, mut delta: Delta) -> Delta {
        self.content.push_str(&delta.content);
        self.reasoning.push_str(&delta.reasoning);
        self.is_reasoning = delta.content.is_empty() && !delta.reasoning.is_empty();
        for piece in &mut delta.tool_calls {
            let text = |pointer: &str| {
                piece.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            let (id, name, arguments) =
                (text("/id"), text("/function/name"), text("/function/arguments"));
            let given = piece["index"].as_u64();
            let known = self.known_call(given, &id, &name);
            let index = known.unwrap_or(self.calls.len());
            // A call's name comes before its arguments.
            if known.is_none() {
                let id = if id.is_empty() { names::call(self.dialect) } else { id };
                *piece = json!({"index": index, "id": id, "type": "function",
                    "function": {"name": name, "arguments": arguments}});
                self.calls.push(Call { id, name, arguments: String::new(), given });
            } else {
                *piece = json!({"index": index, "function": {"arguments": arguments}});
            }
            self.calls[index].arguments.push_str(&arguments);
        }
        delta
    }

    /// The place of the call with which a piece of another engine goes on; `None`: it begins one. Engines number calls
    /// from 0 or from 1, or give each the number 0 or none: a name with an id of its own begins another call.
    fn known_call(&self, given: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let place = match given {
            Some(_) => self.calls.iter().rposition(|call| call.given == given)?,
            None => self.calls.len().checked_sub(1)?,
        };
        let may_begin = !name.is_empty() && (given.is_none() || !id.is_empty());
        (!may_begin || self.calls[place].id == id).then_some(place)
    }

    pub fn finish(&mut self) -> Delta {
        let parts = self.parser.as_mut().map(Parser::finish).unwrap_or_default();
        self.add(parts)
    }

    /// Finishes an answer that was cut: marks of a call that it does not reach are no content.
    pub fn cut(&mut self) -> Delta {
        let parts = self.parser.as_mut().map(Parser::cut).unwrap_or_default();
        self.add(parts)
    }

    /// Whether the last text was reasoning.
    pub fn is_reasoning(&self) -> bool {
        self.is_reasoning
    }

    pub fn calls_tools(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Whether the text so far ends within the arguments of a call.
    pub fn is_in_arguments(&self) -> bool {
        self.is_in_call
    }

    /// Whether the text so far ends within a call: in its marks, or in its arguments.
    pub fn is_in_call(&self) -> bool {
        let is_at_call = || self.parser.as_ref().is_some_and(Parser::is_at_call);
        self.is_in_call || !self.drops_calls && is_at_call()
    }

    /// The message so far.
    pub fn message(&self) -> Message {
        let call = |call: &Call| tool_call(&call.id, &call.name, &call.arguments);
        let calls: Vec<Value> = self.calls.iter().map(call).collect();
        Message::answer(&self.content, &self.reasoning, &calls)
    }

    fn add(&mut self, parts: Vec<Part>) -> Delta {
        let mut delta = Delta::default();
        for part in parts {
            self.is_reasoning = matches!(part, Part::Reasoning(_));
            match part {
                Part::ToolCallStart { index, .. }
                | Part::ToolCallArguments { index, .. }
                | Part::ToolCallEnd { index }
                    if self.drops_calls || self.has_one_call && index > 0 => {}
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
                    self.calls.push(Call { id, name, arguments: String::new(), given: None });
                    self.is_in_call = true;
                }
                Part::ToolCallArguments { index, json_fragment } => {
                    let piece = json!({"index": index, "function": {"arguments": json_fragment}});
                    delta.tool_calls.push(piece);
                    if let Some(call) = self.calls.get_mut(index) {
                        call.arguments.push_str(&json_fragment);
                    }
                }
                Part::ToolCallEnd { .. } => self.is_in_call = false,
            }
        }
        delta
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hermes() -> Reading {
        Reading {
            dialect: Dialect::Hermes,
            tools: Some(Signatures::default()),
            ..Reading::default()
        }
    }

    #[test]
    fn calls_are_streamed_and_complete_in_the_message() {
        let mut assembly = Assembly::new(&hermes(), false);
        let text = "<think>hm</think>Let me see.\n<tool_call>\n\
                    {\"name\": \"look\", \"arguments\": {\"at\": 1}}\n</tool_call>";
        let mut deltas: Vec<Delta> = text.split_inclusive(' ').map(|t| assembly.push(t)).collect();
        deltas.push(assembly.finish());

        let streamed: String = deltas.iter().map(|delta| delta.content.as_str()).collect();
        assert_eq!(streamed.trim_end(), "Let me see.");
        let pieces = deltas.into_iter().flat_map(Delta::split).flat_map(|delta| delta.tool_calls);
        let pieces: Vec<Value> = pieces.collect();
        let message = assembly.message().to_json();
        assert_eq!(message["tool_calls"][0]["id"], pieces[0]["id"]);
        let arguments = |piece: &Value| piece["function"]["arguments"].as_str().unwrap().to_owned();
        let arguments: Vec<String> = pieces.iter().map(arguments).collect();
        assert_eq!(arguments, ["", "{\"at\": ", "1}"]);
        assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{\"at\": 1}");
        assert_eq!(message["reasoning_content"], "hm");
        assert!(assembly.calls_tools());
    }

    #[test]
    fn a_call_that_broke_off_has_the_arguments_so_far() {
        let mut assembly = Assembly::new(&hermes(), false);
        assembly.push("<tool_call>{\"name\": \"look\", \"arguments\": {\"at\"");
        assembly.finish();
        assert!(assembly.calls_tools() && assembly.is_in_call());
        let message = assembly.message().to_json();
        assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{\"at\"");
    }

    #[test]
    fn calls_that_are_not_wanted_and_marks_of_cut_ones_are_left_out() {
        let text = "So.\n<tool_call>\n{\"name\": \"look\", \"arguments\": {}}\n</tool_call>";
        let mut unwanted = Assembly::new(&Reading { drops_calls: true, ..hermes() }, false);
        unwanted.push(text);
        unwanted.finish();
        assert_eq!(unwanted.message().text(), "So.");
        assert!(!unwanted.calls_tools() && !unwanted.is_in_call());

        let mut cut = Assembly::new(&hermes(), false);
        cut.push(&text[..20]);
        assert!(cut.is_in_call());
        cut.cut();
        assert_eq!(cut.message().text().trim_end(), "So.");
    }

    #[test]
    fn what_another_engine_has_parsed_is_collected() {
        let mut assembly = Assembly::verbatim();
        let call = |index: u64, arguments: &str| {
            json!({"index": index, "id": format!("c{index}"), "type": "function",
                "function": {"name": "look", "arguments": arguments}})
        };
        let more = |index: u64, arguments: &str| json!({"index": index, "function": {"arguments": arguments}});
        let with = |tool_calls| Delta { tool_calls, ..Delta::default() };
        assembly.accept(Delta { reasoning: "hm".into(), ..Delta::default() });
        assert!(assembly.is_reasoning());
        assembly.accept(with(vec![call(0, "{\"at\""), more(0, ": 1}"), call(1, "{}")]));
        let message = assembly.message().to_json();
        assert_eq!(message["reasoning_content"], "hm");
        assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{\"at\": 1}");
        assert_eq!(message["tool_calls"][1]["id"], "c1");
        assert!(assembly.calls_tools() && !assembly.is_reasoning());
    }

    #[test]
    fn the_rest_of_an_open_call_comes_before_the_text_behind_it() {
        let mut assembly = Assembly::new(&hermes(), false);
        assembly.push("<tool_call>{\"name\": \"look\", \"arguments\": {\"at\": ");
        let mut delta = assembly.push("1}}</tool_call>So.");
        delta.append(assembly.finish());
        let parts = delta.split();
        let has_call = |part: &&Delta| !part.tool_calls.is_empty();
        let calls = parts.iter().take_while(has_call).count();
        assert!(calls > 0 && calls + 1 == parts.len(), "{parts:?}");
        assert_eq!(parts[calls].content.trim(), "So.");
        assert!(parts[..calls].iter().all(|part| part.content.is_empty()), "{parts:?}");
    }

    #[test]
    fn a_call_of_another_engine_begins_once_whatever_it_repeats() {
        let piece = |id: Value, name: Value, arguments: &str| {
            json!({"index": 0, "id": id, "type": "function",
                "function": {"name": name, "arguments": arguments}})
        };
        let (id, name) = (json!("c1"), json!("look"));
        for (first, later) in [
            ([id.clone(), name.clone()], [Value::Null, Value::Null]),
            ([id.clone(), name.clone()], [id, name.clone()]),
            ([Value::Null, name], [Value::Null, Value::Null]),
        ] {
            let mut assembly = Assembly::verbatim();
            let mut accept = |[id, name]: [Value; 2], arguments: &str| {
                let tool_calls = vec![piece(id, name, arguments)];
                assembly.accept(Delta { tool_calls, ..Delta::default() }).tool_calls.remove(0)
            };
            let begun = accept(first, "{");
            assert!(begins_call(&begun) && begun["function"]["name"] == "look", "{begun}");
            let more = accept(later, "}");
            assert_eq!(more, json!({"index": 0, "function": {"arguments": "}"}}));
            let call = assembly.message().to_json()["tool_calls"][0].clone();
            assert_eq!((&call["id"], &call["function"]["arguments"]), (&begun["id"], &json!("{}")));
        }
    }

    #[test]
    fn calls_of_another_engine_are_told_apart_however_it_numbers_them() {
        for numbers in [[Some(0), Some(1)], [Some(1), Some(2)], [Some(0), Some(0)], [None, None]] {
            let mut assembly = Assembly::verbatim();
            let pieces = |(number, id): (Option<u64>, &str)| {
                [
                    json!({"index": number, "id": id, "function": {"name": "look", "arguments": "{"}}),
                    json!({"index": number, "function": {"arguments": "}"}}),
                ]
            };
            let tool_calls = numbers.into_iter().zip(["c1", "c2"]).flat_map(pieces).collect();
            let delta = assembly.accept(Delta { tool_calls, ..Delta::default() });
            let places = delta.tool_calls.iter().map(|piece| piece["index"].as_u64());
            let places: Vec<Option<u64>> = places.collect();
            assert_eq!(places, [0, 0, 1, 1].map(Some), "{numbers:?}");
            let calls = assembly.message().to_json()["tool_calls"].clone();
            for (at, id) in ["c1", "c2"].into_iter().enumerate() {
                let call = &calls[at];
                assert_eq!(
                    (&call["id"], &call["function"]["arguments"]),
                    (&json!(id), &json!("{}"))
                );
            }
        }
    }

    #[test]
    fn an_answer_that_begins_inside_the_think_mark_is_reasoning() {
        let mut assembly = Assembly::new(&Reading::default(), true);
        assert_eq!(assembly.push("so ").reasoning, "so");
        assert!(assembly.is_reasoning());
        let delta = assembly.push("it is</think>Yes");
        assert_eq!((delta.reasoning.as_str(), delta.content.as_str()), (" it is", "Yes"));
        assert!(!assembly.is_reasoning());
    }
}
