//! `hob conversations`

use std::io::Write;

use clap::Subcommand;
use hob_api::{Conversation, ConversationText};
use serde_json::{Value, json};

use super::listed;
use crate::client::{self, Client, path_segment};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Align, Table, ago, count, line, plain};

/// List, read, rename and delete conversations
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// List conversations, the most recently used first
    #[command(visible_alias = "ls")]
    List,
    /// Print the messages of a conversation
    Show {
        /// The conversation
        id: String,
    },
    /// Change the title of a conversation
    Rename {
        /// The conversation
        id: String,
        /// The new title
        title: String,
    },
    /// Delete the text and the KV of conversations for good
    Rm {
        /// The conversations
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let client = Client::find(context)?;
    match args.action.as_ref().unwrap_or(&Action::List) {
        Action::List => list(&client, context),
        Action::Show { id } => show(&client, id, context),
        Action::Rename { id, title } => rename(&client, id, title, context),
        Action::Rm { ids } => remove(&client, ids, context),
    }
}

fn list(client: &Client, context: &mut Context) -> Result<(), Failure> {
    let listed = listed::<Conversation<'_>>(client, "/v1/conversations", context)?;
    let Some(conversations) = listed else { return Ok(()) };
    let mut table = Table::new(&[
        ("ID", Align::Left),
        ("TITLE", Align::Left),
        ("MESSAGES", Align::Right),
        ("TOKENS", Align::Right),
        ("TIER", Align::Left),
        ("USED", Align::Left),
    ]);
    for conversation in &conversations {
        let updated_at = u64::try_from(conversation.updated_at).unwrap_or(0);
        table.row(vec![
            plain(&conversation.id),
            line(conversation.title.as_deref().unwrap_or("-"), 40),
            count(u64::try_from(conversation.message_count).unwrap_or(0)),
            count(conversation.tokens as u64),
            // An older daemon names the place only.
            line(
                if conversation.tier.is_empty() { &conversation.place } else { &conversation.tier },
                40,
            ),
            ago(context.now_secs().saturating_sub(updated_at)),
        ]);
    }
    Ok(table.write(&mut *context.out)?)
}

fn show(client: &Client, id: &str, context: &mut Context) -> Result<(), Failure> {
    let answer: Value = client.get(&path_of(id)).map_err(|failure| named(failure, id))?;
    if context.json {
        return context.write_json(&answer);
    }
    let conversation: ConversationText = client::parse(answer)?;
    for message in &conversation.messages {
        let head = context.dim(&format!("[{}]", plain(&message.role)));
        writeln!(context.out, "{head}\n{}\n", context.markdown(&message.text()))?;
    }
    Ok(())
}

fn rename(client: &Client, id: &str, title: &str, context: &mut Context) -> Result<(), Failure> {
    let answer = client.patch::<Value>(&path_of(id), &json!({"title": title}));
    let answer = answer.map_err(|failure| named(failure, id))?;
    if context.json { context.write_json(&answer) } else { Ok(()) }
}

/// Deletes all of them; the first missing one is the failure in the end.
fn remove(client: &Client, ids: &[String], context: &mut Context) -> Result<(), Failure> {
    let mut missing = None;
    for id in ids {
        match client.delete::<Value>(&path_of(id)) {
            Ok(answer) if context.json => context.write_json(&answer)?,
            Ok(_) => writeln!(context.out, "deleted {}", plain(id))?,
            Err(failure @ Failure::Refused { status: 404, .. }) => {
                missing.get_or_insert(named(failure, id));
            }
            Err(failure) => return Err(failure),
        }
    }
    missing.map_or(Ok(()), Err)
}

fn path_of(id: &str) -> String {
    format!("/v1/conversations/{}", path_segment(id))
}

fn named(failure: Failure, id: &str) -> Failure {
    match failure {
        Failure::Refused { status: 404, .. } => Failure::NotFound(format!(
            "there is no conversation `{id}`; `hob conversations` lists them"
        )),
        other => other,
    }
}
