//! The items of a response while they grow, and their events.
//!
//! - One item is open at a time; the next one closes it.

use serde_json::{Value, json};

use super::client_tools::{ClientTool, ClientTools, Kind as Called};
use super::object::{self, Status};
use super::place::Ids;
use super::reasoning_form::ReasoningForm;
use crate::chat::assembly::Delta;
use crate::wire::freeform::InputReader;

/// What the events of a call are called.
const FUNCTION: &str = "function_call_arguments";
const CUSTOM: &str = "custom_tool_call_input";

pub struct Items {
    ids: Ids,
    tools: ClientTools,
    form: ReasoningForm,
    done: Vec<Value>,
    open: Option<OpenItem>,
    calls: usize,
    messages: usize,
    reasonings: usize,
}

/// The item that grows.
struct OpenItem {
    id: String,
    kind: Kind,
    /// The text of a custom tool is within what the model writes.
    input: Option<InputReader>,
    text: String,
    logprobs: Vec<Value>,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Reasoning,
    Message,
    Call { id: String, tool: ClientTool },
}

impl Kind {
    fn is_custom(&self) -> bool {
        matches!(self, Self::Call { tool, .. } if tool.kind == Called::Custom)
    }
}

type Events = Vec<Value>;

impl Items {
    pub fn new(ids: Ids, tools: ClientTools, form: ReasoningForm) -> Self {
        let (done, open) = (Vec::new(), None);
        Self { ids, tools, form, done, open, calls: 0, messages: 0, reasonings: 0 }
    }

    /// The items that are over.
    pub fn whole(&self) -> Vec<Value> {
        self.done.clone()
    }

    /// `logprobs`: of the delta's text.
    pub fn push(&mut self, delta: Delta, logprobs: Value) -> Events {
        let mut events = Vec::new();
        if !delta.reasoning.is_empty() {
            self.open(Kind::Reasoning, &mut events);
            events.extend(self.grow(&delta.reasoning, json!([])));
        }
        if !delta.content.is_empty() {
            self.open(Kind::Message, &mut events);
            events.extend(self.grow(&delta.content, logprobs));
        }
        for call in delta.tool_calls {
            let function = &call["function"];
            if let (Some(id), Some(name)) = (call["id"].as_str(), function["name"].as_str()) {
                let kind = Kind::Call { id: id.to_owned(), tool: self.tools.get(name) };
                self.open(kind, &mut events);
            }
            let arguments = function["arguments"].as_str().filter(|text| !text.is_empty());
            events.extend(arguments.and_then(|text| self.grow(text, json!([]))));
        }
        events
    }

    /// Ends the last item, which has the `status` of the response.
    pub fn end(&mut self, status: Status) -> Events {
        let mut events = Vec::new();
        self.close(status, &mut events);
        events
    }

    fn open(&mut self, kind: Kind, events: &mut Events) {
        if self.open.as_ref().is_some_and(|open| open.kind == kind) {
            return;
        }
        self.close(Status::Completed, events);
        let id = match kind {
            Kind::Reasoning => {
                self.reasonings += 1;
                self.ids.reasoning_at(self.reasonings - 1)
            }
            Kind::Message => {
                self.messages += 1;
                self.ids.message_at(self.messages - 1)
            }
            Kind::Call { .. } => {
                self.calls += 1;
                self.ids.call(self.calls - 1)
            }
        };
        let input = kind.is_custom().then(InputReader::default);
        let open = OpenItem { id, kind, input, text: String::new(), logprobs: Vec::new() };
        let mut item = open.item(Status::InProgress, self.form);
        for parts in ["content", "summary"] {
            if item.get(parts).is_some() {
                item[parts] = json!([]); // They are added by events.
            }
        }
        events.push(json!({
            "type": "response.output_item.added", "output_index": self.done.len(), "item": item,
        }));
        events.extend(self.part("added", &open));
        self.open = Some(open);
    }

    fn close(&mut self, status: Status, events: &mut Events) {
        let rest = self.open.as_mut().and_then(|open| Some(open.input.as_mut()?.finish()));
        events.extend(rest.and_then(|rest| self.add(&rest, json!([]))));
        let Some(open) = self.open.take() else { return };
        events.extend(self.done(&open));
        events.extend(self.part("done", &open));
        let item = open.item(status, self.form);
        events.push(json!({
            "type": "response.output_item.done", "output_index": self.done.len(), "item": item,
        }));
        self.done.push(item);
    }

