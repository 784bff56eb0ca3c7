//! What a profile puts in front of a chat, for the model that runs.
//!
//! - One function, [`Preamble::before`], makes the messages of a real request and those that a
//!   prefix is told by, so both begin with the same bytes.
//! - A client's own system message belongs to the tail, behind the profile's: the prefix stays
//!   shared, whatever clients add.
//! - The tail stands in the one system message, unless the template would write the tools behind
//!   it: then it is a system message of its own, where the template knows a second one.

use std::sync::Arc;

use hob_prewarm::Profile;
use hob_prewarm::profile::joined;
use serde_json::Map;

use super::prefix::Remembered;
use super::prompt::Template;
use crate::error::ApiError;
use crate::wire::chat::Tool;
use crate::wire::message::{Message, Role};

/// A profile, made ready for one chat template.
#[derive(Debug)]
pub struct Preamble {
    /// What its author wrote.
    pub profile: Profile,
    /// Its prefix, once somebody asked for it.
    pub prefix: Arc<Remembered>,
    tools: Vec<Tool>,
    stable: String,
    tail: String,
    place: TailPlace,
}

/// Where the tail stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TailPlace {
    /// Behind the stable text, in the same message.
    Joined,
    /// In a system message of its own.
    Apart,
}

/// A text that stands in no prompt, to be found again in a rendering.
const MARK: &str = "\u{2060}hob\u{2060}tail\u{2060}";

impl Preamble {
    /// Makes the profile ready.
    ///
    /// # Errors
    /// When a tool is none, or when the template refuses what the profile makes.
    pub fn new(profile: Profile, template: &Template) -> Result<Self, ApiError> {
        let tools = Tool::list(&profile.tools(), "tools")?;
        let (stable, tail) = (profile.stable_text(), profile.tail_text());
        let joined = TailPlace::Joined;
        let prefix = Arc::default();
        let mut preamble = Self { profile, prefix, tools, stable, tail, place: joined };
        preamble.render(template, &[Message::plain(Role::User, "Hi")])?;
        preamble.place = preamble.with_tail(MARK).best_place(template);
        Ok(preamble)
    }

    /// The profile's tools.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// The text behind the prefix.
    pub fn tail(&self) -> &str {
        &self.tail
    }

    /// The same, knowing what `before` knew of the prefix, if that is still the same.
    pub fn after(mut self, before: &Self) -> Self {
        if self.profile.first_change(&before.profile).is_none() {
            self.prefix = before.prefix.clone();
        }
        self
    }

    /// The same profile with another tail.
    pub fn with_tail(&self, tail: &str) -> Self {
        Self {
            profile: self.profile.clone(),
            prefix: Arc::default(),
            tools: self.tools.clone(),
            stable: self.stable.clone(),
            tail: tail.to_owned(),
            place: self.place,
        }
    }

    /// The messages that the model reads: the profile's, and behind them `messages`.
    pub fn before(&self, messages: &[Message]) -> Vec<Message> {
        let is_own = |message: &&Message| matches!(message.role, Role::System | Role::Developer);
        let own: Vec<&str> = messages.iter().take_while(is_own).map(Message::text).collect();
        let rest = &messages[own.len()..];
        let tail = joined(std::iter::once(self.tail.as_str()).chain(own));
        let systems = match self.place {
            TailPlace::Joined => vec![joined([self.stable.as_str(), &tail])],
            TailPlace::Apart => vec![self.stable.clone(), tail],
        };
        let systems = systems.into_iter().filter(|text| !text.is_empty());
        let systems = systems.map(|text| Message::plain(Role::System, &text));
        systems.chain(rest.iter().cloned()).collect()
    }

    /// `self` has the mark for its tail.
    fn best_place(mut self, template: &Template) -> TailPlace {
        let Some(tool) = self.tools.last().map(|tool| tool.name.clone()) else {
            return TailPlace::Joined;
        };
        let question = [Message::plain(Role::User, "Hi")];
        let tools_come_first = |text: &str| match (text.find(MARK), text.rfind(&tool)) {
            (Some(tail), Some(tools)) => tools < tail,
            _ => false,
        };
        if self.render(template, &question).is_ok_and(|text| tools_come_first(&text)) {
            return TailPlace::Joined;
        }
        self.place = TailPlace::Apart;
        // A template that takes any second message for the user's shows it by writing the same.
        let spoken = self.with_tail("");
        let as_user = [Message::plain(Role::User, MARK), question[0].clone()];
        let apart = self.render(template, &question);
        let knows = |text: &String| spoken.render(template, &as_user).as_ref() != Ok(text);
        match apart.is_ok_and(|text| tools_come_first(&text) && knows(&text)) {
            true => TailPlace::Apart,
            false => TailPlace::Joined,
        }
    }

    fn render(&self, template: &Template, messages: &[Message]) -> Result<String, ApiError> {
        template.render(&self.before(messages), &self.tools, &Map::new())
    }
}
