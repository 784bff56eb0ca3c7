//! Which engine answers at the other address, by what it says of its models.

/// The engines whose own fields Hob knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    LlamaServer,
    Vllm,
    Sglang,
    Hob,
    /// OpenAI's API and nothing else is assumed.
    Other,
}

impl EngineKind {
    /// `owner`: `owned_by` of a listed model.
    pub fn of(owner: &str) -> Self {
        match owner {
            "llamacpp" => Self::LlamaServer,
            "vllm" => Self::Vllm,
            "sglang" => Self::Sglang,
            "hob" => Self::Hob,
            _ => Self::Other,
        }
    }

    /// The word of `/v1/status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LlamaServer => "llama-server",
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Hob => "hob",
            Self::Other => "other",
        }
    }
}
