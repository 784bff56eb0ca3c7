//! `/v1/chat/completions`: the request, checked.

use std::borrow::Cow;
use std::num::NonZeroUsize;

use hob_slots::TtlClass;
use hob_slots::content::Accepted;
use hob_slots::reanchor::Beyond;
use serde_json::{Map, Value};

use super::call_ids::CallIds;
use super::fields::{Fields, wrong_type};
use super::form::{AnswerForm, answer_form};
use super::functions::{self, FUNCTION_CALL};
use super::hob::{
    after, append, beyond, budget, cold, continues, defaults, draft, in_memory, instructions,
    newest, private, progress, reuse, ttl, unstored,
};
use super::label::Label;
use super::message::pictures::{is_assistants, words_for_pictures};
use super::message::{Message, Role};
use super::sampling::{SamplingFields, Shape, refuse};
use super::thinking::set_effort;
use super::tools::{Tool, ToolChoice, allowed_tools, tool_choice, with_own};
use crate::conversations::transcript::After;
use crate::error::ApiError;

const MAX_TOP_LOGPROBS: i64 = 20;

/// The variable of chat templates that says whether the text ends with the beginning of an answer.
pub const GENERATION_PROMPT: &str = "add_generation_prompt";

/// vLLM's name for a last message that the answer goes on with.
pub const CONTINUES_FINAL: &str = "continue_final_message";

#[derive(Clone, Debug)]
pub struct ChatRequest {
    /// The history, or, with `append`, only the new messages.
    pub messages: Vec<Message>,
    /// `messages` continue the saved conversation.
    pub append: bool,
    /// Where an append continues; `None`: after the last message.
    pub after: Option<After>,
    /// Leave out the oldest messages, for this prompt and later ones, if not all fit.
    pub newest: bool,
    /// Go on with the stored answer instead of giving another.
    pub continues: bool,
    /// Go on with the last of `messages`, an answer, instead of giving another.
    pub continues_final: bool,
    /// For what neither the request nor its conversation nor its profile sets.
    pub defaults: SamplingFields,
    /// What stands in front of the conversation from now on, in place of its own system messages.
    pub instructions: Option<String>,
    /// Cells that the conversation may have at any time; `None`: those of its profile, or of the cache.
    pub budget: Option<NonZeroUsize>,
    /// Whether KV may be used that was computed at another place; `None`: as its profile says, or not.
    pub reuse: Option<Accepted>,
    /// What becomes of a conversation that outgrows the context; `None`: as the profile says.
    pub beyond: Option<Beyond>,
    /// Whether tokens of the answer may be guessed; `None`: as the profile says, or as the settings do.
    pub draft: Option<bool>,
    /// Reuse no KV for this answer.
    pub cold: bool,
    pub shape: Shape,
    /// `Some(n)`: report log-probabilities, and those of the `n` likeliest tokens.
    pub logprobs: Option<usize>,
    /// What the answer must be; `None`: any text.
    pub form: Option<AnswerForm>,
    /// The tools of the profile, then those of the request.
    pub tools: Vec<Tool>,
    pub tool_choice: ToolChoice,
    /// The names of those that the answer may call; `None`: all.
    pub allowed_tools: Option<Vec<String>>,
    /// An answer may have several calls.
    pub parallel_tool_calls: bool,
    /// The client knows functions, and no tools: a call is a `function_call`.
    pub calls_functions: bool,
    pub template_variables: Map<String, Value>,
    /// The TTL class of the conversation's saved KV.
    pub ttl: Option<TtlClass>,
    /// Whether the KV must stay in memory; `None`: as before.
    pub in_memory: Option<bool>,
    /// Neither text nor KV may reach the disk, or stay in memory without a conversation.
    pub private: bool,
    /// Neither text nor KV may reach the disk.
    pub unstored: bool,
    /// For a request that generates nothing: restores what is saved, computes nothing.
    pub restores_only: bool,
    /// The stream says how far the prompt is.
    pub progress: bool,
    /// The answer shows its prompt, as llama-server's `__verbose`.
    pub verbose: bool,
}

impl ChatRequest {
    /// Checks a body without a profile. `vocabulary`: the number of tokens.
    pub fn parse(body: &Value, vocabulary: usize) -> Result<Self, ApiError> {
        Self::parse_with(body, vocabulary, &[])
    }

