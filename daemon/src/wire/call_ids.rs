//! Ids of calls and of results, for clients that send both without.
//!
//! - A call gets an id by its place, so that the same history is always the same prompt; a result gets that of the
//!   first call of its tool without a result.

use super::message::id_of_place;

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
