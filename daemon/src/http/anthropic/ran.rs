//! Tools that Anthropic's servers ran, in a history that began there: what a model can read of their results.

use serde_json::Value;

/// The text of a result; `None`: it has none. `content`: of the block.
pub fn text(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Array(parts) => {
            let texts: Vec<String> = parts.iter().filter_map(of_part).collect();
            (!texts.is_empty()).then(|| texts.join("\n"))
        }
        part => of_part(part),
    }
}

fn of_part(part: &Value) -> Option<String> {
    let text = |name: &str| part[name].as_str().filter(|text| !text.is_empty());
    if let Some(code) = text("error_code") {
        return Some(format!("Error: {code}"));
    }
    // Of a page, a server sends the text encrypted, or as a document.
    let document = part
        .pointer("/content/source/data")
        .filter(|_| part.pointer("/content/source/type").is_some_and(|kind| kind == "text"));
    let known = ["text", "title", "url", "stdout", "stderr"].into_iter().filter_map(text);
    let texts: Vec<&str> = known.chain(document.and_then(Value::as_str)).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_is_read_as_far_as_it_has_text() {
        let page = json!({"type": "document", "source": {"type": "text", "data": "Once."}});
        for (content, expected) in [
            (
                json!([{"type": "web_search_result", "title": "Lamps", "url": "http://a",
                        "encrypted_content": "x"}, {"type": "web_search_result", "url": "http://b"}]),
                Some("Lamps\nhttp://a\nhttp://b"),
            ),
            (
                json!({"type": "web_fetch_result", "url": "http://a", "content": page}),
                Some("http://a\nOnce."),
            ),
            (
                json!({"type": "code_execution_result", "stdout": "2", "stderr": "", "return_code": 0}),
                Some("2"),
            ),
            (
                json!({"type": "web_search_tool_result_error", "error_code": "busy"}),
                Some("Error: busy"),
            ),
            (json!("on"), Some("on")),
            (json!([{"type": "text", "text": "on"}]), Some("on")),
            (json!([]), None),
            (json!([{"type": "tool_reference", "tool_name": "f"}]), None),
            (Value::Null, None),
        ] {
            assert_eq!(text(&content).as_deref(), expected, "{content}");
        }
    }
}
