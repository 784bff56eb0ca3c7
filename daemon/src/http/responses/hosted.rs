//! Items of tools that another server ran, and items of unknown types: what a model can read of them.
//!
//! - A call whose item has its result, as text, is a call of a function and its result.
//! - Of an item of another type its text is read, if it has one.
//! - Other items that a server writes are left out: a history that another server began goes on here.
//! - An item of an unknown type that looks like one that a client writes is mistyped. It is refused, because the
//!   conversation would miss it.

use serde_json::{Value, json};

/// Types of items that OpenAI's servers, those like them, and agents write for themselves. They are left out where
/// there is nothing to read.
const OF_SERVERS: [&str; 26] = [
    "apply_patch_call",
    "apply_patch_call_output",
    "code_interpreter_call",
    "compaction",
    "compaction_summary",
    "compaction_trigger",
    "computer_call",
    "computer_call_output",
    "context_compaction",
    "file_search_call",
    "ghost_snapshot",
    "image_generation_call",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "mcp_list_tools",
    "other",
    "program",
    "program_output",
    "shell_call",
    "shell_call_output",
    "tool_search_call",
    "tool_search_output",
    "web_fetch_call",
    "web_search_call",
    "x_search_call",
];

/// Whether the item is one that hobd reads, with a wrong type: its type is unknown, and it has fields of what clients
/// write, or nothing that a server writes: a text, a `status`, what is encrypted for it.
pub fn is_mistyped(kind: &str, item: &Value) -> bool {
    let has = |name: &str| !item[name].is_null();
    // A server's own types have its name in front.
    let is_known = OF_SERVERS.contains(&kind) || kind.contains(':');
    let is_of_client = ["role", "call_id", "summary"].into_iter().any(has);
    let is_of_server = text(item).is_some() || has("status") || has("encrypted_content");
    !is_known && (is_of_client || !is_of_server)
}

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
