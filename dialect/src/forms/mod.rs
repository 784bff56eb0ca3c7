//! The dialects as data: the marks around reasoning and calls, and what a call looks like.
//!
//! Sources: the models' chat templates, and llama.cpp's `common/parsers` and `tests/test-chat.cpp`.
//!
//! Reading order: this file (what a form is made of), [`json`] (calls as JSON objects), [`named`]
//! (a name, and JSON behind it), [`tagged`] (each argument in a tag of its own), [`literal`] (calls
//! in another notation than JSON), [`channels`] (messages with a header).

pub mod channels;
pub mod json;
pub mod literal;
pub mod named;
pub mod tagged;

pub use channels::Channels;

/// How a model writes.
#[derive(Debug)]
pub struct Form {
    /// A template of this form has all of these texts, and none of `unless`.
    pub shown_by: &'static [&'static str],
    pub unless: &'static [&'static str],
    /// Opens and closes reasoning.
    pub reasoning: (&'static str, &'static str),
    /// Stand before reasoning and between it and the content, as most models of the form write them. Where the first
    /// is empty, the model does not reason, and reasoning of another model is left out.
    pub written_reasoning: (&'static str, &'static str),
    /// Opens the content, as the model writes it; behind reasoning, if the form has no channels. Ends
    /// reasoning too.
    pub before_text: &'static str,
    /// Reasoning also ends where a call begins.
    pub calls_end_reasoning: bool,
    /// Marks around the content, which are dropped.
    pub silent: &'static [&'static str],
    /// Marks that may stand before a call, with white space between them: of all calls together.
    pub before: &'static [&'static str],
    /// Opens a call. Empty: the form has no calls.
    pub open: &'static str,
    /// Marks that may stand behind a call.
    pub behind: &'static [&'static str],
    /// What the model writes around each call, outside of `open`, and around all of them. JSON has
    /// `open` and the first of `behind` instead.
    pub around_call: (&'static str, &'static str),
    pub around_calls: (&'static str, &'static str),
    pub call: Call,
}

/// What stands behind the mark that opens a call.
#[derive(Debug)]
pub enum Call {
    Json(Json),
    Named(Named),
    Tagged(Tagged),
    Literal(Notation),
    /// The header of a message has the name; the message is the arguments.
    Channel(Channels),
}

/// `{"name": …, "arguments": {…}}`.
#[derive(Debug)]
pub struct Json {
    /// The members that hold the name and the arguments, as the model writes them.
    pub members: (&'static str, &'static str),
    /// The calls stand in a list.
    pub is_list: bool,
    /// An answer may be a call without the mark.
    pub is_bare: bool,
    /// `{"the_name": {…}}` instead.
    pub is_keyed: bool,
    /// The form of a call that begins with neither `{` nor `[`.
    pub named: Option<Named>,
}

/// A name, and the JSON of its arguments.
#[derive(Debug)]
pub struct Named {
    pub before_name: &'static str,
    /// The name ends where one of these begins. The first is what the model writes.
    pub name_ends: &'static [&'static str],
    /// Between the end of the name and the arguments, as the model writes it: `#` is a number.
    pub before_arguments: &'static str,
}

/// Each argument in a tag of its own.
#[derive(Debug)]
pub struct Tagged {
    /// Behind the name.
    pub name_end: &'static str,
    /// Behind `name_end` and the attributes of the tag. Empty: `name_end` is all.
    pub head_end: &'static str,
    /// The attributes before `head_end`, as the model writes them: `#` is a number.
    pub head: &'static str,
    /// Before a key.
    pub parameter: &'static str,
    /// Behind a key.
    pub key_end: &'static str,
    pub attribute: Attribute,
    /// Before a value, behind `key_end` and the attributes of the tag. Empty: `key_end` is all.
    pub value: &'static str,
    pub value_end: ValueEnd,
    /// A line feed on either side of a value belongs to the marks.
    pub is_framed: bool,
    /// A list and an object are written as tags again.
    pub nests: bool,
    /// Closes the call.
    pub close: &'static str,
}

/// What stands behind a key and says of which type the value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    None,
    /// `string="true"` or `string="false"`
    IsString,
    /// `type="number"`
    Type,
}

#[derive(Clone, Copy, Debug)]
pub enum ValueEnd {
    Mark(&'static str),
    /// These around the key.
    WithKey(&'static str, &'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// `[name(key="value"), …]`
    Python,
    /// `call:name{key:<|"|>value<|"|>}`
    Gemma,
}

/// What most models have around their reasoning.
pub const THINK: (&str, &str) = ("<think>", "</think>");

/// The same on lines of their own, as Qwen writes them.
const THINK_LINES: (&str, &str) = ("<think>\n", "\n</think>\n\n");

impl Form {
    /// Most of a form, for what differs.
    const BASE: Self = Self {
        shown_by: &[],
        unless: &[],
        reasoning: THINK,
        written_reasoning: THINK_LINES,
        before_text: "",
        calls_end_reasoning: false,
        silent: &[],
        before: &[],
        open: "",
        behind: &[],
        around_call: ("", ""),
        around_calls: ("", ""),
        call: Call::Json(Json::BASE),
    };

    pub fn is_shown_by(&self, template: &str) -> bool {
        let has = |text: &&str| template.contains(*text);
        self.shown_by.iter().all(has) && !self.unless.iter().any(has)
    }

    /// Whether the form has calls.
    pub fn writes_calls(&self) -> bool {
        !self.open.is_empty() || matches!(self.call, Call::Channel(_))
    }

    /// Whether a mark says that the name of a call follows. Without one, the text is a call only once its
    /// arguments begin: JSON alone may be an answer, and a header that is a name has one of a tool.
    pub fn marks_names(&self) -> bool {
        match &self.call {
            Call::Json(json) => !json.is_bare,
            Call::Channel(channels) => !channels.to.is_empty(),
            Call::Named(_) | Call::Tagged(_) | Call::Literal(_) => true,
        }
    }

    /// The mark before the name of a call, without its last letter, and that letter: one token may have
    /// it and the beginning of the name. Both are empty where the name stands in JSON.
    pub fn before_name(&self) -> (&'static str, &'static str) {
        let mark = match &self.call {
            Call::Channel(channels) if channels.tagged.is_none() => channels.function,
            Call::Json(_) => "",
            _ => self.open,
        };
        let last = mark.char_indices().next_back();
        mark.split_at(last.map_or(0, |(at, _)| at))
    }

    /// All marks that may begin a call.
    pub(crate) fn openings(&self) -> impl Iterator<Item = &'static str> {
        let opens = (!self.open.is_empty()).then_some(self.open);
        self.before.iter().copied().chain(opens)
    }
}

impl Json {
    const BASE: Self = Self {
        members: ("name", "arguments"),
        is_list: false,
        is_bare: false,
        is_keyed: false,
        named: None,
    };
    const LIST: Self = Self { is_list: true, ..Self::BASE };
}