    /// Checks a body whose profile has `tools`.
    pub fn parse_with(body: &Value, vocabulary: usize, tools: &[Tool]) -> Result<Self, ApiError> {
        let fields = Fields::of_body(body)?;
        refuse(
            &fields,
            &[("audio", "Hob speaks text"), ("web_search_options", "Hob reaches no network")],
        )?;
        let functions = functions::functions(&fields)?;
        if functions.is_none() {
            refuse(
                &fields,
                &[(FUNCTION_CALL, "it needs `functions`; with `tools` use `tool_choice`")],
            )?;
        }
        let append = append(&fields)?;
        let own = match functions {
            Some(functions) => functions::as_tools(&fields, functions)?,
            None => Tool::list(fields.list("tools")?.map_or(&[][..], Vec::as_slice), "tools")?,
        };
        let tools = with_own(tools, own)?;
        let messages = messages(&fields, append)?;
        Ok(Self {
            continues_final: continues_final(&fields, append, messages.last())?,
            messages,
            append,
            after: after(&fields, append)?,
            newest: newest(&fields, append)?,
            continues: continues(&fields, append)?,
            defaults: defaults(&fields)?,
            instructions: instructions(&fields, append)?,
            budget: budget(&fields)?,
            reuse: reuse(&fields)?,
            beyond: beyond(&fields)?,
            draft: draft(&fields)?,
            cold: cold(&fields)?,
            shape: Shape::parse(&fields, vocabulary)?,
            logprobs: logprobs(&fields)?,
            form: answer_form(&fields)?,
            tool_choice: match functions {
                Some(_) => functions::choice(&fields, &tools)?,
                None => tool_choice(&fields, &tools)?,
            },
            allowed_tools: allowed_tools(&fields, &tools)?,
            tools,
            parallel_tool_calls: fields.boolean("parallel_tool_calls")?.unwrap_or(true)
                && functions.is_none(),
            calls_functions: functions.is_some(),
            template_variables: template_variables(&fields)?,
            ttl: ttl(&fields)?,
            in_memory: in_memory(&fields)?,
            private: private(&fields)?,
            unstored: unstored(&fields)?,
            restores_only: fields.boolean("compute")? == Some(false),
            progress: progress(&fields)?,
            verbose: fields.boolean("verbose")?.unwrap_or(false),
        })
    }
}

impl ChatRequest {
    /// The tools that the answer may call, if it may call any.
    pub fn callable(&self) -> impl Iterator<Item = &Tool> {
        let allowed = self.allowed_tools.as_ref();
        self.tools.iter().filter(move |tool| allowed.is_none_or(|names| names.contains(&tool.name)))
    }
}

/// An append without messages answers the last message again.
fn messages(fields: &Fields<'_>, append: bool) -> Result<Vec<Message>, ApiError> {
    let value = fields.required("messages")?;
    let list =
        value.as_array().ok_or_else(|| wrong_type("messages", "an array of messages", value))?;
    if list.is_empty() && !append {
        return Err(ApiError::field("messages", "`messages` must not be empty"));
    }
    let mut ids = CallIds::default();
    let parse = |(n, message): (usize, Cow<'_, Value>)| {
        let path = format!("messages[{n}]");
        let message = functions::read(&message, &path, &mut ids)?;
        Message::parse(&message, &path)
    };
    let continues_last = fields.boolean(CONTINUES_FINAL)?.unwrap_or(false);
    let list = words_for_pictures(list, continues_last, is_assistants);
    let mut messages = list.enumerate().map(parse).collect::<Result<Vec<_>, _>>()?;
    let of_request = Label::of_request(fields)?;
    let newest = messages.iter_mut().rev().take_while(|message| message.role != Role::Assistant);
    for newest in newest {
        newest.set_label(&newest.label().or(&of_request));
    }
    Ok(messages)
}

fn continues_final(
    fields: &Fields<'_>,
    append: bool,
    last: Option<&Message>,
) -> Result<bool, ApiError> {
    if !fields.boolean(CONTINUES_FINAL)?.unwrap_or(false) {
        return Ok(false);
    }
    let refused =
        |why: &str| Err(ApiError::field(CONTINUES_FINAL, format!("`{CONTINUES_FINAL}` {why}")));
    match last {
        _ if append => refused("cannot be combined with `hob.append`: use `hob.continue`"),
        _ if fields.boolean("add_generation_prompt")? == Some(true) => {
            refused("contradicts `add_generation_prompt`")
        }
        Some(last) if last.role != Role::Assistant => {
            refused("needs a last message of the assistant")
        }
        Some(last) if last.has_calls() => refused("cannot go on with a tool call"),
        _ => Ok(true),
    }
}

