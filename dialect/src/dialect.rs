//! The dialects, and which of them a chat template shows.

use crate::forms::{Form, channels, json, literal, named, tagged};

/// The form in which a model writes reasoning and tool calls, detected from its chat template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Qwen 2.5 and 3, Hermes, Granite 4, MiMo, Reka.
    Hermes,
    /// Llama 3.1 to 3.3.
    Llama3,
    /// All of Mistral's models.
    Mistral,
    /// Nemotron Nano 2.
    Nemotron,
    /// Apriel 1.5, MiniMax M1.
    Apriel,
    Apriel16,
    /// Command R7B, Command A.
    Command,
    /// Command R+.
    CommandRPlus,
    Firefunction,
    GigaChat3,
    GigaChat31,
    /// Granite 3, Phi 4 mini.
    Granite3,
    Apertus,
    /// DeepSeek V3 and R1.
    DeepSeek,
    DeepSeek31,
    /// DeepSeek V3.2.
    Dsml,
    /// DeepSeek V4.
    Dsml4,
    KimiK2,
    KimiK3,
    /// Functionary 3.1.
    Functionary,
    Functionary32,
    /// Qwen3-Coder, Qwen 3.5, Nemotron 3, Step 3.5.
    QwenCoder,
    SeedOss,
    /// GLM 4.5 to 4.7, Ling 3, Spark 2.5, Laguna.
    Glm,
    MiniMax,
    MiniMax3,
    MiniCpm5,
    /// LFM 2 and 2.5.
    Lfm2,
    Gemma4,
    /// gpt-oss.
    Harmony,
    Muse,
    /// An unknown form: the parser finds no calls.
    #[default]
    Plain,
}

impl Dialect {
    /// All but [`Dialect::Plain`]. The marks of an earlier one may stand in a template of a later.
    pub const ALL: [Self; 31] = [
        Self::Mistral,
        Self::Muse,
        Self::Harmony,
        Self::Gemma4,
        Self::Lfm2,
        Self::Dsml4,
        Self::Dsml,
        Self::DeepSeek31,
        Self::DeepSeek,
        Self::KimiK3,
        Self::KimiK2,
        Self::MiniMax3,
        Self::MiniMax,
        Self::MiniCpm5,
        Self::SeedOss,
        Self::QwenCoder,
        Self::Glm,
        Self::Command,
        Self::CommandRPlus,
        Self::Apertus,
        Self::GigaChat31,
        Self::GigaChat3,
        Self::Nemotron,
        Self::Apriel16,
        Self::Apriel,
        Self::Granite3,
        Self::Firefunction,
        Self::Functionary32,
        Self::Functionary,
        Self::Hermes,
        Self::Llama3,
    ];

    /// The form in which the template renders past calls.
    pub fn detect(template_source: &str) -> Self {
        let shows = |dialect: &Self| dialect.form().is_shown_by(template_source);
        Self::ALL.into_iter().find(shows).unwrap_or_default()
    }

    pub fn form(self) -> &'static Form {
        match self {
            Self::Hermes => &json::HERMES,
            Self::Llama3 => &json::LLAMA3,
            Self::Mistral => &json::MISTRAL,
            Self::Nemotron => &json::NEMOTRON,
            Self::Apriel => &json::APRIEL,
            Self::Apriel16 => &json::APRIEL16,
            Self::Command => &json::COMMAND,
            Self::CommandRPlus => &json::COMMAND_R_PLUS,
            Self::Firefunction => &json::FIREFUNCTION,
            Self::GigaChat3 => &json::GIGACHAT3,
            Self::GigaChat31 => &json::GIGACHAT31,
            Self::Granite3 => &json::GRANITE3,
            Self::Apertus => &json::APERTUS,
            Self::DeepSeek => &named::DEEPSEEK,
            Self::DeepSeek31 => &named::DEEPSEEK31,
            Self::KimiK2 => &named::KIMI_K2,
            Self::KimiK3 => &tagged::KIMI_K3,
            Self::Functionary => &named::FUNCTIONARY,
            Self::Functionary32 => &channels::FUNCTIONARY32,
            Self::Dsml => &tagged::DSML,
            Self::Dsml4 => &tagged::DSML4,
            Self::QwenCoder => &tagged::QWEN_CODER,
            Self::SeedOss => &tagged::SEED_OSS,
            Self::Glm => &tagged::GLM,
            Self::MiniMax => &tagged::MINIMAX,
            Self::MiniMax3 => &tagged::MINIMAX3,
            Self::MiniCpm5 => &tagged::MINICPM5,
            Self::Lfm2 => &literal::LFM2,
            Self::Gemma4 => &literal::GEMMA4,
            Self::Harmony => &channels::HARMONY,
            Self::Muse => &channels::MUSE,
            Self::Plain => &json::PLAIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dialect_is_detected_from_the_template() {
        for (source, dialect) in [
            (r#"{{ '<tool_call>\n{"name": "' }}"#, Dialect::Hermes),
            (r#"<|start_header_id|>ipython … '"parameters": '"#, Dialect::Llama3),
            ("<|start_header_id|>{{ message.content }}<|eot_id|>", Dialect::Plain),
            ("{{ '[TOOL_CALLS] [' }}", Dialect::Mistral),
            ("<tool_call>\n<function=name>\n<parameter=key>", Dialect::QwenCoder),
            ("<tool_call>name\n<arg_key>", Dialect::Glm),
            ("<|im_start|>{{ message.role }}", Dialect::Plain),
        ] {
            assert_eq!(Dialect::detect(source), dialect, "{source}");
        }
    }

    #[test]
    fn a_dialect_that_is_listed_has_a_form_of_its_own() {
        for (n, dialect) in Dialect::ALL.into_iter().enumerate() {
            assert!(!dialect.form().shown_by.is_empty(), "{dialect:?}");
            let others = &Dialect::ALL[n + 1..];
            assert!(others.iter().all(|other| !std::ptr::eq(other.form(), dialect.form())));
        }
    }
}
