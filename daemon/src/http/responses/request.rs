//! The body of a response's request as the body of a chat, and what the response repeats of it.
//!
//! - The chat's parser checks what both have; [`Paths`] gives its errors the client's names.
//! - Where the answer is stored is decided later, by [`super::origin`].

use serde_json::{Map, Value, json};

use super::echo::echo;
use super::input::Input;
use super::paths::Paths;
use super::tools::{self, Offered};
use crate::error::ApiError;
use crate::http::translation::{copied, refuse_response_format};
use crate::wire::fields::{Fields, unsupported};
use crate::wire::sampling::refuse;

/// Fields of OpenAI and of other servers that a chat has under the same name.
const SAME: [&str; 16] = [
    "model",
    "stream",
    "temperature",
    "top_p",
    "parallel_tool_calls",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "frequency_penalty",
    "presence_penalty",
    "repeat_penalty",
    "repetition_penalty",
    "xtc_probability",
    "xtc_threshold",
    "repeat_last_n",
];

/// Fields of `hob` that say where a chat goes on: here other fields do.
const ELSEWHERE: [(&str, &str); 6] = [
    ("after", "use `previous_response_id`"),
    ("append", "use `previous_response_id` or `conversation`"),
    ("continue", "ask for a chat"),
    ("detached", "ask for a chat"),
    ("instructions", "use `instructions`"),
    ("newest", "use `truncation`"),
];

/// A checked request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The chat, without its messages and without the place in a conversation.
    pub chat: Map<String, Value>,
    pub input: Input,
    pub paths: Paths,
    pub instructions: Option<String>,
    pub previous: Option<String>,
    /// The answer may be stored.
    pub stores: bool,
    /// Leave out the oldest messages if not all fit.
    pub truncates: bool,
    /// Fields of the request that the response repeats.
    pub echo: Map<String, Value>,
}

impl Request {
    /// `input`: that of the body, with items in place of references.
    ///
    /// # Errors
    /// Names the wrong field.
    pub fn parse(body: &Value, input: &Value) -> Result<Self, ApiError> {
        let fields = Fields::of_body(body)?;
        refuse(&fields, &[("prompt", "hobd stores no prompts of this kind: send the text")])?;
        if fields.boolean("background")? == Some(true) {
            let message = "`background` is not supported: hobd answers while the client waits";
            return Err(unsupported("background", message));
        }
        let previous = fields.string("previous_response_id")?.map(str::to_owned);
        if previous.is_some() && fields.get("conversation").is_some() {
            let message = "send `previous_response_id` or `conversation`, not both";
            return Err(ApiError::field("previous_response_id", message));
        }
        check_conversation(&fields)?;
        let mut paths = Paths::new();
        let mut echo = echo(&fields)?;
        let Offered { functions, echo: offered, .. } = tools::tools(&fields, input, &mut paths)?;
        echo.insert("tools".into(), offered.into());
        let choice = tools::tool_choice(&fields, &mut paths)?;
        let mut chat = chat(&fields)?;
        if !functions.is_empty() {
            chat.insert("tools".into(), functions.into());
        }
        if let Some(choice) = choice {
            chat.insert("tool_choice".into(), choice);
        }
        Ok(Self {
            input: Input::parse(input)?,
            paths,
            instructions: fields.string("instructions")?.map(str::to_owned),
            previous,
            stores: fields.boolean("store")?.unwrap_or(true),
            truncates: truncates(&fields)?,
            echo,
            chat,
        })
    }

    /// The body of the chat. `before`: how many of its messages the client did not send.
    pub fn body(&mut self, mut messages: Vec<Value>) -> Value {
        let before = messages.len();
        for (n, path) in self.input.paths.iter().enumerate() {
            self.paths.add(format!("messages[{}]", before + n), path);
        }
        messages.append(&mut self.input.messages);
        self.chat.insert("messages".into(), messages.into());
        Value::Object(std::mem::take(&mut self.chat))
    }

    /// Sets a field of the chat's `hob`.
    pub fn set_hob(&mut self, name: &str, value: impl Into<Value>) {
        let hob = self.chat.entry("hob").or_insert_with(|| json!({}));
        hob[name] = value.into();
    }

    /// Whether the client asks that nothing of it is kept, not even in memory.
    pub fn is_private(&self) -> bool {
        self.chat.get("hob").is_some_and(|hob| hob["private"] == true)
    }
}

fn chat(fields: &Fields<'_>) -> Result<Map<String, Value>, ApiError> {
    refuse_response_format(fields, "text.format")?;
    let mut chat = copied(fields, &SAME);
    if let Some(hob) = fields.get("hob") {
        let hob_fields = Fields::of(hob, "hob")?;
        for (name, remedy) in ELSEWHERE {
            if hob_fields.get(name).is_some() {
                let path = hob_fields.path(name);
                let message = format!("`{path}` is a field of chats: {remedy}");
                return Err(unsupported(path, message));
            }
        }
    }
    if let Some(limit) = fields.integer("max_output_tokens", 1..=i64::from(i32::MAX))? {
        chat.insert("max_tokens".into(), limit.into());
    }
    if let Some(format) = format(fields)? {
        chat.insert("response_format".into(), format);
    }
    if let Some(reasoning) = fields.get("reasoning") {
        let reasoning = Fields::of(reasoning, "reasoning")?;
        reasoning.string("summary")?;
        if let Some(effort) = reasoning.string("effort")? {
            chat.insert("reasoning_effort".into(), effort.into());
        }
    }
    let top = fields.integer("top_logprobs", 0..=20)?.filter(|&top| top > 0);
    let included = fields.list("include")?.into_iter().flatten();
    if top.is_some() || included.into_iter().any(|what| *what == "message.output_text.logprobs") {
        chat.insert("logprobs".into(), true.into());
        chat.insert("top_logprobs".into(), top.unwrap_or(0).into());
    }
    Ok(chat)
}

