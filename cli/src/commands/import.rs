//! `hob import`

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::of_ending;
use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{counted, line, plain};

/// Import conversations from files
///
/// Reads Hob's own .json, .md and .tar files, and the exports of ChatGPT (conversations.json, or the
/// ZIP archive), LM Studio (.conversation.json), Open WebUI (.json) and Jan (messages.jsonl, or a ZIP
/// archive of threads). What is there already is not imported a second time.
#[derive(clap::Args)]
pub struct Args {
    /// The files
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

const PATH: &str = "/v1/conversations/import";

/// Content types by the end of a file's name.
const KINDS: [(&str, &str); 5] = [
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("md", "text/markdown"),
    ("tar", "application/x-tar"),
    ("zip", "application/zip"),
];

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let client = Client::find(context)?;
    let mut answers = Vec::new();
    let imported: Result<(), Failure> = args.files.iter().try_for_each(|path| {
        let answer = import(&client, path)?;
        if !context.json {
            show(&answer, context)?;
        }
        answers.push(answer);
        Ok(())
    });
    // Also where a later file fails: those before are imported.
    if context.json {
        context.write_json(&answers)?;
    }
    imported
}

/// Sends the file to the daemon. A refusal names it.
fn import(client: &Client, path: &Path) -> Result<Value, Failure> {
    let kind = of_ending(path, &KINDS)?;
    let source = |source| Failure::File { doing: "read", path: path.to_owned(), source };
    if path.is_dir() {
        let what = "it is a directory; name its files";
        return Err(Failure::Usage(format!("cannot import {}: {what}", path.display())));
    }
    let file = File::open(path).map_err(source)?;
    client.upload(PATH, kind, &file).map_err(|failure| match failure.of_route(PATH) {
        Failure::Refused { status, message, code } => {
            let message = format!("cannot import {}: {message}", path.display());
            Failure::Refused { status, message, code }
        }
        other => other,
    })
}

/// A line a conversation, and one for each that was skipped.
fn show(answer: &Value, context: &mut Context) -> Result<(), Failure> {
    let one = std::slice::from_ref(answer);
    let imported = answer["data"].as_array().map_or(one, Vec::as_slice);
    for one in imported {
        let conversation = &one["conversation"];
        let title = line(conversation["title"].as_str().unwrap_or("-"), 60);
        let messages = conversation["message_count"].as_u64().unwrap_or(0);
        let messages = counted(messages as usize, "message");
        let was_here = if one["was_here"] == true { ", was here already" } else { "" };
        let id = plain(one["id"].as_str().unwrap_or_default());
        writeln!(context.out, "{id}: {title}, {messages}{was_here}")?;
    }
    for skipped in answer["skipped"].as_array().into_iter().flatten() {
        let title = line(skipped["title"].as_str().unwrap_or("-"), 60);
        let reason = plain(skipped["reason"].as_str().unwrap_or_default());
        writeln!(context.out, "skipped {title}: {reason}")?;
    }
    Ok(context.out.flush()?)
}
