//! `hob explain`: why a conversation last recomputed tokens, and what left and came back.

mod moves;

use std::io::Write;

use hob_api::{Explained, Explanation};
use serde_json::Value;

use crate::client::{self, Client, path_segment};
use crate::context::Context;
use crate::failure::Failure;
use crate::names;
use crate::output::{ago, count, plain, width, wrapped};

/// Show why a conversation last recomputed tokens, and what left and came back
#[derive(clap::Args)]
pub struct Args {
    /// The conversation: its id, its title, or the beginning of one; by default the one used last
    conversation: Option<String>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let client = Client::find(context)?;
    let name = args.conversation.clone().map_or_else(|| names::last(&client), Ok)?;
    let answer = names::with_id(&client, &name, |id| {
        client.get::<Value>(&format!("/v1/conversations/{}/explain", path_segment(id)))
    })?;
    if context.json {
        return context.write_json(&answer);
    }
    let Explained { explained_at, explanation, moves } = client::parse(answer)?;
    match explanation {
        Some(explanation) => show(&explanation, explained_at, context)?,
        None => writeln!(context.out, "every request computed only what was new")?,
    }
    let lines = moves::lines(&moves, context.now_secs());
    if lines.first().is_some_and(|line| !line.is_empty()) {
        writeln!(context.out)?;
    }
    for line in lines {
        writeln!(context.out, "{}", wrapped(&line, context.columns()))?;
    }
    Ok(())
}

fn show(
    explanation: &Explanation,
    explained_at: Option<u64>,
    context: &mut Context,
) -> Result<(), Failure> {
    let when = explained_at.map(|at| format!("{}: ", ago(context.now_secs().saturating_sub(at))));
    let columns = context.columns();
    let what = format!("{}{}", when.unwrap_or_default(), plain(&explanation.what));
    writeln!(context.out, "{}", wrapped(&what, columns))?;
    writeln!(context.out, "{}", context.dim(&wrapped(&place(explanation), columns)))?;
    for line in sides(explanation) {
        writeln!(context.out, "{line}")?;
    }
    let remedy = format!("What to do: {}", plain(&explanation.remedy));
    writeln!(context.out, "{}", wrapped(&remedy, columns))?;
    Ok(())
}

/// `clock: from token 42 on, in message 1 (identity)`
fn place(explanation: &Explanation) -> String {
    let at = explanation.at.map_or("?".to_owned(), |at| count(at as u64));
    let within = explanation.segment.as_ref().map_or(String::new(), |segment| {
        format!(", in {} ({})", plain(&segment.key), plain(&segment.layer))
    });
    format!("{}: from token {at} on{within}", plain(&explanation.reason))
}

/// The stored and the new text, one above the other, with a mark under the first difference.
fn sides(explanation: &Explanation) -> Vec<String> {
    let Explanation { before, kept_text, new_text, .. } = explanation;
    let line = |text: &Option<String>| text.as_deref().map(on_one_line);
    let (Some(before), Some(kept), Some(new)) = (line(before), line(kept_text), line(new_text))
    else {
        return Vec::new();
    };
    let mark = " ".repeat(width(&before));
    vec![
        String::new(),
        format!("  kept  {before}{kept}"),
        format!("  came  {before}{new}"),
        format!("        {mark}^"),
    ]
}

/// Line breaks and tabs as symbols one column wide.
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
        let sides = |told: Value| sides(&serde_json::from_value(told).unwrap());
        let told = json!({"before": "é\n10:", "kept_text": "41\x1b", "new_text": "52"});
        let expected = ["", "  kept  é⏎10:41", "  came  é⏎10:52", "             ^"];
        assert_eq!(sides(told), expected);
        let wide = json!({"before": "\u{65e5}\u{672c}", "kept_text": "1", "new_text": "2"});
        assert_eq!(sides(wide)[3], "            ^", "a wide letter takes two columns");
        assert!(sides(json!({"before": null})).is_empty());
    }
}
