//! Answers in the forms of models that people have, read by the built hobd: reasoning, content and calls, whole and
//! streamed. The fake model writes what it is asked to say; its template shows the form as the model's own does.
//!
//! The engine's test of `collection/calls.jsonl` has all forms.

use std::fs;

use hob_testkit::{Hobd, Launch};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::user;

const PARIS: &str = r#"{"city": "Paris"}"#;
const ROME: &str = r#"{"city": "Rome"}"#;

/// How a family of models writes an answer.
struct Form {
    family: &'static str,
    /// What a template of the form has, and of which its form is known.
    shown: &'static str,
    /// `@1` and `@2` stand for the arguments as JSON.
    written: &'static str,
    reasons: bool,
    /// Content in front of the calls.
    speaks: bool,
    calls: usize,
}

impl Form {
    const BASE: Self =
        Self { family: "", shown: "", written: "", reasons: true, speaks: true, calls: 2 };
}

const FORMS: [Form; 14] = [
    Form {
        family: "Qwen 3",
        shown: "<tool_call>",
        written: "<think>Hm.</think>So.<tool_call>\n{\"name\": \"get_time\", \"arguments\": @1}\n</tool_call>\n\
                  <tool_call>\n{\"name\": \"get_weather\", \"arguments\": @2}\n</tool_call>",
        ..Form::BASE
    },
    Form {
        family: "Qwen3-Coder",
        shown: "<tool_call>\n<function=name>\n<parameter=key>",
        written: "<think>Hm.</think>So.<tool_call>\n<function=get_time>\n<parameter=city>\nParis\n</parameter>\n\
                  </function>\n</tool_call>\n<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n\
                  </parameter>\n</function>\n</tool_call>",
        ..Form::BASE
    },
    Form {
        family: "gpt-oss",
        shown: "<|channel|><|message|>",
        written: "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary \
                  to=functions.get_time <|constrain|>json<|message|>@1",
        speaks: false,
        calls: 1,
        ..Form::BASE
    },
    Form {
        family: "Gemma 4",
        shown: "<|tool_call>",
        written: "<|channel>thought\nHm.<channel|>So.<|tool_call>call:get_time{city:<|\"|>Paris<|\"|>}\
                  <tool_call|><|tool_call>call:get_weather{city:<|\"|>Rome<|\"|>}<tool_call|>",
        ..Form::BASE
    },
    Form {
        family: "GLM",
        shown: "<tool_call>name\n<arg_key>",
        written: "<think>Hm.</think>So.<tool_call>get_time\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n\
                  </tool_call><tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n\
                  </tool_call>",
        ..Form::BASE
    },
    Form {
        family: "Mistral",
        shown: "[TOOL_CALLS]",
        written: "[THINK]Hm.[/THINK]So.[TOOL_CALLS][{\"name\": \"get_time\", \"arguments\": @1, \"id\": \"a1B2c3D4e\"}, \
                  {\"name\": \"get_weather\", \"arguments\": @2, \"id\": \"a1B2c3D4f\"}]",
        ..Form::BASE
    },
    Form {
        family: "Llama 3",
        shown: "<|start_header_id|>parameters",
        written: "{\"name\": \"get_time\", \"parameters\": @1}",
        reasons: false,
        speaks: false,
        calls: 1,
    },
    Form {
        family: "LFM2",
        shown: "List of tools: ",
        written: "So.<|tool_call_start|>[get_time(city=\"Paris\"), get_weather(city=\"Rome\")]<|tool_call_end|>",
        reasons: false,
        ..Form::BASE
    },
    Form {
        family: "Granite 3",
        shown: "<|tool_call|>",
        written: "<think>Hm.</think>So.<|tool_call|>[{\"name\": \"get_time\", \"arguments\": @1}, \
                  {\"name\": \"get_weather\", \"arguments\": @2}]",
        ..Form::BASE
    },
    Form {
        family: "DeepSeek",
        shown: "<｜tool▁call▁begin｜>",
        written: "<think>Hm.</think>So.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜>@1\
                  <｜tool▁call▁end｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>@2<｜tool▁call▁end｜>\
                  <｜tool▁calls▁end｜>",
        ..Form::BASE
    },
    Form {
        family: "Kimi K2",
        shown: "<|tool_calls_section_begin|>",
        written: "<think>Hm.</think>So.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_time:0\
                  <|tool_call_argument_begin|>@1<|tool_call_end|><|tool_call_begin|>functions.get_weather:1\
                  <|tool_call_argument_begin|>@2<|tool_call_end|><|tool_calls_section_end|>",
        ..Form::BASE
    },
    Form {
        family: "MiniMax M2",
        shown: "<minimax:tool_call>",
        written: "<think>Hm.</think>So.<minimax:tool_call>\n<invoke name=\"get_time\">\n<parameter name=\"city\">Paris\
                  </parameter>\n</invoke>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Rome</parameter>\n\
                  </invoke>\n</minimax:tool_call>",
        ..Form::BASE
    },
    Form {
        family: "Command",
        shown: "<|START_ACTION|>",
        written: "<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \
                  \"get_time\", \"parameters\": @1},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"get_weather\", \
                  \"parameters\": @2}\n]<|END_ACTION|>",
        speaks: false,
        ..Form::BASE
    },
    Form {
        family: "Seed-OSS",
        shown: "<seed:tool_call>",
        written: "<seed:think>Hm.</seed:think>So.<seed:tool_call>\n<function=get_time>\n<parameter=city>Paris</parameter>\n\
                  </function>\n</seed:tool_call>\n<seed:tool_call>\n<function=get_weather>\n<parameter=city>Rome\
                  </parameter>\n</function>\n</seed:tool_call>",
        ..Form::BASE
    },
];

