//! How a response shows the model's reasoning, and what its part and its events are called.

use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningForm {
    Content,
    /// For clients that show reasoning. The model's is all there is to summarize: it is the summary.
    Summary,
}

impl ReasoningForm {
    /// `reasoning`: the field of a request of that name.
    pub fn of(reasoning: Option<&Value>) -> Self {
        let set = |name: &str| reasoning?.get(name)?.as_str();
        match set("summary").or_else(|| set("generate_summary")) {
            None | Some("none") => Self::Content,
            Some(_) => Self::Summary,
        }
    }

    pub fn part(self, text: &str) -> Value {
        let kind = match self {
            Self::Content => "reasoning_text",
            Self::Summary => "summary_text",
        };
        json!({"type": kind, "text": text})
    }

    /// The subject of the events of a part.
    pub fn part_event(self) -> &'static str {
        match self {
            Self::Content => "content_part",
            Self::Summary => "reasoning_summary_part",
        }
    }

    /// The subject of the events of its text.
    pub fn text_event(self) -> &'static str {
        match self {
            Self::Content => "reasoning_text",
            Self::Summary => "reasoning_summary_text",
        }
    }

    /// The field of events that has the place of the part.
    pub fn index_field(self) -> &'static str {
        match self {
            Self::Content => "content_index",
            Self::Summary => "summary_index",
        }
    }
}
