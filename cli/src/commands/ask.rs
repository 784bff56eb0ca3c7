//! `hob ask`

use std::io::{self, Read, Write};

use serde_json::json;

use super::turn::{self, Question, Shape};
use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;

const INPUT_BYTES: u64 = 16 << 20;

/// Ask one question; text on standard input is added to it
#[derive(clap::Args)]
pub struct Args {
    /// The question; `-` or nothing reads it from standard input
    question: Vec<String>,

    /// Continue this conversation, or begin it
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,

    /// What the model is told first
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,

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
    messages.push(json!({"role": "user", "content": question}));
    let conversation = args.conversation.as_deref();
    let question = Question { messages, conversation, shape: &args.shape };

    let answer = turn::ask(&client, &question, context)?;
    if context.json {
        return context.write_json(&answer.to_json());
    }
    writeln!(context.out)?;
    context.out.flush()?;
    if context.terminal.output && context.terminal.error {
        eprintln!("{}", context.dim(&turn::footer(&answer.hob)));
    }
    Ok(())
}

fn question(args: &Args, context: &Context) -> Result<String, Failure> {
    let mut words = args.question.clone();
    let asked_for_input = words.iter().any(|word| word == "-");
    words.retain(|word| word != "-");
    let mut parts = vec![words.join(" ")];
    if asked_for_input || !context.terminal.input {
        let mut bytes = Vec::new();
        io::stdin().lock().take(INPUT_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > INPUT_BYTES {
            return Err(Failure::Usage("standard input is longer than 16 MiB".to_owned()));
        }
        parts.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    parts.retain(|part| !part.trim().is_empty());
    match parts.is_empty() {
        true => Err(Failure::Usage("what is the question? hob ask \"…\"".to_owned())),
        false => Ok(parts.join("\n\n")),
    }
}
