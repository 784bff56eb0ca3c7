//! Answers in the forms of llama.cpp's collection of chat templates, read as llama.cpp reads them.
//!
//! - `collection/calls.jsonl` holds the cases of llama.cpp's `tests/test-chat.cpp` (MIT licence, the
//!   version that llama-cpp-python 0.3.36 contains): its first line the schemas of the tools, then a
//!   case a line. The snapshot lists the cases that are read otherwise, by template.
//! - Left out are those that keep reasoning within the content: Hob always separates it.
//! - An answer with a given beginning is read from its first letter on, as `hob.continue` does.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

use hob_dialect::{Dialect, Parser, Part, Signatures, opens_reasoning, written};
use hob_runtime::template::{ChatTemplate, RenderInput};
use serde_json::{Map, Value, json};

/// How answers begin that Hob reads otherwise, and why.
const OTHERWISE: &[(&str, &str)] = &[
    ("I'm\nthinking\n[BEGIN FINAL", "words of the prompt are no reasoning of the model"),
    ("I'm\nthinking<|END_THINKING|><|START_ACTION|>", NAME_ALONE),
    ("<|START_THINKING|>I'm\nthinking<|END_THINKING|><|START_ACTION|>", NAME_ALONE),
    ("Hello, world!", "nothing says that the reasoning before it is complete"),
    ("<mm:think>Union string", "an object that may be a text is read as an object"),
    ("[THINK]I need to output", FENCE),
    ("```json", FENCE),
];
const NAME_ALONE: &str = "a name is returned when its arguments begin";
const FENCE: &str = "Hob's grammar for JSON allows no fence around it";

/// What an answer says.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    content: String,
    reasoning: String,
    calls: Vec<(String, String)>,
}

impl Answer {
    fn add(&mut self, parts: Vec<Part>) {
        for part in parts {
            match part {
                Part::Content(text) => self.content.push_str(&text),
                Part::Reasoning(text) => self.reasoning.push_str(&text),
                Part::ToolCallStart { name, .. } => self.calls.push((name, String::new())),
                Part::ToolCallArguments { index, json_fragment } => {
                    self.calls[index].1.push_str(&json_fragment);
                }
                Part::ToolCallEnd { .. } => {}
            }
        }
    }

    /// Without what two readers may do differently: outer white space, and that of JSON.
    fn normal(self) -> Self {
        let json = |text: String| match serde_json::from_str::<Value>(&text) {
            Ok(value) => value.to_string(),
            Err(_) => text.trim_end().to_owned(),
        };
        Self {
            content: self.content.trim().to_owned(),
            reasoning: self.reasoning.trim().to_owned(),
            calls: self.calls.into_iter().map(|(name, text)| (name, json(text))).collect(),
        }
    }
}

fn expected(case: &Value) -> Answer {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let expect = &case["expect"];
    let calls = expect["calls"].as_array().into_iter().flatten();
    Answer {
        content: text(&expect["content"]),
        reasoning: text(&expect["reasoning"]),
        calls: calls.map(|call| (text(&call["name"]), text(&call["arguments"]))).collect(),
    }
}

/// The end of the prompt decides whether the answer begins with reasoning.
fn prompt(source: &str, case: &Value, tools: &[Value]) -> String {
    let question = [json!({"role": "user", "content": "Hey there!"})];
    let messages = case["messages"].as_array().map_or(&question[..], Vec::as_slice);
    let is_answer = messages.last().is_some_and(|last| last["role"] == "assistant");
    let messages = &messages[..messages.len() - usize::from(is_answer)];
    let extra = Map::from_iter([("enable_thinking".to_owned(), case["thinking"].clone())]);
    let input = RenderInput {
        messages,
        tools: (!tools.is_empty()).then_some(tools),
        add_generation_prompt: true,
        extra: &extra,
    };
    let template = ChatTemplate::new(source, "<BOS>", "<EOS>");
    template.and_then(|template| template.render(&input)).unwrap_or_default()
}

