//! llama.cpp's collection of chat templates, rendered as jinja2 renders them.
//!
//! - `cargo xtask test` fetches the templates (`hob-fetch --templates target/templates`); without them
//!   the test says so and ends.
//! - COMPATIBILITY.md's table of model families says what is compared here and in `dialects`, and no more.
//! - `collection/reference.py` writes `digests.json`, and with `--show TEMPLATE CASE` a prompt.

use std::io::{self, Write};
use std::path::Path;
use std::{env, fs};

use hob_runtime::template::{ChatTemplate, RenderInput, TemplateError};
use hob_slots::{Timestamp, hex_text};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Joins text that it marks as safe HTML with text that it does not; jinja2 escapes the latter, so that
/// the model reads `{&#34;name&#34;:`. It was not trained on that.
const ESCAPES: &str = "meetkai-functionary-medium-v3.1.jinja";

fn rendered(source: &str, case: &Value) -> Result<String, TemplateError> {
    let none = Map::new();
    let input = RenderInput {
        messages: case["messages"].as_array().expect("messages are a list"),
        tools: case.get("tools").and_then(Value::as_array).map(Vec::as_slice),
        add_generation_prompt: case["add_generation_prompt"].as_bool().unwrap_or(true),
        extra: case.get("extra").and_then(Value::as_object).unwrap_or(&none),
    };
    let template = ChatTemplate::new(source, "<BOS>", "<EOS>")?;
    template.with_clock(|| Timestamp(1_721_952_000_000)).render(&input)
}

