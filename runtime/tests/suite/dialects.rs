//! Answers in the forms of llama.cpp's collection of chat templates: read as llama.cpp reads them, and allowed by the
//! grammar of the calls that a model makes by itself.
//!
//! - `collection/calls.jsonl` holds the cases of llama.cpp's `tests/test-chat.cpp` (MIT licence, the
//!   version that llama-cpp-python 0.3.36 contains): its first line the schemas of the tools, then a
//!   case a line. The snapshot lists the cases that are read otherwise, by template.
//! - Left out are those that keep reasoning within the content: Hob always separates it.
//! - An answer with a given beginning is read from its first letter on, as `hob.continue` does.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::{env, fs};

use hob_dialect::{Dialect, Parser, Part, Signatures, opens_reasoning, written};
use hob_runtime::grammar::{Calls, Grammar, GrammarFactory, Strictness, ToolSignature};
use hob_runtime::template::{ChatTemplate, RenderInput};
use hob_runtime::vocabulary::{TokenKind, Vocabulary};
use hob_slots::Token;
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

/// How the answer to a request is parsed.
struct ParserOptions {
    dialect: Dialect,
    /// The prompt has opened the think mark.
    thinks: bool,
    /// Names of tools, and their parameters.
    tools: Vec<(String, Value)>,
}