/// `text.format` as a chat's `response_format`.
fn format(fields: &Fields<'_>) -> Result<Option<Value>, ApiError> {
    let Some(text) = fields.get("text") else { return Ok(None) };
    let Some(format) = Fields::of(text, "text")?.get("format") else { return Ok(None) };
    let format = Fields::of(format, "text.format")?;
    let kind = format.required_string("type")?;
    if kind != "json_schema" {
        return Ok(Some(format.object().clone().into()));
    }
    let named = ["name", "description", "schema", "strict"];
    let set = named.into_iter().filter_map(|name| Some((name.into(), format.get(name)?.clone())));
    Ok(Some(json!({"type": kind, "json_schema": set.collect::<Map<_, _>>()})))
}

/// A name of another type would count as none.
fn check_conversation(fields: &Fields<'_>) -> Result<(), ApiError> {
    match fields.get("conversation") {
        None | Some(Value::String(_)) => Ok(()),
        Some(object) => Fields::of(object, "conversation")?.required_string("id").map(drop),
    }
}

fn truncates(fields: &Fields<'_>) -> Result<bool, ApiError> {
    match fields.string("truncation")? {
        None | Some("disabled") => Ok(false),
        Some("auto") => Ok(true),
        Some(other) => {
            let other = other.escape_debug();
            let message = format!("`truncation` must be auto or disabled, not `{other}`");
            Err(ApiError::field("truncation", message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::responses::reasoning_form::ReasoningForm;

    fn parse(body: Value) -> Result<Request, ApiError> {
        let input = body.get("input").cloned().unwrap_or_else(|| json!("Hi"));
        Request::parse(&body, &input)
    }

    #[test]
    fn the_fields_of_a_response_are_those_of_a_chat() {
        let mut request = parse(json!({
            "model": "m", "instructions": "Be brief.", "max_output_tokens": 9, "temperature": 0.5,
            "text": {"format": {"type": "json_schema", "name": "n", "strict": true, "schema": {}}},
            "reasoning": {"effort": "low", "summary": "auto"}, "truncation": "auto",
            "include": ["message.output_text.logprobs"], "top_logprobs": 2, "verbosity": "low",
            "hob": {"ttl": "short"}, "seed": 7,
        }))
        .unwrap();
        assert!(request.stores && request.truncates);
        assert_eq!(ReasoningForm::of(request.echo.get("reasoning")), ReasoningForm::Summary);
        assert_eq!(request.instructions.as_deref(), Some("Be brief."));
        let system = json!({"role": "system", "content": "Be brief."});
        let chat = request.body(vec![system.clone()]);
        let expected = json!({
            "model": "m", "temperature": 0.5, "seed": 7, "hob": {"ttl": "short"}, "max_tokens": 9,
            "response_format": {"type": "json_schema",
                                "json_schema": {"name": "n", "schema": {}, "strict": true}},
            "reasoning_effort": "low", "logprobs": true, "top_logprobs": 2,
            "messages": [system, {"role": "user", "content": "Hi"}],
        });
        assert_eq!(chat, expected);
        let error = request.paths.own(ApiError::field("messages[1].content", "x"));
        assert_eq!(error.param.as_deref(), Some("input.content"));
    }

    #[test]
    fn what_hob_does_not_have_is_named() {
        for (body, param) in [
            (json!({"background": true}), "background"),
            (json!({"prompt": {"id": "p"}}), "prompt"),
            (json!({"previous_response_id": "r", "conversation": "c"}), "previous_response_id"),
            (json!({"max_output_tokens": 0}), "max_output_tokens"),
            (json!({"truncation": "middle"}), "truncation"),
            (json!({"metadata": {"a": 1}}), "metadata.a"),
            (json!({"store": "yes"}), "store"),
            (json!({"text": {"format": {}}}), "text.format.type"),
            (json!({"reasoning": "low"}), "reasoning"),
            (json!({"reasoning": {"summary": true}}), "reasoning.summary"),
            (json!({"conversation": 5}), "conversation"),
            (json!({"conversation": {}}), "conversation.id"),
            (json!({"hob": {"append": true}}), "hob.append"),
            (json!({"hob": {"after": 3}}), "hob.after"),
            (json!({"instructions": ["x"]}), "instructions"),
        ] {
            let error = parse(body.clone()).expect_err(&body.to_string());
            assert_eq!(error.param.as_deref(), Some(param), "{body}");
        }
    }
}
