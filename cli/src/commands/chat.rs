//! `hob chat`
//!
//! - The daemon stores the conversation: each turn sends only the new messages, and `hob` can end at any
//!   moment and continue later.
//! - Where the conversation outgrows the context, Enter goes on with its newest part.
//! - At a terminal, `hob` survives a restart of the daemon; in a script it fails.
//! - At a terminal, the daemon computes the words of a message while it is typed.
//! - A private conversation is deleted at the end.

use std::hash::{BuildHasher, RandomState};
use std::io::Write;

use clap::builder::NonEmptyStringValueParser;
use hob_api::{Conversation, ConversationText, List, Turn};
use serde_json::{Value, json};

use super::turn::{self, Question, Shape};
use crate::ahead::TypeAhead;
use crate::client::{Client, path_segment};
use crate::context::Context;
use crate::failure::Failure;
use crate::line;
use crate::output::{count, line, plain};
use crate::private::PrivateChat;

const PROMPT: &str = "> ";

const HELP: &str = "/new starts another conversation · /again answers once more · /quit ends";

const PRIVATE: &str = "a private chat: Hob writes neither its text nor its KV to disk, and forgets \
    both when you end it";

const GO_ON: &str = "Enter answers with the newest part of the conversation; its text stays whole";
const LEFT_OUT: &str = "from here on the model reads the newest part only; the text stays whole";

/// Linux terminals drop the rest of a longer line, unless an editor reads it.
const MAX_TERMINAL_LINE_BYTES: usize = 4095;

/// Talk to the model
#[derive(clap::Args)]
pub struct Args {
    /// Continue this conversation, or start one with this name
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    conversation: Option<String>,

    /// Continue the most recently used conversation
    #[arg(long, conflicts_with = "conversation")]
    last: bool,

    /// Start a private conversation: neither text nor KV is written to disk, and both are forgotten
    /// at the end
    #[arg(long, conflicts_with_all = ["conversation", "last"])]
    private: bool,

    /// System prompt of a new conversation
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,

    #[command(flatten)]
    shape: Shape,
}

/// A conversation at the keyboard.
struct Chat<'a> {
    args: &'a Args,
    conversation: String,
    private: Option<PrivateChat>,
    /// The daemon does not know it yet: the first turn sends the system prompt.
    is_new: bool,
    /// What to send again with the newest part, after a turn that did not fit into the context; an
    /// empty list answers the last message again.
    outgrown: Option<Vec<Value>>,
}

/// A line at the keyboard.
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
    let private = args.private.then(PrivateChat::new).transpose()?;
    let conversation = String::new();
    let mut chat = Chat { args, conversation, private, is_new: true, outgrown: None };
    let id = match args.last {
        true => Some(last(context)?),
        false => args.conversation.clone(),
    };
    chat.open(id, context)?;
    let mut lines = line::Input::new(context.terminal, context.json);
    let is_cut = context.terminal.input && !lines.is_edited();
    loop {
        let Some(text) = chat.next_line(&mut lines, context)? else {
            note(context, "")?; // The prompt has no line break.
            break;
        };
        match Input::of(&text) {
            Input::Nothing => {
                if let Some(again) = chat.outgrown.take() {
                    chat.say(again, true, context)?;
                }
            }
            Input::Say(_) if is_cut && text.len() >= MAX_TERMINAL_LINE_BYTES => {
                eprintln!(
                    "hob: not sent: the terminal cut this line short; \
                     for longer texts: hob ask --conversation {} - < FILE",
                    plain(&chat.conversation),
                );
            }
            Input::Quit => break,
            Input::New => {
                let opened = chat.open(None, context);
                report_passing(opened, context)?;
            }
            Input::Help => note(context, HELP)?,
            Input::Unknown(word) => {
                note(context, &format!("{} is not a command · {HELP}", line(word, 40)))?;
            }
            Input::Again => chat.say(Vec::new(), false, context)?,
            Input::Say(text) => {
                chat.say(vec![json!({"role": "user", "content": text})], false, context)?;
            }
        }
    }
    chat.close(context)
}

