//! What a segment of a prompt is for.

use serde::{Deserialize, Serialize};

/// What a segment of a prompt is for, the most durable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    Axioms,
    /// The persona.
    Identity,
    Rules,
    /// Tools and formats.
    Capabilities,
    /// Project, place, time.
    Context,
    /// Facts of earlier conversations.
    Memories,
    Affect,
    User,
    Assistant,
    Tool,
    Document,
}

impl Layer {
    pub const ALL: [Self; 11] = [
        Self::Axioms,
        Self::Identity,
        Self::Rules,
        Self::Capabilities,
        Self::Context,
        Self::Memories,
        Self::Affect,
        Self::User,
        Self::Assistant,
        Self::Tool,
        Self::Document,
    ];

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
