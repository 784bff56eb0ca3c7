//! Room in a context that is full, by the ways of the app: the newest part, a summary of the oldest
//! messages, another conversation with the last ones, and a larger context.
//!
//! - The text of the conversation stays whole.
//! - The message that did not fit is sent again once there is room.

use std::io::Write;

use hob_api::Status;
use hob_api::conversations::ContextUse;
use serde_json::{Value, json};

use super::say::NewTurn;
use super::{Chat, note, restart};
use crate::client::Client;
use crate::commands::stream::{self, StreamEnd};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{context_tokens, count, counted, line, plain};
use crate::progress::Reading;
use crate::terminal_mode;

/// The context that the daemon chooses.
const AUTO: &str = "auto";

const GO_ON: &str = "Enter answers with the newest part; the text stays whole. Or choose:";
const SUMMARISE: &str = "the model reads a summary of the oldest messages in their place";

/// How many messages a branch begins with, where none is named.
const LAST_MESSAGES: usize = 4;

/// What the daemon adds to a message of OpenAI's shape.
const OWN_FIELDS: [&str; 7] =
    ["id", "parent", "status", "created_at", "finish", "starts_prompt", "summary"];

impl Chat<'_> {
    /// Says how the conversation can go on.
    pub(super) fn offer_room(&self, context: &mut Context) -> Result<(), Failure> {
        if self.interrupt.is_some() {
            terminal_mode::drop_typed(); // An Enter from before would choose.
        }
        let mut ways = vec![("/summarise".to_owned(), SUMMARISE.to_owned())];
        if !self.is_private {
            let branch = "another conversation begins with copies of the last messages";
            ways.push((format!("/branch {LAST_MESSAGES}"), branch.to_owned()));
        }
        // Without the settings the other ways remain.
        let larger = Client::find(context).and_then(|client| ContextSize::of(&client));
        if let Some(tokens) = larger.ok().and_then(|size| size.larger()) {
            let about = format!("a context of {} tokens; the model is loaded again", count(tokens));
            ways.push((format!("/context {tokens}"), about));
        }
        let wide = ways.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
        let ways = ways.iter().map(|(command, about)| format!("\n{command:wide$}  {about}"));
        note(context, &format!("{GO_ON}{}", ways.collect::<String>()))
    }

    fn answer_outgrown(&mut self, context: &mut Context) -> Result<(), Failure> {
        match self.outgrown.take() {
            Some(new) => self.say(NewTurn { new, ..NewTurn::default() }, context),
            None => Ok(()),
        }
    }

    /// `/summarise`
    pub(super) fn summarise(&mut self, context: &mut Context) -> Result<(), Failure> {
        if self.is_new {
            return note(context, "nothing to summarise yet");
        }
        let client = Client::find(context)?;
        let path = format!("{}/shorten", self.path());
        note(context, "summarising the oldest messages; Ctrl-C stops it")?;
        let mut reading = Reading::of(context);
        let (mut left_out, mut has_text) = (0, false);
        let is_shown = context.terminal.input && !context.json;
        let mut body = json!({"summarise": true});
        self.args.shape.add_profile(&mut body);
        let interrupt = self.interrupt.as_ref();
        let ended = stream::follow(&client, &path, Some(&body), interrupt, |event: Value| {
            reading.show(&event["hob"]["progress"]);
            left_out = event["result"]["left_out"].as_u64().unwrap_or(left_out);
            if let Some(text) = event["text"].as_str().filter(|_| is_shown) {
                reading.clear();
                has_text = true;
                let text = context.dim(&plain(text));
                write!(context.out, "{text}")?;
                context.out.flush()?;
            }
            Ok(())
        });
        reading.clear();
        if has_text {
            note(context, "")?; // The summary has no line break.
        }
        if ended? == StreamEnd::Interrupted {
            return note(context, "stopped; nothing has changed");
        }
        let older = count(left_out);
        note(context, &format!("this stands for {older} older messages, whose text stays"))?;
        self.answer_outgrown(context)
    }

    /// `/branch [N]`
    pub(super) fn branch(&mut self, last: &str, context: &mut Context) -> Result<(), Failure> {
        if self.is_new {
            return note(context, "nothing to copy yet");
        }
        if self.is_private {
            return note(context, "a copy of a private chat would be on disk; /summarise, or /new");
        }
        let last = match last {
            "" => LAST_MESSAGES,
            text => number(text)?,
        };
        let client = Client::find(context)?;
        let document = document_of_last(&client.get(&self.path())?, last);
        let imported: Value = client.post("/v1/conversations/import", &document)?;
        let id = imported["id"].as_str().unwrap_or_default();
        self.conversation = id.to_owned();
        let title = line(document["title"].as_str().unwrap_or(id), 60);
        let messages = counted(document["messages"].as_array().map_or(0, Vec::len), "message");
        note(context, &format!("{title} · {messages}"))?;
        self.answer_outgrown(context)
    }

    /// `/context`: how full it is.
    pub(super) fn show_context(&self, context: &mut Context) -> Result<(), Failure> {
        let client = Client::find(context)?;
        let profile = self.args.shape.profile_query('?');
        let used: ContextUse = client.get(&format!("{}/context{profile}", self.path()))?;
        let (tokens, max) = (count(used.tokens as u64), count(used.max_tokens as u64));
        let size = ContextSize::of(&client)?;
        let larger = match (&size.fixed, size.larger()) {
            (Some(by), _) => format!("{by} sets the size: start hobd without it to change it here"),
            (None, Some(tokens)) => format!("/context {tokens} gives it {} tokens", count(tokens)),
            (None, None) => "the model was trained with no larger one".to_owned(),
        };
        let goes_on =
            if used.goes_on { ", behind which it goes on with its newest part" } else { "" };
        note(context, &format!("{tokens} of {max} tokens{goes_on}\n{larger}"))
    }

    /// `/context TOKENS`, or `/context auto`
    pub(super) fn set_context(
        &mut self,
        tokens: &str,
        context: &mut Context,
    ) -> Result<(), Failure> {
        let tokens = if tokens == AUTO { None } else { Some(number(tokens)?) };
        let client = Client::find(context)?;
        let before = client.status()?;
        let ctx = tokens.map_or_else(|| AUTO.into(), Value::from);
        let change = json!({"settings": {"ctx": ctx}});
        let answer: Value = client.patch("/v1/settings", &change)?;
        if answer["restarts"] == true {
            note(context, "loading the model again; conversations stay")?;
            let told = |now: &Status| new_context(now, &before, tokens);
            let told = restart::wait(context, self.interrupt.as_ref(), told);
            note(context, told.as_deref().unwrap_or("the model is still loading"))?;
        }
        self.answer_outgrown(context)
    }
}

