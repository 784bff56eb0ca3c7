//! Labelled pieces of a prompt, as the caller knows them.

use serde::{Deserialize, Serialize};

/// What a piece of a prompt is for, the most durable first.
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

/// One piece of a prompt. Blocks never reach across the border between two of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// What it is for.
    pub layer: Layer,
    /// What it is called among its kind, such as `file:config.py`.
    pub key: String,
    /// Its text.
    pub text: String,
    /// Whether it stays the same from turn to turn.
    #[serde(default)]
    pub stable: bool,
    /// How much it matters, from 0.0 to 1.0.
    #[serde(default = "usual_importance")]
    pub importance: f32,
    /// Never dropped while its conversation is open.
    #[serde(default)]
    pub pinned: bool,
}

fn usual_importance() -> f32 {
    0.5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_needs_only_layer_key_and_text() {
        let json = r#"{"layer": "document", "key": "file:config.py", "text": "DEBUG = 1"}"#;
        let segment: Segment = serde_json::from_str(json).unwrap();
        assert_eq!(segment.layer, Layer::Document);
        assert!(!segment.stable && !segment.pinned);
        assert_eq!(segment.importance, 0.5);
        assert_eq!(segment.layer.as_str(), "document");
    }
}