impl Chat<'_> {
    fn open(&mut self, id: Option<String>, context: &mut Context) -> Result<(), Failure> {
        if let Some(private) = &self.private {
            self.conversation = private.begin(Client::find(context)?);
            self.is_new = true;
            return note(context, &format!("{PRIVATE}\n{HELP}"));
        }
        self.conversation = id.unwrap_or_else(new_id);
        let path = format!("/v1/conversations/{}", path_segment(&self.conversation));
        let known = match Client::find(context)?.get::<ConversationText>(&path) {
            Err(Failure::Refused { status: 404, .. }) => None,
            other => Some(other?),
        };
        self.is_new = known.is_none();
        let greeting = match known {
            None => format!("{}\n{HELP}", line(&self.conversation, 60)),
            Some(known) => {
                let Conversation { title, tokens, .. } = known.conversation;
                let title = line(title.as_deref().unwrap_or(&self.conversation), 60);
                let (messages, tokens) = (known.messages.len(), count(tokens as u64));
                format!("{title} · {messages} messages · {tokens} tokens saved")
            }
        };
        note(context, &greeting)
    }

    /// `None` at the end of the input.
    fn next_line(
        &self,
        lines: &mut line::Input,
        context: &mut Context,
    ) -> Result<Option<String>, Failure> {
        if !lines.is_edited() {
            prompt(context)?;
            return Ok(lines.next("", None)?);
        }
        writeln!(context.out)?;
        context.out.flush()?;
        // Without a daemon, the message itself says so.
        let ahead = Client::find(context).ok().map(|client| {
            let path = format!("/v1/conversations/{}/typing", path_segment(&self.conversation));
            let messages = self.system().into_iter().collect::<Vec<_>>();
            let hob = turn::extension(false, self.private.is_some());
            let fields = json!({"hob": hob, "messages": messages});
            TypeAhead::start(client, path, fields)
        });
        let line = lines.next(PROMPT, ahead.as_ref().map(TypeAhead::on_key));
        if let Some(ahead) = ahead {
            match &line {
                Ok(Some(text)) if matches!(Input::of(text), Input::Say(_)) => ahead.stop(),
                _ => ahead.leave(),
            }
        }
        Ok(line?)
    }

    /// The first message of a new conversation, if there is one.
    fn system(&self) -> Option<Value> {
        let system = self.args.system.as_ref().filter(|_| self.is_new);
        system.map(|text| json!({"role": "system", "content": text}))
    }

    /// One turn, and the offer to go on where it did not fit into the context.
    fn say(&mut self, new: Vec<Value>, newest: bool, context: &mut Context) -> Result<(), Failure> {
        let turn = self.turn(new, newest, context);
        report_passing(turn, context)?;
        if self.outgrown.is_some() {
            note(context, GO_ON)?;
        }
        Ok(())
    }

    /// Finds the daemon for each turn: it may have restarted at another address.
    fn turn(
        &mut self,
        new: Vec<Value>,
        newest: bool,
        context: &mut Context,
    ) -> Result<(), Failure> {
        self.outgrown = None;
        let question = Question {
            messages: self.system().into_iter().chain(new.clone()).collect(),
            conversation: Some(&self.conversation),
            newest,
            private: self.private.is_some(),
            shape: &self.args.shape,
        };
        let answer = turn::ask(&Client::find(context)?, &question, context);
        // The daemon stores the question also when the answer breaks off.
        self.is_new &= !matches!(answer, Ok(_) | Err(Failure::BrokenAnswer(_)));
        if answer.as_ref().is_err_and(is_too_long) && !newest {
            self.outgrown = Some(new);
        }
        let answer = answer?;
        if context.json {
            return context.write_json(&answer.to_json());
        }
        let footer = context.dim(&turn::footer(&answer.hob));
        writeln!(context.out, "\n{footer}")?;
        let turn: Turn = serde_json::from_value(answer.hob).unwrap_or_default();
        if newest && turn.left_out > 0 {
            note(context, LEFT_OUT)?;
        }
        if turn.context_full {
            self.outgrown = Some(Vec::new());
            note(context, "the context is full, so the answer ends here")?;
        }
        Ok(context.out.flush()?)
    }

    fn close(&self, context: &mut Context) -> Result<(), Failure> {
        if self.is_new {
            return Ok(());
        }
        if self.private.is_some() {
            return note(context, "the private chat is forgotten");
        }
        note(context, &format!("to continue: hob chat --conversation {}", self.conversation))
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
            // A path or a fraction may begin a sentence; one word with a slash is a mistyped command.
            word if word.starts_with('/') && !word[1..].contains(['/', ' ']) => Self::Unknown(word),
            text => Self::Say(text),
        }
    }
}

/// Whether the conversation does not fit into the context any more.
fn is_too_long(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused { code: Some(code), .. } if code == "context_length_exceeded")
}

/// The id of the most recently used conversation.
fn last(context: &Context) -> Result<String, Failure> {
    let list: List<Conversation<'_>> = Client::find(context)?.get("/v1/conversations")?;
    let newest = list.data.into_iter().next().map(|conversation| conversation.id.into_owned());
    newest.ok_or_else(|| {
        let message = "there is no conversation yet; `hob chat` starts one";
        Failure::NotFound(message.to_owned())
    })
}

/// At a terminal, prints a failure that may pass, and the conversation goes on; a script ends.
fn report_passing(result: Result<(), Failure>, context: &Context) -> Result<(), Failure> {
    let passing = |failure: &Failure| {
        use Failure::{BrokenAnswer, NotRunning, Refused};
        matches!(failure, Refused { .. } | BrokenAnswer(_) | NotRunning { .. })
    };
    match result {
        Err(failure) if context.terminal.input && passing(&failure) => {
            let begun = if matches!(failure, Failure::BrokenAnswer(_)) { "\n" } else { "" };
            eprintln!("{begun}hob: {}", plain(&failure.to_string()));
            if matches!(failure, Failure::NotRunning { .. }) {
                eprintln!("once it runs, send the message again: the conversation is stored");
            }
            Ok(())
        }
        other => other,
    }
}

fn prompt(context: &mut Context) -> Result<(), Failure> {
    if context.terminal.input && !context.json {
        write!(context.out, "\n{PROMPT}")?;
        context.out.flush()?;
    }
    Ok(())
}

/// Prints a remark at a terminal; scripts do not see it.
fn note(context: &mut Context, text: &str) -> Result<(), Failure> {
    if context.terminal.input && !context.json {
        let text = context.dim(text);
        writeln!(context.out, "{text}")?;
    }
    Ok(())
}

/// A random name: the standard library seeds its hashers from the system.
fn new_id() -> String {
    format!("chat-{:016x}", RandomState::new().hash_one(std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_message_unless_it_is_a_command() {
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
