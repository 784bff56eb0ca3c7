//! `hob verify-correctness`

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Align, Table, count, plain, quoted};

const PATH: &str = "/v1/verify/correctness";

/// Compare answers over KV that was computed at another place with exact ones
///
/// FILE is JSON: {"sources": [...], "prompts": [...]}, or a list of prompts. Each entry is a text, or the body of a chat. Sources
/// are computed first; KV for parts of the prompts is moved from them, and from saved conversations.
#[derive(clap::Args)]
pub struct Args {
    /// The prompts; `-` reads them from the standard input
    file: PathBuf,

    /// Compare these strategies of repair: none, sinks, boundary:TOKENS, head, head:TOKENS, seen (as chats do), seen:TOKENS,
    /// move:TOKENS:TOKENS, short:TOKENS, long:TOKENS, grow:PERCENT, full
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    strategy: Vec<String>,

    /// Tokens of an answer that are compared
    #[arg(long, value_name = "TOKENS")]
    max_tokens: Option<u32>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let client = Client::find(context)?;
    let mut body = match read(&args.file)? {
        list @ Value::Array(_) => json!({"prompts": list}),
        object => object,
    };
    if !args.strategy.is_empty() {
        body["strategies"] = json!(args.strategy);
    }
    if let Some(max_tokens) = args.max_tokens {
        body["max_tokens"] = max_tokens.into();
    }
    let answer: Value = client.post(PATH, &body).map_err(|failure| failure.of_route(PATH))?;
    if context.json {
        return context.write_json(&answer);
    }
    let mut table = Table::new(&[
        ("STRATEGY", Align::Left),
        ("MOVED", Align::Right),
        ("PROMPTS", Align::Right),
        ("TOKENS", Align::Right),
        ("REPAIRED", Align::Right),
        ("COMPUTED", Align::Right),
        ("AGREE", Align::Right),
        ("KL", Align::Right),
        ("F1", Align::Right),
    ])
    .wrap(0)
    .spare([2]);
    for row in answer["data"].as_array().into_iter().flatten() {
        let number = |name: &str| count(row[name].as_u64().unwrap_or(0));
        let part = |name: &str| format!("{:.3}", row[name].as_f64().unwrap_or(0.0));
        let percent = |at: usize| row["moved_percent"][at].as_u64().unwrap_or(0);
        let moved = match percent(1) {
            0 => "0 %".to_owned(),
            to => format!("{} to {to} %", percent(0)),
        };
        table.row(vec![
            plain(row["strategy"].as_str().unwrap_or_default()),
            moved,
            number("prompts"),
            number("prompt_tokens"),
            number("repaired_tokens"),
            number("computed_tokens"),
            part("agreement"),
            format!("{:.4}", row["divergence"].as_f64().unwrap_or(0.0)),
            part("f1"),
        ]);
    }
    let text = table.text(context.columns());
    context.out.write_all(text.as_bytes())?;
    let repeat = plain(answer["repeat"].as_str().unwrap_or_default());
    // What came from the standard input is in no file that could be named.
    let repeat = if args.file == Path::new("-") {
        repeat
    } else {
        repeat.replacen("FILE", &quoted(&args.file.display().to_string()), 1)
    };
    Ok(writeln!(context.out, "\nTo repeat: {repeat}")?)
}

fn read(file: &Path) -> Result<Value, Failure> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    let name = file.display();
    let text = text.map_err(|error| Failure::Usage(format!("cannot read {name}: {error}")))?;
    let body: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::Usage(format!("{name} is not JSON: {error}")))?;
    if body.is_object() || body.is_array() {
        return Ok(body);
    }
    Err(Failure::Usage(format!("{name} is neither an object nor a list")))
}
