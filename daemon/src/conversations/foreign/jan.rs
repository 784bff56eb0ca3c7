//! Jan's threads: a folder with `thread.json` and `messages.jsonl`, from `threads` in its data folder.
//!
//! - Messages have the shape of OpenAI's threads, one a line, without branches.
//! - The assistant of the thread has the instructions and the model.

use serde_json::Value;

use super::Source;
use super::conversation::{ForeignConversation, ForeignMessage, split_reasoning};
use super::fields::{model_name, number, some_text, text};

/// `thread`: null without `thread.json`. `None` if the lines are no messages of Jan.
pub fn thread(thread: &Value, messages: &[Value]) -> Option<ForeignConversation> {
    let is_message =
        |line: &Value| text(line, "object") == "thread.message" || line.get("thread_id").is_some();
    if messages.is_empty() || !messages.iter().all(is_message) {
        return None;
    }
    let assistant = &thread["assistants"][0];
    let of_thread = model_name(&thread["model"], "id");
    let model = of_thread.or_else(|| model_name(&assistant["model"], "id"));
    let times = || messages.iter().filter_map(|message| number(message, "created_at"));
    let mut conversation = ForeignConversation {
        id: some_text(thread, "id").or_else(|| some_text(&messages[0], "thread_id")),
        title: some_text(thread, "title").or_else(|| some_text(&thread["metadata"], "title")),
        created_at: number(thread, "created").or_else(|| times().reduce(f64::min)),
        updated_at: number(thread, "updated").or_else(|| times().reduce(f64::max)),
        ..ForeignConversation::new(Source::Jan, text(assistant, "instructions"))
    };
    let mut sorted: Vec<&Value> = messages.iter().collect();
    sorted.sort_by(|a, b| {
        let time = |message: &Value| number(message, "created_at").unwrap_or(0.0);
        time(a).total_cmp(&time(b))
    });
    let mut last = None;
    for message in sorted {
        let is_answer = match text(message, "role") {
            "assistant" => true,
            "user" => false,
            _ => continue,
        };
        let (thought, text) = split_reasoning(&content(message, "text"));
        let reasoning = if thought.is_empty() { content(message, "reasoning") } else { thought };
        let of_message = model_name(&message["metadata"], "modelId");
        let model = of_message.or_else(|| model.clone());
        let at = number(message, "created_at");
        last = conversation.push(last, ForeignMessage { is_answer, text, reasoning, model, at });
    }
    Some(conversation)
}

/// The parts of a type, such as `{"type": "text", "text": {"value": "Hello", "annotations": []}}`.
fn content(message: &Value, kind: &str) -> String {
    let parts = message["content"].as_array().into_iter().flatten();
    let texts =
        parts.filter(|part| text(part, "type") == kind).map(|part| text(&part["text"], "value"));
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}
