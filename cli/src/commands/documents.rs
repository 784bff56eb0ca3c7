//! `hob documents`

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use hob_api::Document;
use serde_json::Value;

use super::{listed, with_each};
use crate::client::{Client, path_segment};
use crate::confirm;
use crate::context::Context;
use crate::failure::Failure;
use crate::names;
use crate::output::{Align, Table, ago, count, line, plain};

pub const PATH: &str = "/v1/documents";

/// Digits of an id that a list shows.
const SHORT_ID: usize = 12;

/// List, add and remove documents: texts that are read once, for every chat about them
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// List the documents of the library, the latest first
    #[command(visible_alias = "ls")]
    List,
    /// Add text or PDF files to the library; the first chat about one, or the app, reads it
    Add {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Remove documents with their text, and with every KV that contains it
    Rm {
        /// Names, or the beginnings of ids
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Do not ask, not even at a terminal
        #[arg(long)]
        yes: bool,
    },
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let client = Client::find(context)?;
    match args.action.as_ref().unwrap_or(&Action::List) {
        Action::List => list(&client, context),
        Action::Add { files } => files.iter().try_for_each(|file| {
            let added = upload(&client, file, Keep::Library, "")?;
            if context.json {
                return context.write_json(&serde_json::to_value(&added).unwrap_or_default());
            }
            let tokens = count(added.tokens as u64);
            Ok(writeln!(context.out, "added {}: {tokens} tokens", line(&added.name, 60))?)
        }),
        Action::Rm { names, yes } => remove(&client, names, *yes, context),
    }
}

/// Where an uploaded document belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Library,
    /// A private chat: its text never reaches the disk.
    Private,
}

/// Sends a text or PDF file to the daemon. A refusal names the file. `profile`: `&profile=NAME`, behind whose
/// prefix the daemon counts what is ready; may be empty.
///
/// # Errors
/// When it cannot be read, here or by the daemon.
pub fn upload(
    client: &Client,
    path: &Path,
    keep: Keep,
    profile: &str,
) -> Result<Document, Failure> {
    let cannot = |why: &str| Failure::Usage(format!("cannot read {}: {why}", path.display()));
    let file = File::open(path).map_err(|error| cannot(&error.to_string()))?;
    if file.metadata().is_ok_and(|facts| facts.is_dir()) {
        return Err(cannot("it is a directory"));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let keep = if keep == Keep::Private { "&keep=private" } else { "" };
    let query = format!("{PATH}?name={}{keep}{profile}", path_segment(&name));
    let uploaded = client.upload(&query, "application/octet-stream", &file);
    uploaded.map_err(|failure| match failure.of_route(PATH) {
        Failure::Refused { status, message, code } => {
            let message = format!("cannot read {}: {message}", path.display());
            Failure::Refused { status, message, code }
        }
        other => other,
    })
}

fn list(client: &Client, context: &mut Context) -> Result<(), Failure> {
    let Some(documents) = listed::<Document>(client, PATH, context)? else { return Ok(()) };
    if documents.is_empty() {
        writeln!(context.out, "the library is empty; `hob documents add FILE` adds a document")?;
        return Ok(());
    }
    let columns = [
        ("NAME", Align::Left),
        ("TOKENS", Align::Right),
        ("READY", Align::Right),
        ("CHATS", Align::Right),
        ("USED", Align::Left),
        ("ID", Align::Left),
    ];
    let mut table = Table::new(&columns).cut(0).spare([5, 3, 4]);
    let now_secs = context.now_secs();
    for document in &documents {
        let used_at = u64::try_from(document.used_at).unwrap_or(0);
        table.row(vec![
            line(&document.name, 60),
            count(document.tokens as u64),
            count(document.ready_tokens as u64),
            count(document.conversations),
            ago(now_secs.saturating_sub(used_at)),
            short_id(document),
        ]);
    }
    let text = table.text(context.columns());
    context.show(&text)
}

fn remove(
    client: &Client,
    names: &[String],
    yes: bool,
    context: &mut Context,
) -> Result<(), Failure> {
    let asks = !yes && confirm::can_ask(context);
    with_each(names, |name| {
        let document = named(client, name)?;
        let shown = line(&document.name, 60);
        let question = || format!("remove {shown}, with every KV that contains it");
        if asks && confirm::keeps(&question(), &shown)? {
            return Ok(());
        }
        let answer: Value = client.delete(&format!("{PATH}/{}", document.id))?;
        if context.json {
            return context.write_json(&answer);
        }
        Ok(writeln!(context.out, "removed {shown}")?)
    })
}

/// The document with this name, or whose id begins so. Every id begins with an empty name, which means none.
fn named(client: &Client, name: &str) -> Result<Document, Failure> {
    let mut documents: hob_api::List<Document> = client.get(PATH)?;
    documents.data.retain(|document| {
        document.name == name || (!name.is_empty() && document.id.starts_with(name))
    });
    let name = plain(name);
    match documents.data.len() {
        1 => Ok(documents.data.remove(0)),
        0 => {
            let message = format!("there is no document `{name}`; `hob documents` lists them");
            Err(Failure::NotFound(message))
        }
        _ => {
            let shown = |document: &Document| {
                format!("“{}” ({})", line(&document.name, 40), short_id(document))
            };
            let shown = names::first_of(documents.data.iter().map(shown).collect());
            let message = format!("several documents match `{name}`: {shown}; give an id");
            Err(Failure::Usage(message))
        }
    }
}

/// The beginning of its id, which `hob documents rm` takes.
fn short_id(document: &Document) -> String {
    plain(&document.id).chars().take(SHORT_ID).collect()
}
