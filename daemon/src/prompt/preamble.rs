//! What a profile adds in front of a chat, for the loaded model.
//!
//! - [`Preamble::before`] makes the messages of requests and of the prefix, so both begin with the
//!   same bytes.
//! - A client's own system message goes behind the profile's: the prefix stays shared, whatever
//!   clients add.
//! - The tail is part of the one system message, unless the template writes the tools behind it.
//!   Then the tail is a second system message, if the template supports one.
//! - A template that refuses the profile's messages gets them in another form, as it gets those of a chat.

use std::borrow::Cow;
use std::sync::Arc;

use hob_prewarm::Profile;
use hob_prewarm::profile::joined;
use serde_json::{Map, Value};

use super::prefix_cache::PrefixCache;
use super::strict;
use super::template::Template;
use crate::error::ApiError;
use crate::wire::label::Label;
use crate::wire::message::{Message, Role};
use crate::wire::sampling::SamplingFields;
use crate::wire::tools::Tool;

/// A profile for one chat template.
#[derive(Debug)]
pub struct Preamble {
    /// As its author wrote it.
    pub profile: Profile,
    /// Filled when the prefix is first needed.
    pub prefix: Arc<PrefixCache>,
    tools: Vec<Tool>,
    sampling: SamplingFields,
    stable: String,
    tail: String,
    place: TailPlace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TailPlace {
    /// Behind the stable text, in the same message.
    Joined,
    /// In a system message of its own.
    Separate,
}

/// A text that no prompt contains; it shows where a template writes the tail.
const MARK: &str = "\u{2060}hob\u{2060}tail\u{2060}";

impl Preamble {
    /// # Errors
    /// When a tool or a sampling parameter is invalid, or the template refuses the profile's messages.
    pub fn new(profile: Profile, template: &Template) -> Result<Self, ApiError> {
        let tools = Tool::list(&profile.tools(), "tools")?;
        let sampling = sampling(&profile)?;
        let (stable, tail) = (profile.stable_text(), profile.tail_text());
        let joined = TailPlace::Joined;
        let prefix = Arc::default();
        let mut preamble = Self { profile, prefix, tools, sampling, stable, tail, place: joined };
        preamble.render(template, &[Message::plain(Role::User, "Hi")])?;
        preamble.place = preamble.with_tail(MARK).best_place(template);
        Ok(preamble)
    }

    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// The parameters of answers with this profile.
    pub fn sampling(&self) -> &SamplingFields {
        &self.sampling
    }

    /// The unstable text behind the prefix.
    pub fn tail(&self) -> &str {
        &self.tail
    }

    /// Takes over the cached prefix of `before`, unless the prefix changed.
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
            sampling: self.sampling.clone(),
            stable: self.stable.clone(),
            tail: tail.to_owned(),
            place: self.place,
        }
    }

    /// The profile's messages, followed by `messages`.
    pub fn before(&self, messages: &[Message]) -> Vec<Message> {
        let is_own = |message: &&Message| message.role.instructs();
        let own: Vec<&Message> = messages.iter().take_while(is_own).collect();
        let rest = &messages[own.len()..];
        let label = own.iter().fold(Label::default(), |label, own| label.or(&own.label()));
        let own = own.into_iter().map(Message::text);
        let tail = joined(std::iter::once(self.tail.as_str()).chain(own));
        let texts = match self.place {
            TailPlace::Joined => vec![joined([self.stable.as_str(), &tail])],
            TailPlace::Separate => vec![self.stable.clone(), tail],
        };
        let mut systems: Vec<Message> = texts
            .into_iter()
            .filter(|text| !text.is_empty())
            .map(|text| Message::plain(Role::System, &text))
            .collect();
        if let Some(last) = systems.last_mut() {
            last.set_label(&label);
        }
        systems.into_iter().chain(rest.iter().cloned()).collect()
    }

    /// `self` has [`MARK`] as its tail.
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
        self.place = TailPlace::Separate;
        // A template that writes a second system message as a user's does not support one.
        let without_tail = self.with_tail("");
        let as_user = [Message::plain(Role::User, MARK), question[0].clone()];
        // In another form the two would be one again.
        let separate = self.as_it_is(template, &question);
        let differs =
            |text: &String| without_tail.as_it_is(template, &as_user).as_ref() != Ok(text);
        if separate.is_ok_and(|text| tools_come_first(&text) && differs(&text)) {
            TailPlace::Separate
        } else {
            TailPlace::Joined
        }
    }

    fn render(&self, template: &Template, messages: &[Message]) -> Result<String, ApiError> {
        let messages = Cow::Owned(self.before(messages));
        strict::rendered(template, messages, &self.tools, &Map::new()).map(|(_, text)| text)
    }

    fn as_it_is(&self, template: &Template, messages: &[Message]) -> Result<String, ApiError> {
        template.render(&self.before(messages), &self.tools, &Map::new())
    }
}

/// The profile's sampling parameters, checked. TOML has whole numbers where JSON's fields want them.
fn sampling(profile: &Profile) -> Result<SamplingFields, ApiError> {
    SamplingFields::parse_all(&sampling_json(profile), "sampling")
}

/// The profile's sampling parameters as a request has them.
pub fn sampling_json(profile: &Profile) -> Value {
    let number = |value: f64| {
        let is_whole = value.fract() == 0.0 && value.abs() < 1e15;
        if is_whole { Value::from(value as i64) } else { Value::from(value) }
    };
    let fields = profile.sampling.iter().map(|(name, &value)| (name.clone(), number(value)));
    Value::Object(fields.collect())
}