impl ParserOptions {
    fn of(source: &str, case: &Value, schemas: &Value) -> Self {
        let names = case["tools"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
        let tools: Vec<(String, Value)> = names
            .map(|key| (key.trim_end_matches('\'').to_owned(), schemas[key].clone()))
            .collect();
        let definition = |(name, parameters): &(String, Value)| {
            json!({"type": "function", "function": {
                "name": name, "description": "", "parameters": parameters,
            }})
        };
        let definitions: Vec<Value> = tools.iter().map(definition).collect();
        let thinks = opens_reasoning(&prompt(source, case, &definitions));
        Self { dialect: Dialect::detect(source), thinks, tools }
    }

    /// A parser of what follows the answer's beginning, and what it has read of that.
    fn parser(&self, case: &Value) -> (Parser, Vec<Part>) {
        let offered = (!self.tools.is_empty()).then(|| Signatures::new(self.tools.clone()));
        let mut parser = Parser::new(self.dialect, offered, self.thinks);
        let parts = parser.push(&begun(self.dialect, self.thinks, case));
        (parser, parts)
    }
}

fn read(source: &str, case: &Value, schemas: &Value) -> Answer {
    let (mut parser, begun) = ParserOptions::of(source, case, schemas).parser(case);
    let mut answer = Answer::default();
    answer.add(begun);
    // Letter by letter, as the worst of streams.
    for letter in case["input"].as_str().unwrap().split_inclusive(|_| true) {
        answer.add(parser.push(letter));
    }
    if case["partial"] != true {
        answer.add(parser.finish());
    }
    answer
}

/// Marks of Mistral's newer models, which are tokens: where the vocabulary has the first one, calls have no list.
const MARKS: [&str; 3] = ["[ARGS]", "[CALL_ID]", "[TOOL_CALLS]"];

/// A token a byte, one that ends an answer, and one for each mark.
fn bytes(marks: &[&str]) -> Vocabulary {
    let text = (0..=255).map(|byte| (vec![byte], TokenKind::default()));
    let end = (b"<end>".to_vec(), TokenKind { control: true, end_of_generation: true });
    let control = TokenKind { control: true, end_of_generation: false };
    let marks = marks.iter().map(|mark| (mark.as_bytes().to_vec(), control));
    Vocabulary::new(text.chain([end]).chain(marks), None, Some(Token(256)), false)
}

/// The first token of `text`, and its bytes.
fn first_token(text: &[u8], marks: &[&str]) -> (Token, usize) {
    let mark = marks.iter().position(|mark| text.starts_with(mark.as_bytes()));
    match mark {
        Some(mark) => (Token(257 + i32::try_from(mark).unwrap()), marks[mark].len()),
        None => (Token(i32::from(text[0])), 1),
    }
}

/// The text behind which the grammar of calls forbids what the answer has next.
fn forbidden_behind(options: &ParserOptions, case: &Value) -> Option<String> {
    let input = case["input"].as_str().unwrap();
    let marks = if input.contains(MARKS[0]) { &MARKS[..] } else { &[] };
    let vocabulary = bytes(marks);
    let signature = |(name, parameters): &(String, Value)| ToolSignature {
        name: name.clone(),
        parameters: Some(parameters.clone()),
        strictness: Strictness::Lenient,
    };
    let tools: Vec<ToolSignature> = options.tools.iter().map(signature).collect();
    let (parser, _) = options.parser(case);
    let grammar = Grammar::when_called(options.dialect, &tools, Calls::Several, parser);
    let mut constraint = GrammarFactory::new(&vocabulary).start(&grammar.unwrap()).unwrap();
    let (input, mut at) = (input.as_bytes(), 0);
    while at < input.len() {
        let mut logits = vec![0.0; vocabulary.len()];
        constraint.mask(&mut logits).unwrap();
        let (token, bytes) = first_token(&input[at..], marks);
        if logits[usize::try_from(token.0).unwrap()] < 0.0 {
            return Some(String::from_utf8_lossy(&input[..at]).into_owned());
        }
        constraint.accept(token).unwrap();
        at += bytes;
    }
    None
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

/// The name and the source of a template, and what a model with it answers.
type Case = (String, String, Value);

/// The schemas of the tools and the cases of `collection/calls.jsonl`. `None`: the templates are not there.
fn cases() -> Option<(Value, Vec<Case>)> {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/templates");
    let directory = env::var_os("HOB_TEMPLATES").map_or(fetched, Into::into);
    if !directory.join("complete").exists() {
        let remedy = "run `cargo run -p hob-fetch -- --templates target/templates` first";
        // Past the test harness, which shows nothing that a passed test prints.
        writeln!(io::stderr(), "answers as llama.cpp reads them ... skipped: {remedy}").ok();
        return None;
    }
    let mut lines = include_str!("collection/calls.jsonl").lines();
    let schemas = serde_json::from_str::<Value>(lines.next().unwrap()).unwrap()["tools"].take();
    let cases = lines.map(|line| serde_json::from_str::<Value>(line).unwrap()).filter(is_compared);
    let with_template = |case: Value| {
        let template = case["template"].as_str().unwrap().to_owned();
        let source = fs::read_to_string(directory.join(format!("{template}.jinja"))).unwrap();
        (template, source, case)
    };
    Some((schemas, cases.map(with_template).collect()))
}

/// By template: how many cases, and those that are no hits.
#[derive(Default)]
struct Report(BTreeMap<String, (usize, Vec<String>)>);

impl Report {
    fn add(&mut self, template: String, otherwise: Option<String>) {
        let (count, others) = self.0.entry(template).or_default();
        *count += 1;
        others.extend(otherwise);
    }

    /// `hits`: what they do.
    fn text(&self, hits: &str) -> String {
        let all: usize = self.0.values().map(|(count, _)| count).sum();
        let other: usize = self.0.values().map(|(_, others)| others.len()).sum();
        let mut text = format!("{} of {all} {hits}\n", all - other);
        for (template, (count, others)) in &self.0 {
            text.push_str(&format!("{template}: {} of {count}\n", count - others.len()));
            for other in others {
                text.push_str(&format!("    {other}\n"));
            }
        }
        text
    }
}

#[test]
fn answers_are_read_as_llama_cpp_reads_them() {
    let Some((schemas, cases)) = cases() else { return };
    let mut report = Report::default();
    for (template, source, case) in cases {
        let (read, expected) = (read(&source, &case, &schemas).normal(), expected(&case).normal());
        let otherwise = (read != expected).then(|| {
            let input = case["input"].as_str().unwrap();
            if env::var_os("HOB_SHOW").is_some() {
                println!("{template}\n{input:?}\n  {read:?}\n  {expected:?}");
            }
            let reason = OTHERWISE.iter().find(|(begin, _)| input.starts_with(begin));
            let reason = reason.map_or("no reason", |(_, reason)| reason);
            format!("{:?}: {reason}", input.chars().take(60).collect::<String>())
        });
        report.add(template, otherwise);
    }
    insta::assert_snapshot!(report.text("answers are read as llama.cpp reads them"));
}

#[test]
fn calls_that_llama_cpp_reads_are_allowed_by_the_grammar_that_begins_with_them() {
    let Some((schemas, cases)) = cases() else { return };
    let mut report = Report::default();
    for (template, source, case) in cases {
        let has_calls = case["expect"]["calls"].as_array().is_some_and(|calls| !calls.is_empty());
        if has_calls && case["partial"] != true {
            let options = ParserOptions::of(&source, &case, &schemas);
            let behind = forbidden_behind(&options, &case);
            let otherwise = behind.map(|behind| {
                let last: Vec<char> = behind.chars().rev().take(60).collect();
                format!("behind {:?}", last.into_iter().rev().collect::<String>())
            });
            report.add(template, otherwise);
        }
    }
    insta::assert_snapshot!(report.text("answers with calls are allowed"));
}
