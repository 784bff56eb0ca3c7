//! Every field of the status, also those that only a newer daemon knows.

use std::io::Write;

use serde_json::{Map, Value};

use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::names::label;
use crate::output::{Align, Table, ago, count, plain, size, state};

pub fn write(client: &Client, status: Value, context: &mut Context) -> Result<(), Failure> {
    let now = context.now_secs();
    writeln!(context.out, "daemon at {}", client.address())?;
    let Value::Object(fields) = status else { return Ok(()) };
    // Plain fields first, then each list and group under its name.
    let (nested, simple): (Map<_, _>, Map<_, _>) =
        fields.into_iter().partition(|(_, value)| value.is_object() || value.is_array());
    write_fields(&simple, now, &mut *context.out)?;
    for (name, value) in &nested {
        let is_empty = value.as_array().is_some_and(Vec::is_empty);
        writeln!(context.out, "\n{}{}", plain(name), if is_empty { ": none" } else { "" })?;
        match value {
            Value::Object(fields) => write_fields(fields, now, &mut *context.out)?,
            Value::Array(rows) => write_rows(rows, now, &mut *context.out)?,
            _ => {}
        }
    }
    Ok(())
}

fn write_fields(fields: &Map<String, Value>, now: u64, out: &mut dyn Write) -> Result<(), Failure> {
    let width = fields.keys().map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, value) in fields {
        writeln!(out, "  {:<width$}  {}", plain(name), shown(name, value, now))?;
    }
    Ok(())
}

/// Objects become a table with the columns of the first one; other values a line each.
fn write_rows(rows: &[Value], now: u64, out: &mut dyn Write) -> Result<(), Failure> {
    let Some(Value::Object(first)) = rows.first() else {
        for row in rows {
            writeln!(out, "  {}", shown("", row, now))?;
        }
        return Ok(());
    };
    let mut cells = vec![first.keys().map(|name| plain(name)).collect::<Vec<_>>()];
    cells.extend(
        rows.iter().map(|row| first.keys().map(|name| shown(name, &row[name], now)).collect()),
    );
    let mut table = Table::untitled(first.len(), Align::Left);
    cells.into_iter().for_each(|row| table.row(row));
    Ok(table.write(out)?)
}

fn shown(name: &str, value: &Value, now_secs: u64) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if name == "conversation" => label(text),
        Value::String(text) if name == "tier" => state(&plain(text)).to_owned(),
        // The prefix of a profile has no text without KV.
        Value::String(text) if name == "place" && text != "none" => state(&plain(text)).to_owned(),
        Value::String(text) => plain(text),
        Value::Number(number) => match number.as_u64() {
            Some(bytes) if name == "bytes" || name.ends_with("_bytes") => size(bytes),
            Some(whole) if name.ends_with("tokens") => count(whole),
            Some(at) if name.ends_with("_at") => ago(now_secs.saturating_sub(at)),
            Some(whole) => whole.to_string(),
            None => number.as_f64().map_or(number.to_string(), |number| format!("{number:.1}")),
        },
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let items: Vec<_> = items.iter().filter_map(Value::as_str).collect();
            if items.is_empty() { "-".to_owned() } else { plain(&items.join(", ")) }
        }
        other => plain(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_figures_unit_follows_from_its_name() {
        assert_eq!(shown("memory_bytes", &json!(1 << 20), 0), "1.0 MiB");
        assert_eq!(shown("context_tokens", &json!(8192), 0), "8,192");
        assert_eq!(shown("pid", &json!(8192), 0), "8192");
        assert_eq!(shown("started_at", &json!(100), 220), "2 min ago");
        assert_eq!(shown("conversation", &Value::Null, 0), "-");
        assert_eq!(shown("conversation", &json!("__prefix__:a"), 0), "prefix of profile a");
        assert_eq!(shown("tier", &json!("warm"), 0), "in memory");
        assert_eq!(shown("place", &json!("none"), 0), "none");
        assert_eq!(
            shown("prefix", &json!(["identity:ember", "rules:tone"]), 0),
            "identity:ember, rules:tone"
        );
    }
}