/// What became of a change of the context, once it is known.
fn new_context(now: &Status, before: &Status, tokens: Option<usize>) -> Option<String> {
    let failure = now.switch_error.as_ref().filter(|_| now.switch_error != before.switch_error);
    match failure {
        _ if now.residency == "loading" => None,
        Some(failure) => Some(line(&failure.message, 400)),
        None if tokens == Some(now.context_tokens) || now.started_at != before.started_at => {
            Some(format!("the context has {} tokens", context_tokens(now)))
        }
        None => None,
    }
}

/// The size of the context, and what limits it.
struct ContextSize {
    tokens: u64,
    /// Tokens of the context with which the model was trained.
    trained: u64,
    /// The flag or variable that sets it.
    fixed: Option<String>,
}

impl ContextSize {
    fn of(client: &Client) -> Result<Self, Failure> {
        let settings: Value = client.get("/v1/settings")?;
        let rows = settings["data"].as_array().into_iter().flatten();
        let row = rows.into_iter().find(|row| row["key"] == "ctx").unwrap_or(&Value::Null);
        let status = client.status()?;
        Ok(Self {
            tokens: status.context_tokens as u64,
            trained: status.trained_tokens.map_or(u64::MAX, |tokens| tokens as u64),
            fixed: row["fixed"].as_str().map(plain),
        })
    }

