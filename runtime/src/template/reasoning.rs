//! Where a template reads the reasoning of an answer, which messages have in `reasoning_content`.
//!
//! - Most templates read it there, or nowhere. Without it, an answer that calls a tool has forgotten why when the result
//!   comes, and its prompt differs from what the model has written.

use serde_json::{Map, Value, json};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// `reasoning_content`, or nowhere.
    #[default]
    Own,
    /// Another field: LFM2.5, Solar.
    Field(&'static str),
    /// `thinking`. The template refuses content beside it where the answer has calls, and else writes such content as
    /// reasoning: gpt-oss.
    Analysis,
    /// A part of the content: Ministral.
    Part,
}

impl Place {
    /// As far as the source of a template says it.
    pub fn by(source: &str) -> Self {
        let reads = |text: &str| source.contains(text);
        if reads("reasoning_content") {
            Self::Own
        } else if reads("both content and thinking") {
            Self::Analysis
        } else if reads("message.thinking") {
            Self::Field("thinking")
        } else if reads("message.reasoning") {
            Self::Field("reasoning")
        } else if reads("== 'thinking'") {
            Self::Part
        } else {
            Self::Own
        }
    }

    /// Writes the reasoning of an answer there, if it has any.
    pub fn write_in(self, message: &mut Map<String, Value>) {
        let text = |name: &str| {
            let text = message.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
            text.map(str::to_owned)
        };
        let is_answer = message.get("role").is_some_and(|role| role == "assistant");
        let Some(reasoning) = text("reasoning_content").filter(|_| is_answer) else { return };
        let content = text("content");
        match self {
            Self::Own => {}
            Self::Field(name) => {
                message.insert(name.to_owned(), reasoning.into());
            }
            Self::Analysis => {
                let thought = match content.filter(|_| message.contains_key("tool_calls")) {
                    Some(content) => {
                        message.insert("content".to_owned(), "".into());
                        format!("{reasoning}\n\n{content}")
                    }
                    None => reasoning,
                };
                message.insert("thinking".to_owned(), thought.into());
            }
            Self::Part => {
                let thought = json!({"type": "thinking", "thinking": reasoning});
                let said = content.map(|content| json!({"type": "text", "text": content}));
                let parts: Vec<Value> = std::iter::once(thought).chain(said).collect();
                message.insert("content".to_owned(), parts.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(source: &str, message: &Value) -> Value {
        let Value::Object(mut message) = message.clone() else { panic!("{message}") };
        Place::by(source).write_in(&mut message);
        Value::Object(message)
    }

    #[test]
    fn reasoning_is_where_the_template_reads_it() {
        let answer = json!({"role": "assistant", "content": "So.", "reasoning_content": "Hm."});
        let with = |name: &str, value: Value| {
            let mut answer = answer.clone();
            answer[name] = value;
            answer
        };
        let parts =
            json!([{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "So."}]);
        for (source, expected) in [
            ("{{ message.content }}", answer.clone()),
            ("{{ message.thinking or message.reasoning_content }}", answer.clone()),
            ("{{ message.thinking }}", with("thinking", json!("Hm."))),
            ("{{ message.reasoning }}", with("reasoning", json!("Hm."))),
            ("{% if block['type'] == 'thinking' %}", with("content", parts)),
        ] {
            assert_eq!(written(source, &answer), expected, "{source}");
        }
        let silent = json!({"role": "assistant", "content": "", "reasoning_content": "Hm."});
        let part = json!([{"type": "thinking", "thinking": "Hm."}]);
        assert_eq!(written("{% if block['type'] == 'thinking' %}", &silent)["content"], part);
        for other in [
            json!({"role": "assistant", "content": "So.", "reasoning_content": ""}),
            json!({"role": "user", "content": "So.", "reasoning_content": "Hm."}),
        ] {
            assert_eq!(written("{{ message.thinking }}", &other), other);
        }
    }

    #[test]
    fn words_before_a_call_of_gpt_oss_are_reasoning_too() {
        let source = "{{ message.thinking }} Cannot pass both content and thinking";
        let answer = |content: &str, calls: bool| {
            let mut answer =
                json!({"role": "assistant", "content": content, "reasoning_content": "Hm."});
            if calls {
                answer["tool_calls"] = json!([{"function": {"name": "f", "arguments": "{}"}}]);
            }
            written(source, &answer)
        };
        let fields = |answer: &Value| [answer["content"].clone(), answer["thinking"].clone()];
        assert_eq!(fields(&answer("So.", true)), ["", "Hm.\n\nSo."]);
        assert_eq!(fields(&answer("", true)), ["", "Hm."]);
        assert_eq!(fields(&answer("So.", false)), ["So.", "Hm."]);
    }
}
