//! `hob chat`
//!
//! - The daemon stores the conversation: each turn sends only the new messages, and `hob` can end at any
//!   moment and continue later.
//! - Where the conversation outgrows the context, Enter goes on with its newest part.
//! - At a terminal, `hob` survives a restart of the daemon; in a script it fails.
//! - At a terminal, the daemon computes the words of a message while it is typed, and Ctrl-C ends an
//!   answer, not the program.
//! - A private conversation is deleted at the end.

mod files;
mod input;
mod model;
mod save;
mod stats;

use std::hash::{BuildHasher, RandomState};
use std::io::Write;

use clap::builder::NonEmptyStringValueParser;
use hob_api::{Conversation, ConversationText, Status, Turn};
use serde_json::{Value, json};

use self::files::Files;
use self::input::{Command, Input};
use self::stats::Stats;
use super::turn::{self, Question, Shape};
use crate::ahead::TypeAhead;
use crate::client::{Client, path_segment};
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::line::{self, Line};
use crate::names;
use crate::output::{count, line, plain};
use crate::private::PrivateChat;

const PROMPT: &str = "> ";
const HINT: &str = "/help lists the commands · Ctrl-C stops an answer · Ctrl-D ends";

/// Of the lines that were typed, in the data directory.
const HISTORY: &str = "chat-history";

const PRIVATE: &str = "a private chat: Hob writes neither its text nor its KV to disk, and forgets \
    both when you end it";

const GO_ON: &str = "Enter answers with the newest part of the conversation; its text stays whole";
const LEFT_OUT: &str = "from here on the model reads the newest part only; the text stays whole";

const COMPLETED: line::Completed =
    line::Completed { words: &input::WORDS, before_paths: &input::BEFORE_PATHS };

/// Linux terminals drop the rest of a longer line, unless an editor reads it.
const MAX_TERMINAL_LINE_BYTES: usize = 4095;

/// Talk to the model
#[derive(clap::Args)]
pub struct Args {
    /// Continue this conversation, or start one with this name. At a terminal also a title, or the
    /// beginning of a title or of a name
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

/// What a turn asks for. Without new messages: the last answer once more.
#[derive(Default)]
struct Asked {
    new: Vec<Value>,
    /// Leave out the oldest messages.
    newest: bool,
    /// Go on with the last answer.
    continues: bool,
}

/// A conversation at the keyboard.
struct Chat<'a> {
    args: &'a Args,
    conversation: String,
    private: Option<PrivateChat>,
    /// The daemon does not know it yet.
    is_new: bool,
    /// The system prompt that the next turn sends.
    system: Option<String>,
    /// What to send again with the newest part, after a turn that did not fit into the context; an
    /// empty list answers the last message again.
    outgrown: Option<Vec<Value>>,
    stats: Stats,
    files: Files,
    interrupt: Option<Interrupt>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let id = match args.last {
        true => Some(names::last(&Client::find(context)?)?),
        false => args.conversation.as_ref().map(|name| turn::named(name, context)).transpose()?,
    };
    // A private chat leaves no history.
    let history = (!args.private).then(|| context.settings.data_dir.join(HISTORY));
    let mut lines = line::Input::new(context.terminal, context.json, history, COMPLETED);
    let is_edited = lines.is_edited();
    let mut chat = Chat {
        args,
        conversation: String::new(),
        private: args.private.then(|| PrivateChat::new(is_edited)).transpose()?,
        is_new: true,
        system: None,
        outgrown: None,
        stats: Stats::default(),
        files: Files::default(),
        interrupt: is_edited.then(|| Interrupt::listen(args.private)).transpose()?,
    };
    chat.open(id, context)?;
    let is_cut = context.terminal.input && !lines.is_edited();
    loop {
        let text = match chat.next_line(&mut lines, context)? {
            Line::Text(text) => text,
            Line::Dropped => {
                note(context, HINT)?;
                continue;
            }
            Line::End => {
                note(context, "")?; // The prompt has no line break.
                break;
            }
        };
        match Input::of(&text) {
            Input::Nothing => {
                if let Some(new) = chat.outgrown.take() {
                    chat.say(Asked { new, newest: true, ..Asked::default() }, context)?;
                }
            }
            Input::Say(_) if is_cut && text.len() >= MAX_TERMINAL_LINE_BYTES => {
                eprintln!(
                    "hob: not sent: the terminal cut this line short; \
                     for longer texts: hob ask --conversation {} - < FILE",
                    plain(&chat.conversation),
                );
            }
            Input::Command(Command::Quit) => break,
            Input::Command(command) => {
                let done = chat.command(command, context);
                report_passing(done, context)?;
            }
            Input::Unknown(word) => note(context, &unknown(word))?,
            Input::Say(text) => {
                let new = vec![chat.files.message(text)];
                chat.say(Asked { new, ..Asked::default() }, context)?;
            }
        }
    }
    chat.close(context)
}