/// The text of an answer that goes on.
fn begun(dialect: Dialect, thinks: bool, case: &Value) -> String {
    let messages = case["messages"].as_array().filter(|_| case["continues"] == true);
    let Some(answer) = messages.and_then(|messages| messages.last()) else { return String::new() };
    let text = |key: &str| answer[key].as_str().unwrap_or_default();
    // llama.cpp leaves out reasoning that the template has no place for.
    let reasoning = if case["separates"] == true { text("reasoning_content") } else { "" };
    written(dialect, thinks, reasoning, text("content"))
}

fn read(source: &str, case: &Value, schemas: &Value) -> Answer {
    let names = case["tools"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
    let tools: Vec<(String, Value)> =
        names.map(|key| (key.trim_end_matches('\'').to_owned(), schemas[key].clone())).collect();
    let definition = |(name, parameters): &(String, Value)| {
        json!({"type": "function", "function": {
            "name": name, "description": "", "parameters": parameters,
        }})
    };
    let definitions: Vec<Value> = tools.iter().map(definition).collect();
    let dialect = Dialect::detect(source);
    let thinks = opens_reasoning(&prompt(source, case, &definitions));
    let offered = (!tools.is_empty()).then(|| Signatures::new(tools));
    let mut parser = Parser::new(dialect, offered, thinks);
    let mut answer = Answer::default();
    answer.add(parser.push(&begun(dialect, thinks, case)));
    // Letter by letter, as the worst of streams.
    for letter in case["input"].as_str().unwrap().split_inclusive(|_| true) {
        answer.add(parser.push(letter));
    }
    if case["partial"] != true {
        answer.add(parser.finish());
    }
    answer
}

/// Not where reasoning stays within the content: Hob has no such option.
fn is_compared(case: &Value) -> bool {
    let input = case["input"].as_str().unwrap();
    let thinks = ["think", "THINK", "channel", "I need to check"];
    let has_reasoning = thinks.iter().any(|mark| input.contains(mark));
    let keeps_reasoning = case["separates"] == false && has_reasoning;
    let is_call_alone = !case["expect"]["calls"].is_null() && case["expect"]["content"].is_null();
    !keeps_reasoning || case["continues"] == true || is_call_alone
}

#[test]
fn answers_are_read_as_llama_cpp_reads_them() {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/templates");
    let directory = env::var_os("HOB_TEMPLATES").map_or(fetched, Into::into);
    if !directory.join("complete").exists() {
        println!("skipped: run `cargo run -p hob-fetch -- --templates target/templates` first");
        return;
    }
    let mut lines = include_str!("collection/calls.jsonl").lines();
    let schemas = serde_json::from_str::<Value>(lines.next().unwrap()).unwrap()["tools"].take();
    let mut templates: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    for line in lines {
        let case: Value = serde_json::from_str(line).unwrap();
        if !is_compared(&case) {
            continue;
        }
        let template = case["template"].as_str().unwrap();
        let source = fs::read_to_string(directory.join(format!("{template}.jinja"))).unwrap();
        let (count, others) = templates.entry(template.to_owned()).or_default();
        *count += 1;
        let (read, expected) = (read(&source, &case, &schemas).normal(), expected(&case).normal());
        if read != expected {
            let input = case["input"].as_str().unwrap();
            if env::var_os("HOB_SHOW").is_some() {
                println!("{template}\n{input:?}\n  {read:?}\n  {expected:?}");
            }
            let reason = OTHERWISE.iter().find(|(begin, _)| input.starts_with(begin));
            let reason = reason.map_or("no reason", |(_, reason)| reason);
            others.push(format!("{:?}: {reason}", input.chars().take(60).collect::<String>()));
        }
    }
    let all: usize = templates.values().map(|(count, _)| count).sum();
    let other: usize = templates.values().map(|(_, others)| others.len()).sum();
    let mut report = format!("{} of {all} answers are read as llama.cpp reads them\n", all - other);
    for (template, (count, others)) in &templates {
        report.push_str(&format!("{template}: {} of {count}\n", count - others.len()));
        for input in others {
            report.push_str(&format!("    {input}\n"));
        }
    }
    insta::assert_snapshot!(report);
}
