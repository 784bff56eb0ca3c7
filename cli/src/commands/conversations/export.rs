//! `hob conversations export`
//!
//! - The file appears whole or not at all, and replaces one only with `--force`.
//! - It is not encrypted: only its owner can read it.

use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::path_of;
use crate::atomic_file::AtomicFile;
use crate::client::Client;
use crate::commands::of_ending;
use crate::context::Context;
use crate::failure::Failure;
use crate::names::{self, ConversationArgs};
use crate::output::{line, plain, size};

/// Write a conversation to a file, which `hob import` reads
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    conversation: ConversationArgs,

    /// The file to write: .json has every branch, .md the one used last, .tar the KV too
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// Formats by the end of a file's name.
const FORMATS: [(&str, &str); 3] = [("json", "json"), ("md", "markdown"), ("tar", "archive")];

pub fn run(args: &Args, client: &Client, context: &mut Context) -> Result<(), Failure> {
    let output = &args.output;
    let format = of_ending(output, &FORMATS)?;
    if output.exists() && !args.force {
        let path = output.display();
        return Err(Failure::Usage(format!("{path} exists already; --force replaces it")));
    }
    let name = args.conversation.name_or_last(client)?;
    let answer = names::with_id(client, &name, |id| {
        client.reader(&format!("{}/export?format={format}", path_of(id)))
    })?;
    let bytes = write(answer, output)?;
    if context.json {
        let file = output.to_string_lossy();
        return context.write_json(&json!({"file": file, "format": format, "bytes": bytes}));
    }
    let (name, path) = (line(&name, 60), plain(&output.display().to_string()));
    Ok(writeln!(context.out, "exported {name} to {path}, {}", size(bytes))?)
}

/// Writes the whole answer. Returns its bytes.
fn write(mut answer: impl Read, output: &Path) -> Result<u64, Failure> {
    let failed = |source| Failure::File { doing: "write", path: output.to_owned(), source };
    let (atomic, file) = AtomicFile::create(output).map_err(failed)?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let (mut buffer, mut bytes) = (vec![0; 1 << 16], 0);
    loop {
        let count = answer.read(&mut buffer);
        let count = count.map_err(|error| Failure::BrokenAnswer(error.to_string()))?;
        if count == 0 {
            break;
        }
        out.write_all(&buffer[..count]).map_err(failed)?;
        bytes += count as u64;
    }
    let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
    file.sync_all().map_err(failed)?;
    atomic.commit().map_err(failed)?;
    Ok(bytes)
}