fn logprobs(fields: &Fields<'_>) -> Result<Option<usize>, ApiError> {
    let wanted = fields.boolean("logprobs")?.unwrap_or(false);
    let top = fields.integer("top_logprobs", 0..=MAX_TOP_LOGPROBS)?;
    if top.is_some_and(|top| top > 0) && !wanted {
        return Err(ApiError::field("top_logprobs", "`top_logprobs` needs `logprobs: true`"));
    }
    Ok(wanted.then_some(top.unwrap_or(0) as usize))
}

/// `chat_template_kwargs`, as other servers call them, and OpenAI's `reasoning_effort`.
fn template_variables(fields: &Fields<'_>) -> Result<Map<String, Value>, ApiError> {
    let mut variables = fields.map("chat_template_kwargs")?.cloned().unwrap_or_default();
    if let Some(effort) = fields.string("reasoning_effort")? {
        set_effort(&mut variables, effort);
    }
    let continues = fields.boolean(CONTINUES_FINAL)?.unwrap_or(false);
    if let Some(false) = fields.boolean(GENERATION_PROMPT)?.filter(|_| !continues) {
        variables.insert(GENERATION_PROMPT.into(), false.into());
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with(extra: Value) -> Result<ChatRequest, ApiError> {
        let mut body = json!({"messages": [{"role": "user", "content": "Hi"}]});
        for (name, value) in extra.as_object().unwrap() {
            body[name] = value.clone();
        }
        ChatRequest::parse(&body, 100)
    }

    fn tool(name: &str) -> Value {
        json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}})
    }

    #[test]
    fn the_choice_is_automatic_with_tools() {
        assert_eq!(with(json!({})).unwrap().tool_choice, ToolChoice::None);
        let request = with(json!({"tools": [tool("f")]})).unwrap();
        assert_eq!(request.tool_choice, ToolChoice::Auto);
        let named = json!({"type": "function", "function": {"name": "f"}});
        let request = with(json!({"tools": [tool("f")], "tool_choice": named})).unwrap();
        assert_eq!(request.tool_choice, ToolChoice::Named("f".into()));
    }

    #[test]
    fn evoke_s_fields_of_a_request_label_the_messages_behind_the_last_answer() {
        let said = |role: &str| json!({"role": role, "content": "x"});
        let mut own = said("user");
        own["hob"] = json!({"weight": 3});
        let body = json!({
            "messages": [said("user"), said("assistant"), own, said("user")],
            "evoke_priority": 1.5, "evoke_pinned": true,
        });
        let messages = ChatRequest::parse(&body, 9).unwrap().messages;
        let labels = messages.iter().map(|message| {
            let label = message.label();
            (label.weight, label.pin)
        });
        let expected = [(None, None), (None, None), (Some(3), Some(true)), (Some(75), Some(true))];
        assert_eq!(labels.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn only_a_last_answer_is_continued() {
        let with = |role: &str, more: Value| {
            let last = json!({"role": role, "content": "One"});
            let mut body = json!({"messages": [last], "continue_final_message": true});
            for (name, value) in more.as_object().unwrap() {
                body[name] = value.clone();
            }
            ChatRequest::parse(&body, 9).map(|request| request.continues_final)
        };
        assert_eq!(with("assistant", json!({"add_generation_prompt": false})), Ok(true));
        assert_eq!(with("user", json!({"continue_final_message": false})), Ok(false));
        for (role, more) in [
            ("user", json!({})),
            ("assistant", json!({"add_generation_prompt": true})),
            ("assistant", json!({"hob": {"append": true}})),
        ] {
            let error = with(role, more).unwrap_err();
            assert_eq!(error.param.as_deref(), Some("continue_final_message"));
        }
    }

    #[test]
    fn an_answer_goes_on_where_its_request_demands_any_text() {
        let parse = |format: Value| {
            let hob = json!({"append": true, "continue": true});
            let body = json!({"messages": [], "hob": hob, "response_format": format});
            ChatRequest::parse(&body, 9).map(|request| request.continues)
        };
        assert_eq!(parse(json!({"type": "text"})), Ok(true));
        let error = parse(json!({"type": "json_object"})).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("hob.continue"));
    }

    #[test]
    fn only_an_append_may_have_no_messages() {
        let empty = |append: bool| json!({"messages": [], "hob": {"append": append}});
        assert!(ChatRequest::parse(&empty(true), 9).unwrap().append);
        assert!(ChatRequest::parse(&empty(false), 9).is_err());
    }

    #[test]
    fn each_wrong_value_is_named() {
        for (extra, param) in [
            (json!({"messages": null}), "messages"),
            (json!({"messages": "Hi"}), "messages"),
            (json!({"messages": ["Hi"]}), "messages[0]"),
            (json!({"hob": {"apend": true}}), "hob.apend"),
            (json!({"hob": {"append": 1}}), "hob.append"),
            (json!({"hob": {"append": true, "after": -1}}), "hob.after"),
            (json!({"hob": {"append": true, "after": "1"}}), "hob.after"),
            (json!({"hob": {"after": 1}}), "hob.after"),
            (json!({"evoke_priority": "high"}), "evoke_priority"),
            (json!({"evoke_pinned": 1}), "evoke_pinned"),
            (json!({"hob": {"budget": 0}}), "hob.budget"),
            (json!({"hob": {"budget": -4096}}), "hob.budget"),
            (json!({"hob": {"reuse": "always"}}), "hob.reuse"),
            (json!({"hob": {"reuse": true}}), "hob.reuse"),
            (json!({"hob": {"beyond": "go on"}}), "hob.beyond"),
            (json!({"hob": {"draft": "off"}}), "hob.draft"),
            (json!({"hob": {"draft": 0}}), "hob.draft"),
            (json!({"hob": {"drafts": false}}), "hob.drafts"),
            (json!({"hob": {"budget": 1.5}}), "hob.budget"),
            (json!({"hob": {"budget": "4096"}}), "hob.budget"),
            (json!({"hob": {"continue": true}}), "hob.continue"),
            (json!({"hob": {"append": true, "continue": true}}), "hob.continue"),
            (json!({"hob": {"defaults": {"top": 1}}}), "hob.defaults.top"),
            (json!({"hob": {"defaults": {"min_p": 2}}}), "hob.defaults.min_p"),
            (json!({"top_logprobs": 2}), "top_logprobs"),
            (json!({"logprobs": 2}), "logprobs"),
            (json!({"response_format": {"type": "xml"}}), "response_format.type"),
            (json!({"response_format": {"type": "json_schema"}}), "response_format.json_schema"),
            (
                json!({"response_format": {"type": "json_schema", "json_schema": {"schema": 1}}}),
                "response_format.json_schema.schema",
            ),
            (json!({"tools": [{"type": "retrieval"}]}), "tools[0].type"),
            (json!({"tools": [tool("a b")]}), "tools[0].function.name"),
            (json!({"tools": [tool("f"), tool("f")]}), "tools[1].function.name"),
            (json!({"tool_choice": "required"}), "tool_choice"),
            (json!({"tools": [tool("f")], "tool_choice": "always"}), "tool_choice"),
            (
                json!({"tools": [tool("f")], "tool_choice":
                    {"type": "function", "function": {"name": "g"}}}),
                "tool_choice.function.name",
            ),
            (
                json!({"tools": [tool("f")], "tool_choice": {"type": "allowed_tools"}}),
                "tool_choice.allowed_tools",
            ),
            (
                json!({"tools": [tool("f")], "tool_choice": {"type": "allowed_tools",
                    "allowed_tools": {"mode": "none", "tools": [tool("f")]}}}),
                "tool_choice.allowed_tools.mode",
            ),
            (
                json!({"tools": [tool("f")], "tool_choice": {"type": "allowed_tools",
                    "allowed_tools": {"mode": "auto", "tools": [tool("g")]}}}),
                "tool_choice.allowed_tools.tools[0].function.name",
            ),
            (json!({"functions": [{"name": "a b"}]}), "functions[0].name"),
            (json!({"functions": [{"name": "f"}, {"name": "f"}]}), "functions[1].name"),
            (json!({"functions": [{"name": "f"}], "tools": [tool("f")]}), "functions"),
            (
                json!({"functions": [{"name": "f"}], "function_call": {"name": "g"}}),
                "function_call.name",
            ),
            (json!({"function_call": {"name": "f"}}), "function_call"),
            (json!({"tools": [{"type": "custom", "custom": {}}]}), "tools[0].custom.name"),
            (
                json!({"tools": [{"type": "custom", "custom": {"name": "x", "format":
                    {"type": "grammar", "grammar": {"syntax": "ebnf", "definition": "a"}}}}]}),
                "tools[0].custom.format.grammar.syntax",
            ),
            (
                json!({"tools": [tool("f")], "tool_choice":
                    {"type": "custom", "custom": {"name": "g"}}}),
                "tool_choice.custom.name",
            ),
            (json!({"web_search_options": {}}), "web_search_options"),
        ] {
            let error = with(extra.clone()).expect_err(&extra.to_string());
            assert_eq!(error.param.as_deref(), Some(param), "{extra}");
        }
    }
}
