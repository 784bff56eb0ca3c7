//! `hob chat`
//!
//! - The daemon keeps the conversation: each turn sends only what is new, and whoever ends `hob`
//!   at any moment can go on later.
//! - At a terminal a daemon that ends is no end: once it runs again, the conversation goes on.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, Write};

use clap::builder::NonEmptyStringValueParser;
use serde_json::{Value, json};

use super::turn::{self, Question, Shape};
use crate::client::{Client, path_part};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{count, line, plain};

const HELP: &str = "/new starts another conversation · /again answers once more · /quit ends";

/// As much of a line as a terminal passes on; the rest of a longer one is lost on the way.
const TERMINAL_LINE_BYTES: usize = 4095;

/// Talk to the model
#[derive(clap::Args)]
pub struct Args {
    /// Continue this conversation, or begin one of this name
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    conversation: Option<String>,

    /// Continue the conversation that was used last
    #[arg(long, conflicts_with = "conversation")]
    last: bool,

    /// What the model is told first in a new conversation
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,

    #[command(flatten)]
    shape: Shape,
}

/// A conversation at the keyboard.
struct Chat<'a> {
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
    let mut chat = Chat { args, conversation: String::new(), is_new: true };
    let id = match args.last {
        true => Some(last(context)?),
        false => args.conversation.clone(),
    };
    chat.open(id, context)?;
    let mut lines = io::stdin().lock().lines();
    loop {
        prompt(context)?;
        let Some(text) = lines.next().transpose()? else {
            note(context, "")?; // The prompt stands on a line of its own.
            break;
        };
        match Input::of(&text) {
            Input::Nothing => {}
            Input::Say(_) if context.terminal.input && text.len() >= TERMINAL_LINE_BYTES => {
                eprintln!(
                    "hob: the terminal cut this line short, so it was not said; \
                     longer texts: hob ask --conversation {} - < FILE",
                    plain(&chat.conversation),
                );
            }
            Input::Quit => break,
            Input::New => {
                let opened = chat.open(None, context);
                go_on(opened, context)?;
            }
            Input::Help => note(context, HELP)?,
            Input::Unknown(word) => {
                note(context, &format!("{} is no command · {HELP}", line(word, 40)))?;
            }
            Input::Again => {
                let turn = chat.turn(Vec::new(), context);
                go_on(turn, context)?;
            }
            Input::Say(text) => {
                let turn = chat.turn(vec![json!({"role": "user", "content": text})], context);
                go_on(turn, context)?;
            }
        }
    }
    chat.close(context)
}

impl Chat<'_> {
    fn open(&mut self, id: Option<String>, context: &mut Context) -> Result<(), Failure> {
        self.conversation = id.unwrap_or_else(new_id);
        let path = format!("/v1/conversations/{}", path_part(&self.conversation));
        let known = match Client::find(context)?.get(&path) {
            Err(Failure::Refused { status: 404, .. }) => None,
            other => Some(other?),
        };
        self.is_new = known.is_none();
        let greeting = match known {
            None => format!("{}\n{HELP}", line(&self.conversation, 60)),
            Some(known) => {
                let title = line(known["title"].as_str().unwrap_or(&self.conversation), 60);
                let messages = known["messages"].as_array().map_or(0, Vec::len) as u64;
                let tokens = known["tokens"].as_u64().unwrap_or(0);
                format!("{title} · {messages} messages · {} tokens kept", count(tokens))
            }
        };
        note(context, &greeting)
    }

    /// The daemon may have been started anew since the last turn, so it is looked for each time.
    fn turn(&mut self, new: Vec<Value>, context: &mut Context) -> Result<(), Failure> {
        let system = self.args.system.as_ref().filter(|_| self.is_new);
        let system = system.map(|text| json!({"role": "system", "content": text}));
        let question = Question {
            messages: system.into_iter().chain(new).collect(),
            conversation: Some(&self.conversation),
            shape: &self.args.shape,
        };
        let answer = turn::ask(&Client::find(context)?, &question, context);
        // What was asked is kept also where the answer broke off.
        self.is_new &= !matches!(answer, Ok(_) | Err(Failure::BrokenAnswer(_)));
        let answer = answer?;
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

/// The conversation that was used last.
fn last(context: &Context) -> Result<String, Failure> {
    let answer = Client::find(context)?.get("/v1/conversations")?;
    let id = answer["data"][0]["id"].as_str().map(str::to_owned);
    id.ok_or_else(|| Failure::NotFound("there is no conversation yet: `hob chat`".to_owned()))
}

/// What a person can mend is told, and the conversation goes on; a script ends.
fn go_on(result: Result<(), Failure>, context: &Context) -> Result<(), Failure> {
    let passing = |failure: &Failure| {
        use Failure::{BrokenAnswer, NotRunning, Refused};
        matches!(failure, Refused { .. } | BrokenAnswer(_) | NotRunning { .. })
    };
    match result {
        Err(failure) if context.terminal.input && passing(&failure) => {
            let begun = if matches!(failure, Failure::BrokenAnswer(_)) { "\n" } else { "" };
            eprintln!("{begun}hob: {}", plain(&failure.to_string()));
            if matches!(failure, Failure::NotRunning { .. }) {
                eprintln!("once it runs, say it again: the conversation is kept");
            }
            Ok(())
        }
        other => other,
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
