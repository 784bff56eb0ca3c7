//! Ids of calls and of results, for clients that send both without.
//!
//! - A call gets an id by its place, so that the same history is always the same prompt; a result gets that of the
//!   first call of its tool without a result.
//! - The stored call may have another id, which its answer gave it: [`OpenCalls`] gives the result that one.

use super::message::{Message, id_of_place, is_made_id};

/// The calls so far.
#[derive(Default)]
pub struct CallIds {
    count: usize,
    /// Id and tool of each call without a result.
    open: Vec<(String, String)>,
}

impl CallIds {
    /// The id of a call without one.
    pub fn next_id(&mut self) -> String {
        self.count += 1;
        id_of_place(self.count)
    }

    /// Notes a call, whose result may have no id.
    pub fn called(&mut self, id: &str, tool: &str) {
        self.open.push((id.to_owned(), tool.to_owned()));
    }

    /// Notes a result with an id.
    pub fn answered(&mut self, id: &str) {
        self.open.retain(|(open, _)| open != id);
    }

    /// The call that a result without an id belongs to.
    pub fn of_result(&mut self, tool: Option<&str>) -> String {
        let of_tool = |(_, name): &(String, String)| tool.is_none_or(|tool| tool == name);
        match self.open.iter().position(of_tool) {
            Some(at) => self.open.remove(at).0,
            None => self.next_id(),
        }
    }
}

/// Calls of the last answer of a stored conversation that has any, as far as they have no result.
#[derive(Default)]
pub struct OpenCalls {
    /// Id and tool.
    calls: Vec<(String, String)>,
}

impl OpenCalls {
    /// Notes the next message of the conversation.
    pub fn pass(&mut self, message: &Message) {
        if message.has_calls() {
            let made = message.calls_made();
            self.calls = made.map(|call| (call.id.to_owned(), call.name.to_owned())).collect();
        }
        if let Some(id) = message.answered_call() {
            self.calls.retain(|(open, _)| open != id);
        }
    }

    /// [`Self::pass`] for a message that is not stored yet. Returns it with the id of the stored call that it answers,
    /// where its client sent none.
    pub fn add(&mut self, message: Message) -> Message {
        let message = match self.stored_id(&message) {
            Some(id) => message.with_call_ids(|_| id.clone()),
            None => message,
        };
        self.pass(&message);
        message
    }

    /// `None`: the message has the right id, or answers no open call.
    fn stored_id(&self, message: &Message) -> Option<String> {
        let made = message.answered_call().filter(|id| is_made_id(id))?;
        let tool = message.tool();
        let of_tool =
            || self.calls.iter().filter(move |(_, name)| tool.is_none_or(|tool| tool == name));
        let same = of_tool().find(|(id, _)| id == made);
        same.or_else(|| of_tool().next()).map(|(id, _)| id.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::message::tool_call;
    use super::*;

    #[test]
    fn results_without_ids_get_those_of_the_stored_calls_of_their_tools() {
        let result = |id: &str, tool: Option<&str>| {
            let mut result = json!({"role": "tool", "tool_call_id": id, "content": "x"});
            if let Some(tool) = tool {
                result["name"] = tool.into();
            }
            Message::parse(&result, "message").unwrap()
        };
        let mut calls = OpenCalls::default();
        let earlier = [tool_call("x0", "a", "{}")];
        calls.pass(&Message::answer("", "", &earlier));
        let calling = [tool_call("x1", "a", "{}"), tool_call("x2", "b", "{}")];
        calls.pass(&Message::answer("", "", &calling));
        let mut answered = |id: &str, tool: Option<&str>| {
            calls.add(result(id, tool)).answered_call().map(str::to_owned)
        };
        assert_eq!(answered("own", None).as_deref(), Some("own"), "the client's own id stays");
        assert_eq!(answered("call00001", Some("b")).as_deref(), Some("x2"));
        assert_eq!(answered("call00002", None).as_deref(), Some("x1"));
        assert_eq!(answered("call00003", None).as_deref(), Some("call00003"), "no call is open");
    }
}
