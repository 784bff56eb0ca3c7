//! `hob chat`
//!
//! - The daemon stores the conversation: each turn sends only the new messages, and `hob` can end at any
//!   moment and continue later.
//! - Where the conversation outgrows the context, it offers ways to go on ([`room`]).
//! - At a terminal, `hob` survives a restart of the daemon; in a script it fails.
//! - At a terminal, the daemon computes the words of a message while it is typed. Ctrl-C stops an
//!   answer, not the program; keys that are typed meanwhile wait for the next line.
//! - A private conversation of `--private` is deleted at the end. One of the app may be continued: it stays in memory
//!   alone, too.

mod files;
mod greeting;
mod input;
mod instructions;
mod model;
mod restart;
mod room;
mod save;
mod say;
mod stats;

use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::ops::ControlFlow;

use clap::builder::NonEmptyStringValueParser;
use hob_api::ConversationText;
use serde_json::{Value, json};

use self::files::Files;
use self::greeting::greeting;
use self::input::{Command, Input};
use self::say::NewTurn;
use self::stats::Stats;
use super::turn::{self, Shape};
use crate::client::{Client, path_segment};
use crate::context::Context;
use crate::failure::Failure;
use crate::line::{self, Line};
use crate::names;
use crate::output::{line, plain, shell_word, warn, wrapped};
use crate::private::PrivateChat;
use crate::signals::{self, CtrlC, Interrupt};
use crate::terminal_mode::{Mode, NoEcho};
use crate::type_ahead::{self, TypeAhead};

const PROMPT: &str = "> ";
const HINT: &str = "/help lists the commands · Ctrl-C stops an answer · Ctrl-D ends";

/// File with the lines that were typed, in the data directory.
const HISTORY: &str = "chat-history";

const PRIVATE: &str = "a private chat: Hob writes neither its text nor its KV to disk, and forgets \
    both when you end it";

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

/// A conversation at the keyboard.
struct Chat<'a> {
    args: &'a Args,
    conversation: String,
    /// What `--private` began.
    private: Option<PrivateChat>,
    /// Neither text nor KV may reach the disk.
    is_private: bool,
    /// The daemon does not know it yet.
    is_new: bool,
    /// The instructions that the next turn sends.
    system: Option<String>,
    /// What to send again once there is room, after a turn that did not fit into the context; an
    /// empty list answers the last message again.
    outgrown: Option<Vec<Value>>,
    stats: Stats,
    files: Files,
    interrupt: Option<Interrupt>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    args.shape.check_profile(context)?; // Before a message is typed.
    let id = if args.last {
        Some(names::last(&Client::find(context)?)?)
    } else {
        args.conversation.as_ref().map(|name| turn::named(name, context)).transpose()?
    };
    // A private chat leaves no history, one that the app began included.
    let is_private = match &id {
        Some(id) => known(&Client::find(context)?, id)?.is_some_and(|it| it.conversation.private),
        None => args.private,
    };
    let history = (!is_private).then(|| context.settings.data_dir.join(HISTORY));
    let completed = line::Completed {
        words: &input::WORDS,
        before_paths: &input::BEFORE_PATHS,
        home: context.resolved.user_dirs.home.clone(),
    };
    let mut lines = line::Input::new(context.terminal, context.json, history, completed);
    let is_edited = lines.is_edited();
    // Dropped last: the terminal is as before once the program ends.
    let no_echo = (is_edited && !context.terminal.is_dumb).then(NoEcho::start).transpose()?;
    let private = args.private.then(PrivateChat::default);
    let mode = no_echo.as_ref().map(NoEcho::before);
    let interrupt = listen(is_edited, mode, private.as_ref())?;
    let mut chat = Chat {
        args,
        conversation: String::new(),
        private,
        is_private,
        is_new: true,
        system: None,
        outgrown: None,
        stats: Stats::default(),
        files: Files::default(),
        interrupt,
    };
    chat.open(id, context)?;
    loop {
        match chat.next_line(&mut lines, context)? {
            Line::Text(text) => {
                if chat.execute(&text, is_edited, context)?.is_break() {
                    break;
                }
            }
            Line::Dropped => note(context, HINT)?,
            Line::End => {
                note(context, "")?; // The prompt has no line break.
                break;
            }
        }
    }
    chat.close(context)
}

