//! What Gemma 4's templates need.
//!
//! - The older one knows no role `tool`. It writes the results that an answer with calls has in `tool_responses`, and
//!   behind them the text of that answer. So results stand in the answer that called, and the next answer is its text.
//!   What an answer says before its calls ends the answer before it, or is one.
//! - The newer one ends the model's turn behind results of an answer that has text too, and begins no other.

use hob_dialect::Dialect;
use serde_json::{Value, json};

/// Where a template reads the results of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Results {
    #[default]
    InMessages,
    /// In the answer that called.
    InCalls,
}

impl Results {
    /// As far as the source of a template says it, which shows `dialect`.
    pub fn by(source: &str, dialect: Dialect) -> Self {
        let reads = |text: &str| source.contains(text);
        if dialect == Dialect::Gemma4 && reads("tool_responses") && !reads("tool_call_id") {
            Self::InCalls
        } else {
            Self::InMessages
        }
    }

    /// Puts the results there.
    pub fn place(self, messages: Vec<Value>) -> Vec<Value> {
        match self {
            Self::InMessages => messages,
            Self::InCalls => in_calls(messages),
        }
    }
}

fn in_calls(messages: Vec<Value>) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::with_capacity(messages.len());
    let mut rest = messages.into_iter().peekable();
    while let Some(mut message) = rest.next() {
        let mut responses: Vec<Value> = Vec::new();
        if has_calls(&message) {
            while let Some(result) = rest.next_if(|next| next["role"] == "tool") {
                responses.push(response(&message, responses.len(), &result));
            }
        }
        if responses.is_empty() {
            joined.push(message);
            continue;
        }
        let said = message["content"].take();
        if said.as_str().is_some_and(|text| !text.is_empty()) {
            match joined.last_mut().filter(|before| before["tool_responses"].is_array()) {
                Some(before) if before["content"] == "" => before["content"] = said,
                _ => joined.push(json!({"role": "assistant", "content": said})),
            }
        }
        let answer = rest.next_if(|next| next["role"] == "assistant" && !has_calls(next));
        message["content"] = answer.map_or("".into(), |answer| answer["content"].clone());
        message["tool_responses"] = responses.into();
        joined.push(message);
    }
    joined
}

/// Begins the model's turn behind a prompt that a template of this dialect has ended without one.
pub(super) fn with_turn(dialect: Dialect, mut prompt: String) -> String {
    if dialect == Dialect::Gemma4 && prompt.ends_with("<turn|>\n") {
        prompt.push_str("<|turn>model\n");
    }
    prompt
}

fn has_calls(message: &Value) -> bool {
    message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty())
}

/// The result number `at` of the calls of `message`.
fn response(message: &Value, at: usize, result: &Value) -> Value {
    let calls = || message["tool_calls"].as_array().into_iter().flatten();
    let id = result["tool_call_id"].as_str().filter(|id| !id.is_empty());
    let by_id = id.and_then(|id| calls().find(|call| call["id"] == id));
    let call = by_id.or_else(|| calls().nth(at));
    let name = call.and_then(|call| call["function"]["name"].as_str());
    let name = name.or_else(|| result["name"].as_str()).unwrap_or("unknown");
    json!({"name": name, "response": result["content"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_in_the_answer_that_called() {
        let call = |name: &str| json!({"id": name, "function": {"name": name, "arguments": {}}});
        let called = |text: &str, names: &[&str]| {
            let calls: Vec<Value> = names.iter().copied().map(call).collect();
            json!({"role": "assistant", "content": text, "tool_calls": calls})
        };
        let result =
            |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
        let user = json!({"role": "user", "content": "Hi"});
        let messages = vec![
            user.clone(),
            called("So.", &["look", "find"]),
            result("find", "1"),
            result("look", "2"),
            called("And.", &["look"]),
            result("", "3"),
            json!({"role": "assistant", "content": "Done."}),
            user.clone(),
            called("Cut", &["look"]),
        ];
        let with = |message: Value, text: &str, responses: Value| {
            let mut message = message;
            message["content"] = text.into();
            message["tool_responses"] = responses;
            message
        };
        let expected = [
            user.clone(),
            json!({"role": "assistant", "content": "So."}),
            with(
                called("", &["look", "find"]),
                "And.",
                json!([{"name": "find", "response": "1"}, {"name": "look", "response": "2"}]),
            ),
            with(called("", &["look"]), "Done.", json!([{"name": "look", "response": "3"}])),
            user,
            called("Cut", &["look"]),
        ];
        assert_eq!(Results::InCalls.place(messages), expected);
    }

    #[test]
    fn a_turn_begins_behind_one_that_the_template_has_ended() {
        let ended = "So.<turn|>\n";
        let begun = "So.<turn|>\n<|turn>model\n";
        assert_eq!(with_turn(Dialect::Gemma4, ended.to_owned()), begun);
        for prompt in ["<|turn>model\n", "<tool_response|>"] {
            assert_eq!(with_turn(Dialect::Gemma4, prompt.to_owned()), prompt);
        }
        assert_eq!(with_turn(Dialect::Plain, ended.to_owned()), ended);
    }

    #[test]
    fn a_template_that_knows_results_reads_them_in_messages() {
        let older = "{{ '<|tool_call>call:' }}{{ message['tool_responses'] }}";
        let newer = format!("{older}{{{{ message['tool_call_id'] }}}}");
        let place = |source: &str| Results::by(source, Dialect::detect(source));
        let places = [older, newer.as_str(), "{{ '<|tool_call>call:' }}"].map(place);
        assert_eq!(places, [Results::InCalls, Results::InMessages, Results::InMessages]);
    }
}
