//! What a segment of a prompt is for.

use serde::{Deserialize, Serialize};

/// What a segment of a prompt is for, the most durable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// What always holds.
    Axioms,
    /// Who the model is to be.
    Identity,
    /// What it may and must not do.
    Rules,
    /// What it can do: tools, formats.
    Capabilities,
    /// What surrounds the task: project, place, time.
    Context,
    /// What was remembered from earlier.
    Memories,
    /// The mood to answer in.
    Affect,
    /// What the user said.
    User,
    /// What the model said.
    Assistant,
    /// What a tool returned.
    Tool,
    /// Text to work on.
    Document,
}

impl Layer {
    /// The layer as it is written in requests, profiles and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Axioms => "axioms",
            Self::Identity => "identity",
            Self::Rules => "rules",
            Self::Capabilities => "capabilities",
            Self::Context => "context",
            Self::Memories => "memories",
            Self::Affect => "affect",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::Document => "document",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_read_from_its_name() {
        let layer: Layer = serde_json::from_str("\"document\"").unwrap();
        assert_eq!((layer, layer.as_str()), (Layer::Document, "document"));
    }
}
