//! Items of tools that another server ran, and items of unknown types: what a model can read of them.
//!
//! - A call whose item has its result, as text, is a call of a function and its result.
//! - Of an item of another type its text is read, if it has one.
//! - All else is left out: a history that another server began goes on here.

use serde_json::{Value, json};

/// A call that was run elsewhere.
pub struct Ran {
    pub id: String,
    pub name: String,
    /// JSON.
    pub arguments: String,
    pub result: String,
}

/// `None`: there is no result to read.
pub fn ran(kind: &str, item: &Value) -> Option<Ran> {
    let (name, arguments, result) = match kind {
        "mcp_call" => (item["name"].as_str()?, arguments(&item["arguments"]), of_mcp(item)?),
        "code_interpreter_call" => {
            let code = json!({"code": item["code"]}).to_string();
            ("code_interpreter", code, texts(&item["outputs"], "logs")?)
        }
        "file_search_call" => {
            let queries = json!({"queries": item["queries"]}).to_string();
            ("file_search", queries, found(&item["results"])?)
        }
        _ => return None,
    };
    let id = item["id"].as_str().unwrap_or_default().to_owned();
    Some(Ran { id, name: name.to_owned(), arguments, result })
}

/// The text of an item of an unknown type.
pub fn text(item: &Value) -> Option<String> {
    let plain = |name: &str| item[name].as_str().filter(|text| !text.is_empty());
    plain("text")
        .or(plain("content"))
        .map(str::to_owned)
        .or_else(|| texts(&item["content"], "text"))
}

fn arguments(written: &Value) -> String {
    match written {
        Value::String(text) => text.clone(),
        Value::Null => "{}".to_owned(),
        other => other.to_string(),
    }
}

fn of_mcp(item: &Value) -> Option<String> {
    if let Some(output) = item["output"].as_str() {
        return Some(output.to_owned());
    }
    match &item["error"] {
        Value::Null => None,
        Value::String(error) => Some(format!("Error: {error}")),
        error => Some(format!("Error: {}", error["message"].as_str().unwrap_or("it failed"))),
    }
}

/// Each part of a file that a search found, behind the file's name.
fn found(results: &Value) -> Option<String> {
    let part = |result: &Value| {
        let text = result["text"].as_str()?;
        let name = result["filename"].as_str();
        Some(name.map_or_else(|| text.to_owned(), |name| format!("{name}\n{text}")))
    };
    let parts: Vec<String> = results.as_array()?.iter().filter_map(part).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// The texts in the field `name` of each part; `None` without one.
fn texts(parts: &Value, name: &str) -> Option<String> {
    let texts = parts.as_array()?.iter().filter_map(|part| part[name].as_str());
    let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}
