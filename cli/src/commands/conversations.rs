//! `hob conversations`

use std::io::Write;

use clap::Subcommand;
use serde_json::{Value, json};

use crate::client::{Client, path_part};
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
    /// List them, the latest first
    #[command(visible_alias = "ls")]
    List,
    /// Print what was said
    Show {
        /// The conversation
        id: String,
    },
    /// Give it a title
    Rename {
        /// The conversation
        id: String,
        /// Its new title
        title: String,
    },
    /// Delete text and KV for good
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
    let answer = client.get("/v1/conversations")?;
    if context.json {
        return context.write_json(&answer["data"]);
    }
    let conversations = answer["data"].as_array().cloned().unwrap_or_default();
    let mut table = Table::new(&[
        ("ID", Align::Left),
        ("TITLE", Align::Left),
        ("MESSAGES", Align::Right),
        ("TOKENS", Align::Right),
        ("PLACE", Align::Left),
        ("USED", Align::Left),
    ]);
    for conversation in &conversations {
        let text = |name: &str| line(conversation[name].as_str().unwrap_or("-"), 40);
        let number = |name: &str| conversation[name].as_u64().map_or("-".to_owned(), count);
        let used = conversation["updated_at"].as_u64();
        table.row(vec![
            plain(conversation["id"].as_str().unwrap_or("-")),
            text("title"),
            number("message_count"),
            number("tokens"),
            text("place"),
            used.map_or("-".to_owned(), |at| ago(context.now_secs().saturating_sub(at))),
        ]);
    }
    Ok(table.write(&mut *context.out)?)
}

fn show(client: &Client, id: &str, context: &mut Context) -> Result<(), Failure> {
    let conversation = client.get(&path_of(id)).map_err(|failure| named(failure, id))?;
    if context.json {
        return context.write_json(&conversation);
    }
    for message in conversation["messages"].as_array().into_iter().flatten() {
        let role = plain(message["role"].as_str().unwrap_or("?"));
        let head = context.dim(&format!("[{role}]"));
        writeln!(context.out, "{head}\n{}\n", plain(&text_of(message)))?;
    }
    Ok(())
}

fn rename(client: &Client, id: &str, title: &str, context: &mut Context) -> Result<(), Failure> {
    let answer = client.patch(&path_of(id), &json!({"title": title}));
    let answer = answer.map_err(|failure| named(failure, id))?;
    match context.json {
        true => context.write_json(&answer),
        false => Ok(()),
    }
}

/// Goes through all of them; a missing one is told at the end.
fn remove(client: &Client, ids: &[String], context: &mut Context) -> Result<(), Failure> {
    let mut missing = None;
    for id in ids {
        match client.delete(&path_of(id)) {
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
    format!("/v1/conversations/{}", path_part(id))
}

fn named(failure: Failure, id: &str) -> Failure {
    match failure {
        Failure::Refused { status: 404, .. } => Failure::NotFound(format!(
            "there is no conversation `{id}`; `hob conversations` lists them"
        )),
        other => other,
    }
}

/// Content is text, a list of parts, or absent beside tool calls.
fn text_of(message: &Value) -> String {
    let part = |part: &Value| part["text"].as_str().map(str::to_owned);
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(part).collect(),
        _ if !message["tool_calls"].is_null() => message["tool_calls"].to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_shown_in_each_of_its_shapes() {
        assert_eq!(text_of(&json!({"content": "a"})), "a");
        let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        assert_eq!(text_of(&json!({"content": parts})), "ab");
        assert_eq!(text_of(&json!({"content": null, "tool_calls": [1]})), "[1]");
    }
}