/// A hobd whose template shows the form.
fn start(form: &Form) -> (Hobd, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    let template = "{{ (tools or []) | length }} tools\n{% for message in messages %}<|im_start|>\
                    {{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}\
                    {{ '<|im_start|>assistant\n' }}";
    fs::write(&path, format!("{{# {} #}}{template}", form.shown)).unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--model", "fake", "--chat-template"]).args([&path]);
    (launch.start(), directory)
}

fn tool(name: &str) -> Value {
    let city = json!({"city": {"type": "string"}});
    let parameters = json!({"type": "object", "properties": city, "required": ["city"]});
    json!({"type": "function", "function": {"name": name, "parameters": parameters}})
}

/// The message of the chunks, with its calls' names and arguments alone.
fn joined(chunks: &[Value]) -> Value {
    let mut calls: Vec<(String, String)> = Vec::new();
    let (mut reasoning, mut content) = (String::new(), String::new());
    let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
    for delta in deltas {
        reasoning += delta["reasoning_content"].as_str().unwrap_or_default();
        content += delta["content"].as_str().unwrap_or_default();
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = piece["index"].as_u64().unwrap() as usize;
            calls.resize(calls.len().max(index + 1), Default::default());
            calls[index].0 += piece["function"]["name"].as_str().unwrap_or_default();
            calls[index].1 += piece["function"]["arguments"].as_str().unwrap_or_default();
        }
    }
    json!([reasoning, content, calls])
}

#[test]
fn reasoning_content_and_calls_are_read_in_the_form_of_each_family() {
    for form in &FORMS {
        let (hobd, _directory) = start(form);
        let family = form.family;
        let written = form.written.replace("@1", PARIS).replace("@2", ROME);
        let mut body = json!({
            "messages": [user(&format!("Say this: {written}"))], "temperature": 0,
            "tools": [tool("get_time"), tool("get_weather")], "max_tokens": 600,
        });
        let answer = hobd.client.chat(&body);
        let choice = &answer["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{family}: {choice}");
        let message = &choice["message"];
        let text = |name: &str| message[name].as_str().unwrap_or_default();
        let called = message["tool_calls"].as_array().unwrap().iter().map(|call| {
            let function = &call["function"];
            (function["name"].as_str().unwrap(), function["arguments"].as_str().unwrap())
        });
        let called: Vec<(&str, &str)> = called.collect();
        let expected = [("get_time", PARIS), ("get_weather", ROME)];
        assert_eq!(called, expected[..form.calls], "{family}: {message}");
        let said = [text("reasoning_content"), text("content")];
        let expected =
            [if form.reasons { "Hm." } else { "" }, if form.speaks { "So." } else { "" }];
        assert_eq!(said, expected, "{family}: {message}");

        body["stream"] = true.into();
        let call = hobd.client.call("POST", "/v1/chat/completions").json(&body);
        let chunks = call.stream().collect();
        assert_eq!(joined(&chunks), json!([said[0], said[1], called]), "{family}");
    }
}

/// GigaChat has no marks of reasoning.
#[test]
fn what_goes_on_behind_reasoning_that_a_model_cannot_write_is_content() {
    let form = Form { family: "GigaChat 3.1", shown: "<|function_call|>", ..Form::BASE };
    let (hobd, _directory) = start(&form);
    let begun = json!({"role": "assistant", "content": "", "reasoning_content": "Hm."});
    let messages = json!([user("Say this: One."), begun]);
    let body = json!({"messages": messages, "continue_final_message": true, "max_tokens": 20});
    let answer = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
    let message = answer.json()["choices"][0]["message"].clone();
    assert_eq!(message["content"], "One.", "{message}");
    assert_eq!(message["reasoning_content"], Value::Null, "{message}");
}