fn unknown(word: &str) -> String {
    let shown = line(word, 40);
    match input::nearest(word) {
        Some(known) if known == word => format!("{shown} takes no words"),
        Some(known) => format!("{shown} is not a command; did you mean {known}?"),
        None => format!("{shown} is not a command; /help lists them"),
    }
}

impl Chat<'_> {
    fn command(&mut self, command: Command<'_>, context: &mut Context) -> Result<(), Failure> {
        match command {
            Command::New => self.open(None, context),
            Command::Retry => self.say(Asked::default(), context),
            Command::Continue if self.is_new || self.system.is_some() => {
                note(context, "there is no answer to go on with")
            }
            Command::Continue => self.say(Asked { continues: true, ..Asked::default() }, context),
            Command::Help | Command::Quit => note(context, input::HELP),
            Command::File("") => note(context, &self.files.lines()),
            Command::File(path) => self.attach(path, context),
            Command::Stats => note(context, &self.stats.lines()),
            Command::Model("") => {
                let models = model::list(&Client::find(context)?)?;
                note(context, &models)
            }
            Command::Model(name) => {
                note(context, "switching the model; conversations stay")?;
                let switched = model::switch(name, context, self.interrupt.as_ref())?;
                note(context, &switched)
            }
            Command::System("") => {
                let system = self.instructions(context)?;
                note(context, system.as_deref().unwrap_or("no instructions"))
            }
            Command::System(text) => {
                self.system = Some(text.to_owned());
                note(context, "the next message goes with these instructions")
            }
            Command::Save("") => note(context, "name a file: /save chat.md"),
            Command::Save(_) if self.is_new => note(context, "nothing to save yet"),
            Command::Save(path) => {
                let export = format!("{}/export?format=markdown", self.path());
                let path = save::write(&Client::find(context)?.text(&export)?, path)?;
                note(context, &format!("saved in {}", path.display()))
            }
        }
    }

    fn path(&self) -> String {
        format!("/v1/conversations/{}", path_segment(&self.conversation))
    }

    fn open(&mut self, id: Option<String>, context: &mut Context) -> Result<(), Failure> {
        let client = Client::find(context)?;
        if let Some(private) = &self.private {
            self.conversation = private.begin(client);
            (self.is_new, self.system) = (true, self.args.system.clone());
            return note(context, &format!("{PRIVATE}\n{HINT}"));
        }
        self.conversation = id.unwrap_or_else(new_id);
        let known = match client.get::<ConversationText>(&self.path()) {
            Err(Failure::Refused { status: 404, .. }) => None,
            other => Some(other?),
        };
        self.is_new = known.is_none();
        self.system = self.args.system.clone().filter(|_| self.is_new);
        let status = if context.terminal.input { client.status().ok() } else { None };
        note(context, &greeting(status.as_ref(), known.as_ref()))?;
        note(context, HINT)
    }

    /// The system prompt of the next turn.
    fn instructions(&self, context: &Context) -> Result<Option<String>, Failure> {
        if self.system.is_some() || self.is_new {
            return Ok(self.system.clone());
        }
        let text: ConversationText = Client::find(context)?.get(&self.path())?;
        let system = text.messages.iter().take_while(|message| message.role == "system");
        let texts: Vec<_> = system.map(|message| plain(&message.text())).collect();
        Ok(Some(texts.join("\n\n")).filter(|text| !text.is_empty()))
    }

    fn next_line(&self, lines: &mut line::Input, context: &mut Context) -> Result<Line, Failure> {
        if !lines.is_edited() {
            prompt(context)?;
            return Ok(lines.next("", None)?);
        }
        writeln!(context.out)?;
        context.out.flush()?;
        // Without a daemon, the message itself says so. Under new instructions a stored conversation
        // is sent whole, and not ahead.
        let is_sent_whole = self.system.is_some() && !self.is_new;
        // Its words would be computed without its files.
        let client = Client::find(context).ok().filter(|_| !is_sent_whole && self.files.is_empty());
        let ahead = client.map(|client| {
            let path = format!("{}/typing", self.path());
            let messages = self.system().into_iter().collect::<Vec<_>>();
            let hob = turn::extension(true, false, self.private.is_some());
            let fields = json!({"hob": hob, "messages": messages});
            TypeAhead::start(client, path, fields)
        });
        let line = lines.next(PROMPT, ahead.as_ref().map(TypeAhead::on_key));
        if let Some(ahead) = ahead {
            match &line {
                Ok(Line::Text(text)) if matches!(Input::of(text), Input::Say(_)) => ahead.stop(),
                _ => ahead.leave(),
            }
        }
        Ok(line?)
    }

    fn system(&self) -> Option<Value> {
        self.system.as_ref().map(|text| json!({"role": "system", "content": text}))
    }

    /// One turn, and the offer to go on where it did not fit into the context.
    fn say(&mut self, asked: Asked, context: &mut Context) -> Result<(), Failure> {
        let turn = self.turn(asked, context);
        report_passing(turn, context)?;
        if self.outgrown.is_some() {
            note(context, GO_ON)?;
        }
        Ok(())
    }

    /// Finds the daemon for each turn: it may have restarted at another address.
    fn turn(&mut self, asked: Asked, context: &mut Context) -> Result<(), Failure> {
        let Asked { new, newest, continues } = asked;
        self.outgrown = None;
        let client = Client::find(context)?;
        let append = self.is_new || self.system.is_none();
        let stored = if append { Vec::new() } else { self.stored(&client, new.is_empty())? };
        let question = Question {
            messages: self.system().into_iter().chain(stored).chain(new.clone()).collect(),
            conversation: Some(&self.conversation),
            append,
            newest,
            continues,
            private: self.private.is_some(),
            shape: &self.args.shape,
            interrupt: self.interrupt.as_ref(),
        };
        let answer = turn::ask(&client, &question, context);
        // The daemon stores the question also when the answer breaks off.
        if answer.as_ref().map_or_else(is_broken, |answer| answer.accepted) {
            (self.is_new, self.system) = (false, None);
            if !new.is_empty() {
                self.files.clear();
            }
        }
        if answer.as_ref().is_err_and(is_too_long) && append && !newest {
            self.outgrown = Some(new);
        }
        let answer = answer?;
        if context.json {
            return context.write_json(&answer.to_json());
        }
        if answer.interrupted {
            writeln!(context.out)?;
            return note(context, "stopped; /continue goes on");
        }
        self.stats.add(&answer);
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
        let id = plain(&self.conversation);
        note(context, &format!("to continue: hob chat --last, or --conversation {id}"))
    }

    /// The conversation's messages without its system prompt; without its last answer where that is
    /// asked for `again`.
    fn stored(&self, client: &Client, again: bool) -> Result<Vec<Value>, Failure> {
        let text: Value = client.get(&self.path())?;
        let mut messages: Vec<_> = text["messages"].as_array().cloned().unwrap_or_default();
        let systems = messages.iter().take_while(|message| message["role"] == "system").count();
        messages.drain(..systems);
        while again && messages.last().is_some_and(|message| message["role"] == "assistant") {
            messages.pop();
        }
        // As a client sends them: without what the daemon adds.
        let fields = ["role", "content", "name", "tool_calls", "tool_call_id"];
        let plain = |message: &Value| {
            // Of a user's message it has the documents.
            let hob = ["hob"].into_iter().filter(|_| message["role"] == "user");
            let known = fields.into_iter().chain(hob).filter(|field| !message[*field].is_null());
            known.map(|field| (field.to_owned(), message[field].clone())).collect()
        };
        Ok(messages.iter().map(|message| Value::Object(plain(message))).collect())
    }
}

