//! Chat templates of well-known families, rendered with one conversation of each kind.
//!
//! The snapshots are prompts to read: where a template's family documents its prompt, this is it.

use hob_runtime::template::{ChatTemplate, RenderInput, TemplateError};
use hob_slots::Timestamp;
use serde_json::{Map, Value, json};

/// A conversation with a system message, text that HTML would escape, and white space.
fn plain() -> Vec<Value> {
    vec![
        json!({"role": "system", "content": "Be brief."}),
        json!({"role": "user", "content": "Is 1 < 2 & \"true\"? "}),
        json!({"role": "assistant", "content": "<think>\nEasy.\n</think>\n\nYes."}),
        json!({"role": "user", "content": "Grüße"}),
    ]
}

/// A conversation with a call and its result, as OpenAI's clients send them.
fn with_call() -> Vec<Value> {
    let arguments = r#"{"city":"Zürich","days":2}"#;
    let function = json!({"name": "weather", "arguments": arguments});
    let call = json!({"id": "call00001", "type": "function", "function": function});
    vec![
        json!({"role": "developer", "content": "Be brief."}),
        json!({"role": "user", "content": [{"type": "text", "text": "Rain in Zürich?"}]}),
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": "call00001", "content": "{\"rain\": true}"}),
    ]
}

fn tools() -> Vec<Value> {
    let properties = json!({"city": {"type": "string"}, "days": {"type": "integer"}});
    let parameters = json!({"type": "object", "properties": properties, "required": ["city"]});
    let function =
        json!({"name": "weather", "description": "Tells the weather.", "parameters": parameters});
    vec![json!({"type": "function", "function": function})]
}

fn render(
    source: &str,
    messages: &[Value],
    tools: Option<&[Value]>,
    extra: Value,
) -> Result<String, TemplateError> {
    let template = ChatTemplate::new(source, "<BOS>", "<EOS>")?;
    let Value::Object(extra) = extra else { panic!("extra variables are an object") };
    let input = RenderInput { messages, tools, add_generation_prompt: true, extra: &extra };
    template.with_clock(|| Timestamp(1_721_952_000_000)).render(&input)
}

/// Both conversations, one after the other. A family that knows no tools gets the plain one only.
fn prompts(source: &str) -> String {
    let plain = render(source, &plain(), None, json!({})).unwrap();
    let knows_tools = ChatTemplate::new(source, "", "").unwrap().supports_tools();
    if !knows_tools && !source.contains("tool_calls") {
        return plain;
    }
    let called = render(source, &with_call(), Some(&tools()), json!({})).unwrap();
    format!("{plain}\n\n======== with a call ========\n\n{called}")
}

macro_rules! families {
    ($($name:ident: $file:literal,)*) => {
        $(
            #[test]
            fn $name() {
                insta::assert_snapshot!(prompts(include_str!($file)));
            }
        )*
    };
}

families! {
    bundled: "../../../assets/make/template.jinja",
    chatml: "templates/chatml.jinja",
    qwen2_5: "templates/qwen2.5.jinja",
    qwen3: "templates/qwen3.jinja",
    llama3: "templates/llama3.jinja",
    mistral: "templates/mistral.jinja",
    gemma3: "templates/gemma3.jinja",
    phi3: "templates/phi3.jinja",
    deepseek_r1: "templates/deepseek-r1.jinja",
    lfm2: "templates/lfm2.jinja",
}

#[test]
fn thinking_can_be_switched_off() {
    let source = include_str!("templates/qwen3.jinja");
    let off = render(source, &plain(), None, json!({"enable_thinking": false})).unwrap();
    assert!(off.ends_with("<|im_start|>assistant\n<think>\n\n</think>\n\n"), "{off}");
}

#[test]
fn a_family_that_reads_parts_gets_parts() {
    let source = include_str!("templates/gemma3.jinja");
    let parts = json!([{"type": "text", "text": " a "}, {"type": "text", "text": "b"}]);
    let prompt = render(source, &[json!({"role": "user", "content": parts})], None, json!({}));
    assert_eq!(
        prompt.unwrap(),
        "<BOS><start_of_turn>user\nab<end_of_turn>\n<start_of_turn>model\n"
    );
}

#[test]
fn a_template_refuses_in_its_own_words() {
    let source = include_str!("templates/gemma3.jinja");
    let twice = vec![json!({"role": "user", "content": "a"}); 2];
    let refused = TemplateError::Refused(
        "Conversation roles must alternate user/assistant/user/assistant".to_owned(),
    );
    assert_eq!(render(source, &twice, None, json!({})), Err(refused));
}

#[test]
fn a_long_conversation_stays_far_below_the_caps() {
    let turns = plain().into_iter().cycle().skip(1).step_by(2).take(2_000);
    let messages: Vec<Value> = turns
        .enumerate()
        .map(|(n, message)| {
            let role = if n % 2 == 0 { "user" } else { "assistant" };
            json!({"role": role, "content": message["content"]})
        })
        .collect();
    let source = include_str!("templates/qwen3.jinja");
    assert!(render(source, &messages, None, Value::Object(Map::new())).is_ok());
}
