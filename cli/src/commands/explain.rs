//! `hob explain`

use std::io::Write;

use serde_json::Value;

use crate::client::{Client, path_part};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{ago, count, plain};

/// See why a conversation last computed what was computed before, and what to do about it
#[derive(clap::Args)]
pub struct Args {
    /// The conversation
    conversation: String,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let id = &args.conversation;
    let client = Client::find(context)?;
    let path = format!("/v1/conversations/{}/explain", path_part(id));
    let answer = client.get(&path).map_err(|failure| match failure {
        Failure::Refused { status: 404, .. } => Failure::NotFound(format!(
            "there is no conversation `{id}`; `hob conversations` lists them"
        )),
        other => other,
    })?;
    if context.json {
        return context.write_json(&answer);
    }
    let told = &answer["explanation"];
    if told.is_null() {
        writeln!(context.out, "each request computed only what was new")?;
        return Ok(());
    }
    let text = |name: &str| plain(told[name].as_str().unwrap_or_default());
    let when = answer["explained_at"].as_u64();
    let when = when.map(|at| format!("{}: ", ago(context.now_secs().saturating_sub(at))));
    writeln!(context.out, "{}{}", when.unwrap_or_default(), text("what"))?;
    writeln!(context.out, "{}", context.dim(&place(told)))?;
    for line in sides(told) {
        writeln!(context.out, "{line}")?;
    }
    writeln!(context.out, "What to do: {}", text("remedy"))?;
    Ok(())
}

/// `clock: from token 42 on, in message 1 (identity)`
fn place(told: &Value) -> String {
    let reason = plain(told["reason"].as_str().unwrap_or("?"));
    let at = told["at"].as_u64().map_or("?".to_owned(), count);
    let segment = &told["segment"];
    let within = match (segment["key"].as_str(), segment["layer"].as_str()) {
        (Some(key), Some(layer)) => format!(", in {} ({})", plain(key), plain(layer)),
        _ => String::new(),
    };
    format!("{reason}: from token {at} on{within}")
}

/// Both texts, one above the other, and a mark under the first character that differs.
fn sides(told: &Value) -> Vec<String> {
    let line = |name: &str| told[name].as_str().map(on_one_line);
    let (Some(before), Some(kept), Some(new)) =
        (line("before"), line("kept_text"), line("new_text"))
    else {
        return Vec::new();
    };
    let mark = " ".repeat(before.chars().count());
    vec![
        String::new(),
        format!("  kept  {before}{kept}"),
        format!("  came  {before}{new}"),
        format!("        {mark}^"),
    ]
}

/// Line breaks and tabs as signs that take one place each.
fn on_one_line(text: &str) -> String {
    let signs = text.chars().map(|c| match c {
        '\n' => '⏎',
        '\t' => '→',
        other => other,
    });
    plain(&signs.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_mark_stands_under_the_first_character_that_differs() {
        let told = json!({"before": "é\n10:", "kept_text": "41\x1b", "new_text": "52"});
        let expected = ["", "  kept  é⏎10:41", "  came  é⏎10:52", "             ^"];
        assert_eq!(sides(&told), expected);
        assert!(sides(&json!({"before": null})).is_empty());
    }
}