    /// The event of the whole text; calls of the local shell and of the search for tools have none.
    fn done(&self, open: &OpenItem) -> Option<Value> {
        let text = &open.text;
        let (what, fields) = match &open.kind {
            Kind::Call { tool, .. } => match tool.kind {
                Called::Function => (FUNCTION, json!({"name": tool.name, "arguments": text})),
                Called::Custom => (CUSTOM, json!({"input": text})),
                Called::LocalShell | Called::ToolSearch => return None,
            },
            Kind::Message => (
                "output_text",
                json!({"content_index": 0, "text": text, "logprobs": open.logprobs}),
            ),
            Kind::Reasoning => (self.form.text_event(), self.in_reasoning(json!({"text": text}))),
        };
        Some(self.event(open, &format!("response.{what}.done"), fields))
    }

    /// `text`: what the model has written.
    fn grow(&mut self, text: &str, logprobs: Value) -> Option<Value> {
        match &mut self.open.as_mut()?.input {
            Some(input) => {
                let text = input.push(text);
                self.add(&text, logprobs)
            }
            None => self.add(text, logprobs),
        }
    }

    fn add(&mut self, text: &str, logprobs: Value) -> Option<Value> {
        if text.is_empty() {
            return None;
        }
        let open = self.open.as_mut()?;
        open.text.push_str(text);
        open.logprobs.extend(logprobs.as_array().into_iter().flatten().cloned());
        let open = self.open.as_ref()?;
        let (what, fields) = match &open.kind {
            Kind::Call { tool, .. } => match tool.kind {
                Called::Function => (FUNCTION, json!({"delta": text})),
                Called::Custom => (CUSTOM, json!({"delta": text})),
                Called::LocalShell | Called::ToolSearch => return None,
            },
            Kind::Message => {
                ("output_text", json!({"content_index": 0, "delta": text, "logprobs": logprobs}))
            }
            Kind::Reasoning => (self.form.text_event(), self.in_reasoning(json!({"delta": text}))),
        };
        Some(self.event(open, &format!("response.{what}.delta"), fields))
    }

    /// The event of the one part that a text has; calls have none. `what`: added, or done.
    fn part(&self, what: &str, open: &OpenItem) -> Option<Value> {
        let (kind, fields) = match open.kind {
            Kind::Call { .. } => return None,
            Kind::Message => {
                let part = object::output_text(&open.text, &json!(open.logprobs));
                ("content_part", json!({"content_index": 0, "part": part}))
            }
            Kind::Reasoning => {
                let part = self.form.part(&open.text);
                (self.form.part_event(), self.in_reasoning(json!({"part": part})))
            }
        };
        Some(self.event(open, &format!("response.{kind}.{what}"), fields))
    }

    fn in_reasoning(&self, mut fields: Value) -> Value {
        fields[self.form.index_field()] = 0.into();
        fields
    }

    /// An event of the open item.
    fn event(&self, open: &OpenItem, kind: &str, fields: Value) -> Value {
        let mut event = json!({"type": kind, "item_id": open.id, "output_index": self.done.len()});
        for (name, value) in fields.as_object().into_iter().flatten() {
            event[name] = value.clone();
        }
        event
    }
}

impl OpenItem {
    fn item(&self, status: Status, form: ReasoningForm) -> Value {
        match &self.kind {
            Kind::Reasoning => object::reasoning(&self.id, &self.text, form, status),
            Kind::Message => object::said(&self.id, &self.text, &json!(self.logprobs), status),
            Kind::Call { id, tool } => object::call(&self.id, id, tool, &self.text, status),
        }
    }
}

#[cfg(test)]
mod tests {
    use hob_slots::ConversationId;

    use super::*;
    use crate::http::responses::place::Place;

    #[test]
    fn each_item_of_a_response_has_an_id_of_its_own() {
        let place = Place { conversation: ConversationId::new("locker").unwrap(), row: 42 };
        let mut items =
            Items::new(Ids::Stored(place), ClientTools::default(), ReasoningForm::Content);
        let mut events = Vec::new();
        for (content, reasoning) in [("One.", ""), ("", "hm"), ("Two.", ""), ("", "so"), ("!", "")]
        {
            let (content, reasoning) = (content.to_owned(), reasoning.to_owned());
            let delta = Delta { content, reasoning, ..Delta::default() };
            events.extend(items.push(delta, json!([])));
        }
        events.extend(items.end(Status::Completed));
        let whole = items.whole();
        let ids: Vec<&str> = whole.iter().map(|item| item["id"].as_str().unwrap()).collect();
        let expected = [
            "msg_42_locker",
            "rs_42_locker",
            "msg_42.1_locker",
            "rs_42.1_locker",
            "msg_42.2_locker",
        ];
        assert_eq!(ids, expected);
        let delta = events.iter().filter(|event| event["type"] == "response.output_text.delta");
        let of_deltas: Vec<&Value> = delta.map(|event| &event["item_id"]).collect();
        assert_eq!(of_deltas, [expected[0], expected[2], expected[4]]);
    }
}