    /// Twice the size, or what the model was trained with; `None` where there is no larger one.
    fn larger(&self) -> Option<u64> {
        let tokens = (self.tokens * 2).min(self.trained);
        Some(tokens).filter(|tokens| *tokens > self.tokens && self.fixed.is_none())
    }
}

/// A conversation with the instructions and the last messages of `text`, from one of the user on.
fn document_of_last(text: &Value, last: usize) -> Value {
    let messages = text["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let is_instruction =
        |message: &&Value| message["role"] == "system" || message["role"] == "developer";
    let front = messages.iter().take_while(is_instruction).count();
    let mut from = front.max(messages.len().saturating_sub(last));
    while from + 1 < messages.len() && messages[from]["role"] != "user" {
        from += 1;
    }
    let kept = messages[..front].iter().chain(&messages[from..]);
    let copies = kept.enumerate().map(|(index, message)| {
        let mut plain = message.as_object().cloned().unwrap_or_default();
        plain.retain(|field, _| !OWN_FIELDS.contains(&field.as_str()));
        json!({
            "id": index + 1,
            "parent": (index > 0).then_some(index),
            "status": "complete",
            "created_at": message["created_at"],
            "finish": message["finish"],
            "message": plain,
        })
    });
    let mut document = json!({
        "format": "hob conversation",
        "version": 1,
        "messages": copies.collect::<Vec<_>>(),
    });
    if let Some(title) = text["title"].as_str() {
        document["title"] = format!("{title} (continued)").into();
    }
    if !text["instructions"].is_null() {
        document["instructions"] = text["instructions"].clone();
    }
    document
}

/// A number of messages or tokens: `16384`, `16,384`.
fn number(text: &str) -> Result<usize, Failure> {
    let digits: String = text.chars().filter(|letter| !matches!(letter, ',' | '_')).collect();
    let number = digits.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| Failure::Usage(format!("`{}` is not a number", line(text, 40))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_begins_with_the_instructions_and_a_message_of_the_user() {
        let message = |id: u64, role: &str| json!({"id": id, "role": role, "content": role});
        let roles = ["system", "user", "assistant", "user", "assistant", "user", "assistant"];
        let messages: Vec<_> =
            roles.iter().enumerate().map(|(id, role)| message(id as u64 + 7, role)).collect();
        let text = json!({"title": "Codes", "messages": messages, "instructions": null});
        let document = document_of_last(&text, 3);
        let kept = document["messages"].as_array().unwrap();
        let roles: Vec<_> = kept.iter().map(|kept| kept["message"]["role"].clone()).collect();
        assert_eq!(roles, ["system", "user", "assistant"]);
        let parents: Vec<_> = kept.iter().map(|kept| kept["parent"].clone()).collect();
        assert_eq!(parents, [Value::Null, 1.into(), 2.into()]);
        assert_eq!(kept[1]["message"], json!({"role": "user", "content": "user"}));
        assert_eq!(document["title"], "Codes (continued)");
        assert!(document.get("instructions").is_none());
    }

    #[test]
    fn a_larger_context_is_twice_as_large_up_to_what_the_model_was_trained_with() {
        let size = |tokens, trained| ContextSize { tokens, trained, fixed: None };
        assert_eq!(size(4096, 32768).larger(), Some(8192));
        assert_eq!(size(24576, 32768).larger(), Some(32768));
        assert_eq!(size(32768, 32768).larger(), None);
        let fixed = ContextSize { fixed: Some("flag --ctx".to_owned()), ..size(4096, 32768) };
        assert_eq!(fixed.larger(), None);
    }

    #[test]
    fn a_number_may_have_separators() {
        assert_eq!(number("16,384").unwrap(), 16384);
        assert!(number("many").is_err() && number("0").is_err());
    }
}
