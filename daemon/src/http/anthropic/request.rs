//! A request as the body of a chat that means the same.
//!
//! - Fields that Hob adds to a chat, and its sampling parameters, mean the same here.
//! - Fields that are not read are ignored.

use serde_json::{Map, Value, json};

use super::answer::Form;
use super::blocks::{self, text_of};
use super::cache::Marks;
use super::names::Names;
use super::thread::Thread;
use super::{thinking, tools};
use crate::chat::identity::Session;
use crate::error::ApiError;
use crate::http::translation::{copied, refuse_response_format};
use crate::wire::fields::{Fields, unsupported, wrong_type};
use crate::wire::hob::is_detached;
use crate::wire::message::pictures::{is_assistants, words_for_pictures};
use crate::wire::message::reminder;
use crate::wire::sampling::refuse;

/// Further fields that the chat's body has under the same name.
const PASSED_ON: [&str; 18] = [
    "conversation",
    "frequency_penalty",
    "max_tokens",
    "min_p",
    "model",
    "presence_penalty",
    "repeat_last_n",
    "repeat_penalty",
    "repetition_penalty",
    "return_progress",
    "seed",
    "store",
    "stream",
    "temperature",
    "top_k",
    "top_p",
    "xtc_probability",
    "xtc_threshold",
];

/// Claude Code begins its system prompt with such a line, which Anthropic's servers read for the bill. It
/// changes with each request: a prompt with it would reuse nothing of the one before.
const BILLING: &str = "x-anthropic-billing-header:";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Answer,
    /// The prompt is only counted: it needs no limit of the answer.
    Count,
}

pub struct Request {
    /// The body of the chat request.
    pub body: Value,
    pub names: Names,
    pub form: Form,
    pub thread: Option<Thread>,
}

impl Request {
    /// `session`: what the headers name.
    ///
    /// # Errors
    /// Names the wrong field.
    pub fn of(body: &Value, session: &Session, purpose: Purpose) -> Result<Self, ApiError> {
        let fields = Fields::of_body(body)?;
        refuse(&fields, &[("mcp_servers", "Hob reaches no network")])?;
        refuse_response_format(&fields, "output_config.format")?;
        if purpose == Purpose::Answer {
            fields.required("max_tokens")?;
        }
        if is_detached(body)? {
            let message = "detached answers are those of POST /v1/chat/completions";
            return Err(unsupported("hob.detached", message));
        }
        let thread = Thread::read(&fields)?;
        let mut chat = copied(&fields, &PASSED_ON);
        if purpose == Purpose::Count {
            chat.shift_remove("max_tokens"); // 0 would prefill the prompt.
        }
        let continues_last = thread.is_none() && generates(&chat) && !appends(&chat);
        let mut marks = Marks::default();
        marks.read(&fields)?;

        let (tools, places) = tools::tools(&fields, &mut marks)?;
        let prompt = Prompt::read(&fields, continues_last, &mut marks)?;
        let keys = cache_keys(&fields, &tools, prompt.system.as_deref())?;
        let names = Names::of(prompt.put_into(&mut chat), places);
        if !tools.is_empty() {
            chat.insert("tools".into(), tools.into());
        }
        tools::choose(&fields, &mut chat)?;
        if let Some(stop) = fields.list("stop_sequences")? {
            chat.insert("stop".into(), stop.clone().into());
        }
        let form =
            Form { is_marked: marks.are_any(), omits_thinking: thinking::set(&fields, &mut chat)? };
        if continues_last {
            continue_last(&mut chat);
        }
        let body = marks.apply(chat, &keys, session)?;
        Ok(Self { body, names, form, thread })
    }
}

/// What the model reads.
#[derive(Default)]
struct Prompt {
    /// The system prompt.
    system: Option<String>,
    /// In the chat's form.
    messages: Vec<Value>,
    /// The path of the origin of each message.
    paths: Vec<String>,
}

impl Prompt {
    /// `continues_last`: the request continues the last message, if it is the assistant's.
    fn read(
        fields: &Fields<'_>,
        continues_last: bool,
        marks: &mut Marks,
    ) -> Result<Self, ApiError> {
        let mut prompt = Self::default();
        let mut system = match fields.get("system") {
            Some(_) => vec![text_of(fields, "system", marks)?],
            None => Vec::new(),
        };
        let list = fields.required("messages")?;
        let list = list.as_array().ok_or_else(|| wrong_type("messages", "an array", list))?;
        for (n, message) in words_for_pictures(list, continues_last, is_assistants).enumerate() {
            let path = format!("messages[{n}]");
            match blocks::messages_of(&message, &path, marks)? {
                blocks::Message::System(text) if prompt.messages.is_empty() => system.push(text),
                blocks::Message::System(text) => {
                    prompt.push(json!({"role": "user", "content": reminder(&text)}), &path);
                }
                blocks::Message::Others(others) => {
                    others.into_iter().for_each(|message| prompt.push(message, &path));
                }
            }
        }
        let system = system.iter().map(|text| without_billing(text)).collect::<Vec<_>>();
        prompt.system = Some(system.join("\n")).filter(|text| !text.trim().is_empty());
        Ok(prompt)
    }

    fn push(&mut self, message: Value, path: &str) {
        self.messages.push(message);
        self.paths.push(path.to_owned());
    }

    /// Writes the messages of the chat. With `hob.append` the system prompt is the conversation's own
    /// from now on. Returns the path of the origin of each message.
    fn put_into(mut self, chat: &mut Map<String, Value>) -> Vec<String> {
        match (self.system, chat.get_mut("hob")) {
            (Some(text), Some(Value::Object(hob))) if hob.get("append") == Some(&json!(true)) => {
                hob.entry("instructions").or_insert(text.into());
            }
            (Some(text), _) => {
                self.messages.insert(0, json!({"role": "system", "content": text}));
                self.paths.insert(0, "system".to_owned());
            }
            (None, _) => {}
        }
        chat.insert("messages".into(), self.messages.into());
        self.paths
    }
}

fn without_billing(system: &str) -> &str {
    match system.strip_prefix(BILLING) {
        Some(line) => line.split_once('\n').map_or("", |(_, rest)| rest),
        None => system,
    }
}

/// What may name the KV of a prompt that is marked for a cache: the user, of which Claude Code has one for
/// each session, or what stands in front of all messages.
fn cache_keys(
    fields: &Fields<'_>,
    tools: &[Value],
    system: Option<&str>,
) -> Result<Vec<String>, ApiError> {
    let user = match fields.get("metadata") {
        Some(metadata) => Fields::of(metadata, "metadata")?.string("user_id")?.map(str::to_owned),
        None => None,
    };
    let hash = super::cache::hash(tools, system.unwrap_or_default());
    Ok(user.into_iter().chain([hash]).collect())
}

/// An answer goes on with a last message of the assistant's.
fn continue_last(chat: &mut Map<String, Value>) {
    let last = chat["messages"].as_array().and_then(|messages| messages.last());
    let is_begun = last.is_some_and(|message| message["role"] == "assistant");
    if is_begun {
        chat.insert("continue_final_message".into(), true.into());
    }
}

fn generates(chat: &Map<String, Value>) -> bool {
    chat.get("max_tokens") != Some(&json!(0))
}

fn appends(chat: &Map<String, Value>) -> bool {
    chat.get("hob").and_then(|hob| hob.get("append")) == Some(&Value::Bool(true))
}
