//! `hob chat`
//!
//! - The daemon keeps the conversation: each turn sends only what is new, and whoever ends `hob`
//!   at any moment can go on later.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

use super::turn::{self, Question};
use crate::client::{Client, path_part};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{count, line};

const HELP: &str = "/new starts another conversation · /again answers once more · /quit ends";

/// Talk to the model
#[derive(clap::Args)]
pub struct Args {
    /// Continue this conversation, or begin one of this name
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,

    /// What the model is told first in a new conversation
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,

    /// The longest answer
    #[arg(long, value_name = "TOKENS")]
    max_tokens: Option<u32>,
}

/// A conversation at the keyboard.
struct Chat<'a> {
    client: Client,
    args: &'a Args,
    conversation: String,
    /// Nothing was said yet, so that the system prompt is still to be sent.
    is_new: bool,
}

/// What a line at the keyboard means.
#[derive(Debug, PartialEq, Eq)]
enum Input<'a> {
    Say(&'a str),
    New,
    Again,
    Quit,
    Help,
    Nothing,
    Unknown(&'a str),
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let client = Client::find(context)?;
    let mut chat = Chat { client, args, conversation: String::new(), is_new: true };
    chat.open(args.conversation.clone(), context)?;
    let mut lines = io::stdin().lock().lines();
    loop {
        prompt(context)?;
        let Some(text) = lines.next().transpose()? else {
            note(context, "")?; // The prompt stands on a line of its own.
            break;
        };
        match Input::of(&text) {
            Input::Nothing => {}
            Input::Quit => break,
            Input::New => chat.open(None, context)?,
            Input::Help => note(context, HELP)?,
            Input::Unknown(word) => {
                note(context, &format!("{} is no command · {HELP}", line(word, 40)))?;
            }
            Input::Again => chat.turn(Vec::new(), context)?,
            Input::Say(text) => {
                chat.turn(vec![json!({"role": "user", "content": text})], context)?;
            }
        }
    }
    chat.close(context)
}

impl Chat<'_> {
    fn open(&mut self, id: Option<String>, context: &mut Context) -> Result<(), Failure> {
        self.conversation = id.unwrap_or_else(new_id);
        let path = format!("/v1/conversations/{}", path_part(&self.conversation));
        let known = match self.client.get(&path) {
            Err(Failure::Refused { status: 404, .. }) => None,
            other => Some(other?),
        };
        self.is_new = known.is_none();
        let greeting = match known {
            None => format!("{} · {HELP}", line(&self.conversation, 60)),
            Some(known) => {
                let title = line(known["title"].as_str().unwrap_or(&self.conversation), 60);
                let messages = known["messages"].as_array().map_or(0, Vec::len) as u64;
                let tokens = known["tokens"].as_u64().unwrap_or(0);
                format!("{title} · {messages} messages · {} tokens kept", count(tokens))
            }
        };
        note(context, &greeting)
    }

    /// A refused turn is told and the conversation goes on; without a daemon it cannot.
    fn turn(&mut self, new: Vec<Value>, context: &mut Context) -> Result<(), Failure> {
        let system = self.args.system.as_ref().filter(|_| self.is_new);
        let system = system.map(|text| json!({"role": "system", "content": text}));
        let question = Question {
            messages: system.into_iter().chain(new).collect(),
            conversation: Some(&self.conversation),
            max_tokens: self.args.max_tokens,
        };
        let answer = match turn::ask(&self.client, &question, context) {
            Err(failure @ (Failure::Refused { .. } | Failure::BrokenAnswer(_)))
                if context.terminal.input =>
            {
                eprintln!("hob: {}", crate::output::plain(&failure.to_string()));
                return Ok(());
            }
            other => other?,
        };
        self.is_new = false;
        if context.json {
            return context.write_json(&answer.to_json());
        }
        let footer = context.dim(&turn::footer(&answer.hob));
        writeln!(context.out, "\n{footer}")?;
        Ok(context.out.flush()?)
    }

    fn close(&self, context: &mut Context) -> Result<(), Failure> {
        if self.is_new {
            return Ok(());
        }
        note(context, &format!("to go on: hob chat --conversation {}", self.conversation))
    }
}

impl<'a> Input<'a> {
    fn of(text: &'a str) -> Self {
        match text.trim() {
            "" => Self::Nothing,
            "/quit" | "/exit" | "/q" => Self::Quit,
            "/new" => Self::New,
            "/again" => Self::Again,
            "/help" | "/?" => Self::Help,
            // A path or a fraction may begin a sentence; a single word with a slash is a slip.
            word if word.starts_with('/') && !word[1..].contains(['/', ' ']) => Self::Unknown(word),
            text => Self::Say(text),
        }
    }
}

fn prompt(context: &mut Context) -> Result<(), Failure> {
    if context.terminal.input && !context.json {
        write!(context.out, "\n> ")?;
        context.out.flush()?;
    }
    Ok(())
}

/// A remark that is no part of the conversation; scripts do not see it.
fn note(context: &mut Context, text: &str) -> Result<(), Failure> {
    if context.terminal.input && !context.json {
        let text = context.dim(text);
        writeln!(context.out, "{text}")?;
    }
    Ok(())
}

/// A name that nobody has yet: the standard library seeds its hashers from the system.
fn new_id() -> String {
    format!("chat-{:016x}", RandomState::new().hash_one(std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_said_unless_it_is_a_command() {
        assert_eq!(Input::of(" hello \n"), Input::Say("hello"));
        assert_eq!(Input::of("/quit"), Input::Quit);
        assert_eq!(Input::of("/nwe"), Input::Unknown("/nwe"));
        assert_eq!(Input::of("/usr/bin is a directory"), Input::Say("/usr/bin is a directory"));
        assert_eq!(Input::of("  "), Input::Nothing);
    }

    #[test]
    fn two_conversations_have_two_names() {
        assert_ne!(new_id(), new_id());
    }
}
