//! Messages to text: the model's own chat template, and what it can do.

use hob_dialect::Dialect;
use hob_runtime::backend::Model;
use hob_runtime::template::{ChatTemplate, RenderInput};
use hob_slots::Token;
use serde_json::{Map, Value};

use crate::error::{ApiError, ErrorKind};
use crate::openai::chat::Tool;
use crate::openai::completion::Prompt;
use crate::openai::message::Message;

/// For models without a template of their own.
const CHATML: &str = "{%- for message in messages %}\
    {{- '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' }}\
    {%- endfor %}\
    {%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

/// A model's chat template.
pub struct Template {
    /// Or why there is none.
    compiled: Result<ChatTemplate, String>,
    dialect: Dialect,
}

impl Template {
    /// The template of `model`, or ChatML.
    pub fn of(model: &dyn Model) -> Self {
        let source = model.facts().chat_template.as_deref().unwrap_or(CHATML);
        let vocabulary = model.vocabulary();
        let written = |token: Option<Token>| {
            let bytes = token.map(|token| vocabulary.piece(token)).unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        };
        let (bos, eos) = (written(vocabulary.bos()), written(vocabulary.eos()));
        let compiled = ChatTemplate::new(source, &bos, &eos).map_err(|error| error.to_string());
        if let Err(error) = &compiled {
            tracing::warn!(
                error,
                "the model's chat template cannot be read: chats will be refused"
            );
        }
        Self { compiled, dialect: Dialect::detect(source) }
    }

    /// How the model writes calls.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The prompt.
    ///
    /// # Errors
    /// When the template does not know tools, or refuses the messages.
    pub fn render(
        &self,
        messages: &[Message],
        tools: &[Tool],
        variables: &Map<String, Value>,
    ) -> Result<String, ApiError> {
        let refused = |message: String| ApiError::new(ErrorKind::Invalid, message).code("template");
        let template = self.compiled.as_ref().map_err(|error| {
            refused(format!("this model's chat template cannot be read: {error}"))
        })?;
        if !tools.is_empty() && !template.supports_tools() {
            return Err(ApiError::field("tools", "this model's chat template knows no tools")
                .code("unsupported"));
        }
        let messages: Vec<Value> = messages.iter().map(Message::to_json).collect();
        let tools: Vec<Value> = tools.iter().map(|tool| tool.definition.clone()).collect();
        let input = RenderInput {
            messages: &messages,
            tools: (!tools.is_empty()).then_some(&tools),
            add_generation_prompt: true,
            extra: variables,
        };
        template.render(&input).map_err(|error| {
            refused(format!("the chat template refuses these messages: {error}")).param("messages")
        })
    }
}

/// What an embedding model reads.
pub fn embedding_tokens(model: &dyn Model, input: &Prompt) -> Vec<Token> {
    match input {
        Prompt::Text(text) => model.tokenize(text, true, false),
        Prompt::Tokens(tokens) => tokens.clone(),
    }
}