/// The model, its context, and the conversation.
fn greeting(status: Option<&Status>, known: Option<&ConversationText>) -> String {
    let model = status.map(|status| {
        let context = count(status.context_tokens as u64);
        let demo = if status.demo { " · a demo: it knows little" } else { "" };
        format!("{} · context {context} tokens{demo}", line(&status.model, 60))
    });
    let conversation = match known {
        None => "new conversation".to_owned(),
        Some(known) => {
            let Conversation { title, tokens, id, .. } = &known.conversation;
            let title = line(title.as_deref().unwrap_or(id), 60);
            let (messages, tokens) = (known.messages.len(), count(*tokens as u64));
            format!("{title} · {messages} messages · {tokens} tokens saved")
        }
    };
    model.into_iter().chain([conversation]).collect::<Vec<_>>().join("\n")
}

fn is_broken(failure: &Failure) -> bool {
    matches!(failure, Failure::BrokenAnswer(_))
}

/// Whether the conversation does not fit into the context any more.
fn is_too_long(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused { code: Some(code), .. } if code == "context_length_exceeded")
}

/// At a terminal, prints a failure that may pass, and the conversation goes on; a script ends.
fn report_passing(result: Result<(), Failure>, context: &Context) -> Result<(), Failure> {
    let passing = |failure: &Failure| {
        use Failure::{BrokenAnswer, File, NotRunning, Refused, Usage};
        matches!(
            failure,
            Refused { .. } | BrokenAnswer(_) | NotRunning { .. } | File { .. } | Usage(_)
        )
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
    fn two_conversations_have_two_names() {
        assert_ne!(new_id(), new_id());
    }
}