/// As the reference writes it. jinja2 alone has "failed": there, a prompt is no worse.
fn digest_of(outcome: &Result<String, TemplateError>) -> String {
    match outcome {
        Ok(prompt) => hex_text(&Sha256::digest(prompt)[..8]),
        Err(TemplateError::Refused(_)) => "refused".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Whether jinja2 escapes what this template writes of the case.
fn is_escaped(template: &str, case: &Value) -> bool {
    template == ESCAPES && case.get("tools").is_some()
}

#[test]
fn each_template_renders_as_jinja2_renders_it() {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/templates");
    let directory = env::var_os("HOB_TEMPLATES").map_or(fetched, Into::into);
    if !directory.join("complete").exists() {
        let remedy = "run `cargo run -p hob-fetch -- --templates target/templates` first";
        // Past the test harness, which shows nothing that a passed test prints.
        writeln!(io::stderr(), "templates as jinja2 renders them ... skipped: {remedy}").ok();
        return;
    }
    let cases: Value = serde_json::from_str(include_str!("collection/cases.json")).unwrap();
    let digests: Value = serde_json::from_str(include_str!("collection/digests.json")).unwrap();
    let digests = digests.as_object().unwrap();
    let (mut compared, mut other, mut alone) = (0, Vec::new(), Vec::new());
    for (template, expected) in digests {
        let source = fs::read_to_string(directory.join(template)).unwrap();
        for (case, expected) in expected.as_object().unwrap() {
            let outcome = rendered(&source, &cases[case]);
            let (expected, digest) = (expected.as_str().unwrap(), digest_of(&outcome));
            if expected == "failed" {
                alone.push(format!("{template}, {case}: {digest}"));
                continue;
            }
            compared += 1;
            let is_known = is_escaped(template, &cases[case]) && outcome.is_ok();
            if !is_known && digest != expected {
                other.push(format!("{template}, {case}: {:?}", outcome.err()));
            }
        }
    }
    println!("{compared} prompts of {} templates are compared", digests.len());
    assert!(other.is_empty(), "{} differ:\n{}", other.len(), other.join("\n"));
    alone.sort();
    insta::assert_snapshot!(alone.join("\n"));
}

const COMPATIBILITY: &str = "docs/COMPATIBILITY.md";

/// Families of models, as COMPATIBILITY.md names them, and how the names of their templates begin.
const FAMILIES: &[(&str, &[&str])] = &[
    ("gpt-oss", &["openai-gpt-oss"]),
    ("Llama 3", &["meta-llama-"]),
    ("Qwen2.5, Qwen3, QwQ", &["Qwen-"]),
    ("Qwen3-Coder", &["Qwen3-Coder"]),
    ("Qwen3.5", &["Qwen3.5"]),
    ("Gemma 2 and 4", &["google-gemma-"]),
    ("Mistral, Ministral, Devstral", &["mistralai-", "Mistral-", "unsloth-mistral-"]),
    ("GLM", &["GLM-"]),
    ("Granite", &["ibm-granite-"]),
    ("LFM2", &["LFM2"]),
    ("DeepSeek", &["deepseek-ai-", "llama-cpp-deepseek-"]),
    ("Kimi", &["Kimi-", "moonshotai-Kimi"]),
    ("MiniMax", &["MiniMax-"]),
    ("Nemotron", &["NVIDIA-"]),
    ("Command", &["Cohere"]),
    ("Hermes", &["NousResearch-"]),
    ("SmolLM3", &["HuggingFaceTB-SmolLM3"]),
    ("Phi", &["microsoft-Phi"]),
];

/// The rows of COMPATIBILITY.md: of each family the templates that are rendered, and the answers that are read.
fn rows_of_families() -> Vec<String> {
    let digests: Value = serde_json::from_str(include_str!("collection/digests.json")).unwrap();
    let templates: Vec<&String> = digests.as_object().unwrap().keys().collect();
    let report =
        include_str!("snapshots/suite__dialects__answers_are_read_as_llama_cpp_reads_them.snap");
    let answers: Vec<(&str, usize, usize)> = report.lines().filter_map(of_template).collect();
    let row = |name: &str, is_its: &dyn Fn(&str) -> bool| {
        let rendered = templates.iter().filter(|template| is_its(template)).count();
        let its = || answers.iter().filter(|(template, ..)| is_its(template));
        let (read, all) = its().fold((0, 0), |sum, it| (sum.0 + it.1, sum.1 + it.2));
        let answers = if all == 0 { "no cases".to_owned() } else { format!("{read} of {all}") };
        assert!(rendered > 0, "{name} has no template");
        format!("| {name} | {rendered} | {answers} | not tried |")
    };
    let begins = |template: &str, begins: &[&str]| begins.iter().any(|it| template.starts_with(it));
    let mut rows: Vec<String> =
        FAMILIES.iter().map(|(name, its)| row(name, &|it| begins(it, its))).collect();
    rows.push(row("others", &|it| !FAMILIES.iter().any(|(_, its)| begins(it, its))));
    rows
}

fn compatibility() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(COMPATIBILITY);
    fs::read_to_string(path).expect("the repository has it")
}

/// A line such as `Qwen3-Coder: 23 of 23`.
fn of_template(line: &str) -> Option<(&str, usize, usize)> {
    let (template, counts) = line.split_once(": ")?;
    let (read, all) = counts.split_once(" of ")?;
    Some((template, read.parse().ok()?, all.parse().ok()?))
}

#[test]
fn the_documented_families_are_those_that_are_compared() {
    let document = compatibility();
    for row in rows_of_families() {
        assert!(document.lines().any(|line| line == row), "{COMPATIBILITY} lacks the row\n{row}");
    }
}

#[test]
fn the_documented_prompts_are_those_that_are_compared() {
    let cases: Value = serde_json::from_str(include_str!("collection/cases.json")).unwrap();
    let digests: Value = serde_json::from_str(include_str!("collection/digests.json")).unwrap();
    let digests = digests.as_object().unwrap();
    let (mut compared, mut escaped) = (0, 0);
    for (template, expected) in digests {
        for (case, expected) in expected.as_object().unwrap() {
            let is_compared = expected != "failed";
            compared += usize::from(is_compared);
            escaped += usize::from(is_compared && is_escaped(template, &cases[case]));
        }
    }
    assert_eq!((digests.len(), compared, escaped), (106, 1_614, 7));
    let document = compatibility().replace('\n', " ");
    for claim in [
        "Of 1,614 prompts of 106 templates",
        "renders 1,607 as jinja2 does",
        "and seven of Functionary 3.1",
    ] {
        assert!(document.contains(claim), "{COMPATIBILITY} lacks: {claim}");
    }
}
