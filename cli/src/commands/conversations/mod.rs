//! `hob conversations`

mod export;

use std::io::Write;

use clap::Subcommand;
use hob_api::{Conversation, ConversationText, List};
use serde_json::{Value, json};

use super::with_each;
use crate::client::{self, Client, path_segment};
use crate::confirm;
use crate::context::Context;
use crate::failure::Failure;
use crate::names::{self, Candidate, ConversationArgs};
use crate::output::{Align, Table, ago, count, line, plain, readiness, state};

/// List, read, rename, export and delete conversations
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,

    #[command(flatten)]
    listing: Listing,
}

#[derive(Clone, Debug, Default, clap::Args)]
struct Listing {
    /// List all of them; a terminal shows 20 otherwise
    #[arg(long, conflicts_with = "limit")]
    all: bool,

    /// List at most this many
    #[arg(long, value_name = "LINES")]
    limit: Option<usize>,
}

#[derive(Subcommand)]
enum Action {
    /// List conversations, the most recently used first
    #[command(visible_alias = "ls")]
    List(Listing),
    /// Print the messages of a conversation
    Show(ConversationArgs),
    /// Change the title of a conversation
    Rename {
        /// The conversation: its id, its title, or the beginning of one
        conversation: String,
        /// The new title
        title: String,
    },
    Export(export::Args),
    /// Delete the text and the KV of conversations for good
    Rm {
        /// The conversations: ids or whole titles
        #[arg(required = true)]
        conversations: Vec<String>,
        /// Do not ask, not even at a terminal
        #[arg(long)]
        yes: bool,
    },
}

/// Conversations that a terminal lists.
const LISTED: usize = 20;

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let client = Client::find(context)?;
    match &args.action {
        None => list(&client, &args.listing, context),
        Some(Action::List(listing)) => list(&client, listing, context),
        Some(Action::Show(conversation)) => {
            show(&client, &conversation.name_or_last(&client)?, context)
        }
        Some(Action::Rename { conversation, title }) => {
            rename(&client, conversation, title, context)
        }
        Some(Action::Export(args)) => export::run(args, &client, context),
        Some(Action::Rm { conversations, yes }) => remove(&client, conversations, *yes, context),
    }
}

fn list(client: &Client, listing: &Listing, context: &mut Context) -> Result<(), Failure> {
    let mut answer: Value = client.get("/v1/conversations")?;
    let limit = match listing {
        Listing { limit: Some(limit), .. } => *limit,
        Listing { all: false, .. } if context.terminal.output && !context.json => LISTED,
        Listing { .. } => usize::MAX,
    };
    if context.json {
        if let Some(data) = answer["data"].as_array_mut() {
            data.truncate(limit);
        }
        return context.write_json(&answer["data"]);
    }
    let List { mut data, .. } = client::parse::<List<Conversation<'_>>>(answer)?;
    if data.is_empty() {
        writeln!(context.out, "no conversation yet; `hob chat` starts one")?;
        return Ok(());
    }
    let hidden = data.len().saturating_sub(limit);
    data.truncate(limit);
    let mut text = table(&data, context.now_secs()).text(context.columns());
    if hidden > 0 {
        text += &format!("… {} more (--all lists them)\n", count(hidden as u64));
    }
    context.show(&text)
}

fn table(conversations: &[Conversation<'_>], now_secs: u64) -> Table {
    let columns = [
        ("ID", Align::Left),
        ("TITLE", Align::Left),
        ("MESSAGES", Align::Right),
        ("TOKENS", Align::Right),
        ("STATE", Align::Left),
        ("USED", Align::Left),
    ];
    // The order says which was used last.
    let mut table = Table::new(&columns).cut(0).cut(1).wrap(4).spare([2, 3, 5]);
    for conversation in conversations {
        let updated_at = u64::try_from(conversation.updated_at).unwrap_or(0);
        // An older daemon names the place only.
        let next = conversation.ready.map(|ready| readiness(ready, conversation.read_ms));
        let Conversation { tier, place, .. } = conversation;
        let place = || state(if tier.is_empty() { place } else { tier }).to_owned();
        let mut next = next.unwrap_or_else(place);
        if next.is_empty() {
            next = "the model loads".to_owned();
        }
        let tokens = conversation.tokens.map(|tokens| count(tokens as u64));
        table.row(vec![
            plain(&conversation.id),
            line(conversation.title.as_deref().unwrap_or("-"), 60),
            count(u64::try_from(conversation.message_count).unwrap_or(0)),
            tokens.unwrap_or_else(|| "-".to_owned()),
            line(&next, 40),
            ago(now_secs.saturating_sub(updated_at)),
        ]);
    }
    table
}

fn show(client: &Client, name: &str, context: &mut Context) -> Result<(), Failure> {
    let answer = names::with_id(client, name, |id| client.get::<Value>(&path_of(id)))?;
    if context.json {
        return context.write_json(&answer);
    }
    let conversation: ConversationText = client::parse(answer)?;
    let mut text = String::new();
    for message in &conversation.messages {
        let head = context.dim(&format!("[{}]", plain(&message.role)));
        text += &format!("{head}\n{}\n\n", context.markdown(&message.text()));
    }
    context.show(&text)
}

fn rename(client: &Client, name: &str, title: &str, context: &mut Context) -> Result<(), Failure> {
    let body = json!({"title": title});
    let answer = names::with_id(client, name, |id| client.patch::<Value>(&path_of(id), &body))?;
    if context.json {
        return context.write_json(&answer);
    }
    Ok(writeln!(context.out, "renamed {} to {}", line(name, 60), line(title, 60))?)
}

fn remove(
    client: &Client,
    names: &[String],
    yes: bool,
    context: &mut Context,
) -> Result<(), Failure> {
    let asks = !yes && confirm::can_ask(context);
    // A daemon that cannot list them deletes the one with the id.
    let known = if asks { names::of_daemon(client).unwrap_or_default() } else { Vec::new() };
    with_each(names, |name| {
        if asks && confirm::keeps(&deletion(&known, name), &line(name, 60))? {
            return Ok(());
        }
        let answer = names::with_whole(client, name, |id| client.delete::<Value>(&path_of(id)))?;
        if context.json {
            return context.write_json(&answer);
        }
        Ok(writeln!(context.out, "deleted {}", plain(name))?)
    })
}

/// What the user is asked to confirm.
fn deletion(known: &[Candidate], name: &str) -> String {
    let found = names::find(known, name).ok().flatten();
    let found = found.filter(|found| found.id == name || found.is_whole(name));
    let shown = found.map_or_else(|| line(name, 60), Candidate::shown);
    format!("delete {shown}, its text and its KV, for good")
}

fn path_of(id: &str) -> String {
    format!("/v1/conversations/{}", path_segment(id))
}
