//! Ids of calls and of results, for clients that send both without.
//!
//! - A call gets an id by its place, so that the same history is always the same prompt; a result gets that of the
//!   first call of its tool without a result.
//! - The stored call may have another id, which its answer gave it: [`OpenCalls`] gives the result that one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::message::{Message, id_of_place, is_made_id};

/// Calls without a result, in their order. Each question and change takes logarithmic time: a history has tens of
/// thousands of calls.
#[derive(Default)]
struct Unanswered {
    count: usize,
    /// Id and tool, by place.
    calls: BTreeMap<usize, (String, String)>,
    places_of_id: HashMap<String, BTreeSet<usize>>,
    places_of_tool: HashMap<String, BTreeSet<usize>>,
}

impl Unanswered {
    fn add(&mut self, id: &str, tool: &str) {
        self.count += 1;
        self.calls.insert(self.count, (id.to_owned(), tool.to_owned()));
        self.places_of_id.entry(id.to_owned()).or_default().insert(self.count);
        self.places_of_tool.entry(tool.to_owned()).or_default().insert(self.count);
    }

    /// The place of the first call, of this tool if one is named.
    fn first(&self, tool: Option<&str>) -> Option<usize> {
        match tool {
            Some(tool) => self.places_of_tool.get(tool)?.first().copied(),
            None => self.calls.first_key_value().map(|(&place, _)| place),
        }
    }

    fn id(&self, place: usize) -> &str {
        &self.calls[&place].0
    }

    /// Whether a call has this id, and this tool if one is named.
    fn has(&self, id: &str, tool: Option<&str>) -> bool {
        let mut places = self.places_of_id.get(id).into_iter().flatten();
        places.any(|place| tool.is_none_or(|tool| self.calls[place].1 == tool))
    }

    /// Removes the call at this place and returns its id.
    fn take(&mut self, place: usize) -> Option<String> {
        let (id, tool) = self.calls.remove(&place)?;
        for (places, key) in [(&mut self.places_of_id, &id), (&mut self.places_of_tool, &tool)] {
            if let Some(of_key) = places.get_mut(key) {
                of_key.remove(&place);
            }
        }
        Some(id)
    }

    /// Removes all calls with this id.
    fn remove(&mut self, id: &str) {
        for place in self.places_of_id.remove(id).unwrap_or_default() {
            self.take(place);
        }
    }
}

/// The calls so far.
#[derive(Default)]
pub struct CallIds {
    count: usize,
    open: Unanswered,
}

impl CallIds {
    /// The id of a call without one.
    pub fn next_id(&mut self) -> String {
        self.count += 1;
        id_of_place(self.count)
    }

    /// Notes a call, whose result may have no id.
    pub fn called(&mut self, id: &str, tool: &str) {
        self.open.add(id, tool);
    }

    /// Notes a result with an id.
    pub fn answered(&mut self, id: &str) {
        self.open.remove(id);
    }

    /// The call that a result without an id belongs to.
    pub fn of_result(&mut self, tool: Option<&str>) -> String {
        let place = self.open.first(tool);
        place.and_then(|place| self.open.take(place)).unwrap_or_else(|| self.next_id())
    }
}

/// Calls of the last answer of a stored conversation that has any, as far as they have no result.
#[derive(Default)]
pub struct OpenCalls {
    calls: Unanswered,
}

impl OpenCalls {
    /// Notes the next message of the conversation.
    pub fn pass(&mut self, message: &Message) {
        if message.has_calls() {
            self.calls = Unanswered::default();
            for call in message.calls_made() {
                self.calls.add(call.id, call.name);
            }
        }
        if let Some(id) = message.answered_call() {
            self.calls.remove(id);
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
        if self.calls.has(made, tool) {
            return Some(made.to_owned());
        }
        self.calls.first(tool).map(|place| self.calls.id(place).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::message::tool_call;
    use super::*;

    #[test]
    fn forty_thousand_calls_are_answered_in_their_order_or_by_their_ids() {
        const CALLS: usize = 40_000;
        let mut ids = CallIds::default();
        for call in 0..CALLS {
            ids.called(&format!("x{call}"), if call % 2 == 0 { "a" } else { "b" });
        }
        ids.answered("x1");
        assert_eq!(ids.of_result(Some("b")), "x3");
        assert_eq!(ids.of_result(None), "x0");
        assert_eq!(ids.of_result(None), "x2");
        for call in (4..CALLS).rev() {
            ids.answered(&format!("x{call}"));
        }
        assert_eq!(ids.of_result(None), id_of_place(1), "no call is open");
    }

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