/// Handles signals, where one must not simply end the program.
fn listen(
    is_edited: bool,
    mode: Option<Mode>,
    private: Option<&PrivateChat>,
) -> Result<Option<Interrupt>, Failure> {
    let ctrl_c = match (is_edited, private) {
        (false, None) => return Ok(None),
        (false, Some(_)) => CtrlC::Ends,
        (true, None) => CtrlC::Stops,
        (true, Some(_)) => CtrlC::StopsOnly,
    };
    let end_private = private.map(PrivateChat::ender);
    let interrupt = signals::listen(ctrl_c, move || {
        if let Some(mode) = &mode {
            mode.put_back();
        }
        if let Some(end) = &end_private {
            end();
        }
    })?;
    Ok(Some(interrupt).filter(|_| is_edited))
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
    /// Sends a message or executes a command; breaks at `/quit`. `is_edited`: the line comes from the editor.
    fn execute(
        &mut self,
        text: &str,
        is_edited: bool,
        context: &mut Context,
    ) -> Result<ControlFlow<()>, Failure> {
        // At a dumb terminal, the editor reads what the terminal gives it, too.
        let may_be_cut = context.terminal.input && (!is_edited || context.terminal.is_dumb);
        match Input::of(text) {
            Input::Nothing => {
                if let Some(new) = self.outgrown.take() {
                    self.say(NewTurn { new, newest: true, ..NewTurn::default() }, context)?;
                }
            }
            Input::Say(_) if may_be_cut && text.len() >= MAX_TERMINAL_LINE_BYTES => {
                warn(&format!(
                    "hob: not sent: the terminal cut this line short; \
                     for longer texts: hob ask{} --conversation {} - < FILE",
                    self.args.shape.profile_flag(),
                    shell_word(&self.conversation),
                ));
            }
            Input::Command(Command::Quit) => return Ok(ControlFlow::Break(())),
            Input::Command(command) => {
                let done = self.command(command, context);
                report_passing(done, context)?;
            }
            Input::Unknown(word) if context.terminal.input => note(context, &unknown(word))?,
            Input::Unknown(word) => return Err(Failure::Usage(unknown(word))),
            Input::Say(text) => {
                let new = vec![self.files.message(text)];
                self.say(NewTurn { new, ..NewTurn::default() }, context)?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn command(&mut self, command: Command<'_>, context: &mut Context) -> Result<(), Failure> {
        match command {
            Command::New => self.open(None, context),
            Command::Retry => self.say(NewTurn::default(), context),
            Command::Continue if self.is_new => note(context, "there is no answer to go on with"),
            Command::Continue => {
                self.say(NewTurn { continues: true, ..NewTurn::default() }, context)
            }
            Command::Summarise => self.summarise(context),
            Command::Branch(last) => self.branch(last, context),
            Command::Context("") => self.show_context(context),
            Command::Context(tokens) => self.set_context(tokens, context),
            Command::Help | Command::Quit => {
                let help = input::help(context.columns());
                note(context, &help)
            }
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
                let path = files::new_path_of(path, &context.resolved.user_dirs);
                save::write(&Client::find(context)?.text(&export)?, &path)?;
                note(context, &format!("saved in {}", path.display()))
            }
        }
    }

    fn path(&self) -> String {
        path_of(&self.conversation)
    }

    fn open(&mut self, id: Option<String>, context: &mut Context) -> Result<(), Failure> {
        if let Some(private) = &self.private {
            self.conversation = private.begin(context)?;
            self.outgrown = None; // It belongs to the conversation before.
            (self.is_new, self.system) = (true, self.args.system.clone());
            return note(context, &format!("{PRIVATE}\n{HINT}"));
        }
        let client = Client::find(context)?;
        self.outgrown = None;
        self.conversation = id.unwrap_or_else(new_id);
        let known = known(&client, &self.conversation)?;
        let was_private = self.is_private;
        self.is_private = known.as_ref().is_some_and(|known| known.conversation.private);
        if was_private && !self.is_private {
            self.files.clear(); // The daemon has them for private chats alone.
        }
        self.is_new = known.is_none();
        self.system = self.args.system.clone().filter(|_| self.is_new);
        let status = if context.terminal.input { client.status().ok() } else { None };
        note(context, &greeting(status.as_ref(), known.as_ref()))?;
        note(context, HINT)
    }

    fn next_line(&self, lines: &mut line::Input, context: &mut Context) -> Result<Line, Failure> {
        if !lines.is_edited() {
            prompt(context)?;
            return lines.next("", None).map_err(Failure::Input);
        }
        if let Some(interrupt) = &self.interrupt {
            interrupt.take(); // What it was to stop has ended.
        }
        writeln!(context.out)?;
        context.out.flush()?;
        // Without a daemon, the message itself says so. New instructions of a stored conversation come with the
        // message: words that are computed ahead would stand behind the old ones.
        let has_new_instructions = self.system.is_some() && !self.is_new;
        // The words of a message with files would be computed without the files.
        let client = Client::find_within(context, Some(type_ahead::PATIENCE)).ok();
        let client = client.filter(|_| !has_new_instructions && self.files.is_empty());
        let ahead = client.map(|client| {
            let path = format!("{}/typing", self.path());
            let messages = self.system_message().into_iter().collect::<Vec<_>>();
            let hob = turn::extension(false, self.is_private);
            let mut fields = json!({"hob": hob, "messages": messages});
            self.args.shape.add_profile(&mut fields);
            TypeAhead::start(client, path, fields)
        });
        let line = lines.next(PROMPT, ahead.as_ref().map(TypeAhead::on_key));
        if let Some(ahead) = ahead {
            match &line {
                Ok(Line::Text(text)) if matches!(Input::of(text), Input::Say(_)) => ahead.stop(),
                _ => ahead.leave(),
            }
        }
        line.map_err(Failure::Input)
    }

    fn close(&self, context: &mut Context) -> Result<(), Failure> {
        if self.is_new {
            return Ok(());
        }
        if self.private.is_some() {
            return note(context, "the private chat is forgotten");
        }
        let (flag, id) = (self.args.shape.profile_flag(), shell_word(&self.conversation));
        note(context, &format!("to continue: hob chat{flag} --last, or --conversation {id}"))
    }
}

fn path_of(conversation: &str) -> String {
    format!("/v1/conversations/{}", path_segment(conversation))
}

/// What the daemon has of a conversation; `None`: it knows none of that id.
fn known(client: &Client, conversation: &str) -> Result<Option<ConversationText>, Failure> {
    match client.get(&path_of(conversation)) {
        Err(Failure::Refused { status: 404, .. }) => Ok(None),
        other => other.map(Some),
    }
}

/// At a terminal, prints a failure that may pass, and the conversation goes on; a script ends.
fn report_passing(result: Result<(), Failure>, context: &Context) -> Result<(), Failure> {
    let passing = |failure: &Failure| {
        use Failure::{BrokenAnswer, File, Hangs, NoRoute, NotRunning, Refused, Usage};
        matches!(
            failure,
            Refused { .. }
                | NoRoute { .. }
                | BrokenAnswer(_)
                | NotRunning { .. }
                | Hangs { .. }
                | File { .. }
                | Usage(_)
        )
    };
    match result {
        Err(failure) if context.terminal.input && passing(&failure) => {
            warn(&format!("hob: {}", plain(&failure.to_string())));
            if matches!(failure, Failure::NotRunning { .. } | Failure::Hangs { .. }) {
                warn("once it runs, send the message again: the conversation is stored");
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
        let text = context.dim(&wrapped(text, context.columns()));
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
