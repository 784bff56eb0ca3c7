//! `hob ask`

use std::io::{self, Read, Write};
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use serde_json::json;

use super::documents::{self, Keep};
use super::turn::{self, Answer, Question, Shape};
use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::names;
use crate::output::warn;
use crate::signals::{self, CtrlC};
use crate::terminal_mode;

const MAX_INPUT_BYTES: u64 = 16 << 20;

/// Ask one question; text from standard input follows it
#[derive(clap::Args)]
pub struct Args {
    /// The question; `-` or no words read it from standard input
    question: Vec<String>,

    /// Continue this conversation, or start it. At a terminal also a title, or the beginning of a
    /// title or of a name
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    conversation: Option<String>,

    /// Continue the most recently used conversation
    #[arg(long, conflicts_with = "conversation")]
    last: bool,

    /// System prompt
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,

    /// Ask about this text or PDF file, which becomes a document of the library
    #[arg(long, value_name = "FILE")]
    file: Vec<PathBuf>,

    #[command(flatten)]
    shape: Shape,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let question = question(args, context)?;
    let client = Client::find(context)?;
    let mut messages = Vec::new();
    if let Some(system) = &args.system {
        messages.push(json!({"role": "system", "content": system}));
    }
    let mut message = json!({"role": "user", "content": question});
    if !args.file.is_empty() {
        let profile = args.shape.profile_query('&');
        let ids = args
            .file
            .iter()
            .map(|file| Ok(documents::upload(&client, file, Keep::Library, &profile)?.id));
        message["hob"] = json!({"documents": ids.collect::<Result<Vec<_>, Failure>>()?});
    }
    messages.push(message);
    let conversation = match (&args.conversation, args.last) {
        (Some(name), _) => Some(turn::named(name, context)?),
        (None, true) => Some(names::last(&client)?),
        (None, false) => None,
    };
    let conversation = conversation.as_deref();
    let question = Question {
        messages,
        conversation,
        instructions: None,
        newest: false,
        continues: false,
        private: false,
        shape: &args.shape,
        interrupt: None,
    };

    if context.terminal.output && context.terminal.colour {
        signals::listen(CtrlC::Ends, terminal_mode::end_colours)?;
    }
    let mut answer = Answer::default();
    turn::ask(&client, &question, &mut answer, context)?;
    if context.json {
        return context.write_json(&answer.to_json());
    }
    writeln!(context.out)?;
    context.out.flush()?;
    if context.terminal.output && context.terminal.error {
        warn(&context.dim(&turn::footer(&answer.hob)));
    }
    Ok(())
}

fn question(args: &Args, context: &Context) -> Result<String, Failure> {
    let mut words = args.question.clone();
    let reads_input = words.iter().any(|word| word == "-");
    words.retain(|word| word != "-");
    let mut parts = vec![words.join(" ")];
    if reads_input || !context.terminal.input {
        let mut bytes = Vec::new();
        let mut input = io::stdin().lock().take(MAX_INPUT_BYTES + 1);
        input.read_to_end(&mut bytes).map_err(Failure::Input)?;
        if bytes.len() as u64 > MAX_INPUT_BYTES {
            return Err(Failure::Usage("standard input is longer than 16 MiB".to_owned()));
        }
        parts.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    parts.retain(|part| !part.trim().is_empty());
    if parts.is_empty() {
        return Err(Failure::Usage("the question is missing: hob ask \"…\"".to_owned()));
    }
    Ok(parts.join("\n\n"))
}
