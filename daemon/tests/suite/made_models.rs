//! Models made of the fixtures: a reranker, one whose vocabulary has the marks for a text that is filled in, and
//! those whose chat templates are hostile.
//! Through the built hobd, on llama.cpp.
#![cfg(feature = "llama")]

use std::path::Path;

use hob_testkit::{Gguf, Hobd, Launch, asset};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::merged;
use crate::multiplied_requests::{expect_refusal, long_query};

fn fixture() -> Gguf {
    Gguf::open(&asset("fixtures/qwen3.gguf"))
}

fn start(directory: &TempDir, name: &str, model: &Gguf) -> Hobd {
    let home = directory.path().join(name);
    std::fs::create_dir_all(&home).unwrap();
    model.write(&home.join("model.gguf"));
    launch(&home).start()
}

/// Of the model that [`start`] has written.
fn launch(home: &Path) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), home);
    let launch = launch.args(["--threads", "1", "--ctx", "512"]);
    launch.args(["--model".into(), home.join("model.gguf").into_os_string()])
}

fn tokens(hobd: &Hobd, text: &str) -> Vec<Value> {
    let answer = hobd.client.post("/tokenize", &json!({"content": text}));
    answer["tokens"].as_array().unwrap().clone()
}

/// The fixture's, of each token.
const COLUMNS: usize = 64;

/// The weights of the labels `yes` and `no`: each the other's opposite.
fn label() -> Vec<f32> {
    (0..COLUMNS).map(|column| ((column * 7 % 13) as f32 - 6.0) / 13.0).collect()
}

/// It scores the last token of a text, as Qwen3's rerankers do.
fn reranker() -> Gguf {
    let weights: Vec<f32> =
        label().into_iter().chain(label().into_iter().map(|weight| -weight)).collect();
    fixture()
        .number("qwen3.pooling_type", 4)
        .texts("qwen3.classifier.output_labels", &["yes", "no"])
        .tensor("cls.output.weight", [COLUMNS, 2], &weights)
}

const TEXTS: [&str; 6] =
    ["the mill", "a river", "Hello there", "four", "What is it?", "my locker code is 48213"];

#[test]
fn a_reranker_scores_each_text_by_what_the_model_makes_of_it() {
    let directory = TempDir::new().unwrap();
    let ranks = start(&directory, "ranks", &reranker());
    let ask = json!({"query": "Where is it?", "documents": TEXTS});
    let answer = ranks.client.post("/v1/rerank", &ask);
    let results = answer["results"].as_array().unwrap();
    let scores: Vec<f64> =
        results.iter().map(|result| result["relevance_score"].as_f64().unwrap()).collect();
    assert_eq!(scores.len(), TEXTS.len());
    assert!(scores.is_sorted_by(|a, b| a >= b) && scores[0] > scores[5], "{scores:?}");
    assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)), "{scores:?}");
    assert_eq!(answer, ranks.client.post("/v1/rerank", &ask), "the same each time");

    // The same weights as an embedding model: a text scores above a half where its vector points to `yes`.
    let embeds = start(&directory, "embeds", &fixture().number("qwen3.pooling_type", 3));
    let mut counted = 0;
    for (result, score) in results.iter().zip(&scores) {
        let text = TEXTS[result["index"].as_u64().unwrap() as usize];
        let mut pair = tokens(&embeds, "Where is it?");
        pair.extend(tokens(&embeds, text));
        counted += pair.len();
        let embedded = embeds.client.post("/v1/embeddings", &json!({"input": pair}));
        let vector = embedded["data"][0]["embedding"].as_array().unwrap().clone();
        let product: f64 = vector
            .iter()
            .zip(label())
            .map(|(value, weight)| value.as_f64().unwrap() * f64::from(weight))
            .sum();
        assert_eq!(*score > 0.5, product > 0.0, "{text}: {score}, {product}");
    }
    assert_eq!(answer["usage"]["prompt_tokens"], counted);

    let top = json!({"query": "Where is it?", "texts": TEXTS, "top_n": 1, "return_text": true});
    let best = ranks.client.post("/rerank", &top);
    assert_eq!(best[0]["index"], results[0]["index"]);
    assert_eq!(best[0]["text"], TEXTS[best[0]["index"].as_u64().unwrap() as usize]);
    let returned = json!({"query": "Where is it?", "documents": TEXTS, "return_documents": true});
    let returned = &ranks.client.post("/v1/rerank", &returned)["results"];
    assert_eq!(returned[0]["document"], json!({"text": best[0]["text"]}));
    let chat = json!({"messages": [{"role": "user", "content": "Hi"}]});
    let refused = ranks.client.call("POST", "/v1/chat/completions").json(&chat).send();
    assert_eq!((refused.status, &refused.error()["code"]), (400, &json!("unsupported_model")));
}

#[test]
fn a_reranker_s_own_template_frames_query_and_text() {
    let directory = TempDir::new().unwrap();
    let template = "Query: {query} Text: {document} Fits:";
    let ranks =
        start(&directory, "ranks", &reranker().text("tokenizer.chat_template.rerank", template));
    let ask = json!({"query": "Where?", "documents": ["the mill"]});
    let answer = ranks.client.post("/v1/rerank", &ask);
    let framed = tokens(&ranks, "Query: Where? Text: the mill Fits:");
    assert_eq!(answer["usage"]["prompt_tokens"], framed.len());
}

#[test]
fn a_query_that_is_too_long_is_refused_with_the_first_of_many_texts() {
    let directory = TempDir::new().unwrap();
    let ranks = start(&directory, "ranks", &reranker());
    expect_refusal(&ranks.client, "/v1/rerank", &long_query(), "context_length_exceeded");
}

/// Those of Qwen. They take the places of the vocabulary's last tokens.
const MARKS: [&str; 3] = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"];

#[test]
fn a_text_is_filled_in_with_the_marks_of_the_vocabulary() {
    let directory = TempDir::new().unwrap();
    let model = MARKS
        .iter()
        .enumerate()
        .fold(fixture(), |model, (n, mark)| model.control_token(1533 + n, mark));
    let fills = start(&directory, "fills", &model);
    let (prefix, suffix) = ("fn add(a, b) { ", " }");
    for mark in MARKS {
        assert_eq!(tokens(&fills, mark).len(), 1, "{mark}");
    }
    let common = json!({"temperature": 0, "max_tokens": 8});
    let with = |fields: Value| merged(common.clone(), &fields);
    let marked = format!("{}{prefix}{}{suffix}{}", MARKS[0], MARKS[1], MARKS[2]);
    let expected = fills.client.post("/v1/completions", &with(json!({"prompt": marked})));
    let filled = with(json!({"prompt": prefix, "suffix": suffix}));
    let filled = fills.client.post("/v1/completions", &filled);
    let text = filled["choices"][0]["text"].as_str().unwrap();
    assert_eq!(text, expected["choices"][0]["text"]);
    assert!(!text.is_empty());
    assert_eq!(filled["usage"]["prompt_tokens"], expected["usage"]["prompt_tokens"]);
    let count = tokens(&fills, prefix).len() + tokens(&fills, suffix).len() + 3;
    assert_eq!(filled["usage"]["prompt_tokens"], count);

    let infill =
        json!({"input_prefix": prefix, "input_suffix": suffix, "n_predict": 8, "temperature": 0});
    let infilled = fills.client.post("/infill", &infill);
    assert_eq!(infilled["content"], text);
    for form in
        [json!({"regex": "(yes|no)"}), json!({"guided_grammar": "root ::= \"yes\" | \"no\""})]
    {
        let formed = fills.client.post("/infill", &merged(infill.clone(), &form));
        assert!(formed["content"] == "yes" || formed["content"] == "no", "{form}: {formed}");
    }
    let mut begun = infill.clone();
    begun["input_prefix"] = "fn add(a, b) ".into();
    begun["prompt"] = "{ ".into();
    assert_eq!(fills.client.post("/infill", &begun)["content"], text);
    // As llama.vim and llama.vscode ask, and prepare the next question.
    let of_plugin = json!({"stop": [], "n_indent": 0, "top_k": 40, "top_p": 0.9, "stream": false,
        "samplers": ["top_k", "top_p", "infill"], "cache_prompt": true, "t_max_prompt_ms": 500,
        "t_max_predict_ms": 600_000, "response_fields": ["content", "timings/predicted_n"]});
    let suggested = fills.client.post("/infill", &merged(infill.clone(), &of_plugin));
    assert_eq!((&suggested["content"], suggested.as_object().unwrap().len()), (&json!(text), 2));
    let ahead = json!({"input_prefix": "", "input_suffix": "", "prompt": "", "n_predict": 0,
        "samplers": [], "t_max_prompt_ms": 1, "t_max_predict_ms": 1, "response_fields": [""],
        "input_extra": [{"filename": "a.rs", "text": "fn main() {}", "time": 1}]});
    assert_eq!(fills.client.post("/infill", &ahead), json!({}));
    let mut beside = infill;
    beside["input_extra"] = json!([{"filename": "a.rs", "text": "fn main() {}"}]);
    let beside = fills.client.post("/infill", &beside);
    assert!(beside["tokens_evaluated"].as_u64() > Some(count as u64), "{beside}");
    let ollama = json!({"model": "x", "prompt": prefix, "suffix": suffix, "stream": false,
        "options": {"temperature": 0, "num_predict": 8}});
    assert_eq!(fills.client.post("/api/generate", &ollama)["response"], text);

    let lacks = start(&directory, "lacks", &fixture());
    let body = with(json!({"prompt": prefix, "suffix": suffix}));
    let refused = lacks.client.call("POST", "/v1/completions").json(&body).send();
    assert_eq!((refused.status, &refused.error()["param"]), (400, &json!("suffix")));
}

#[test]
fn prompts_with_tools_are_written_by_the_template_that_a_file_has_for_them() {
    let directory = TempDir::new().unwrap();
    let own = "{% for message in messages %}[{{ message.role }}]{{ message.content }}{% endfor %}";
    let of_tools =
        "{% for tool in tools %}<{{ tool.function.name }}>{% endfor %}{{ messages[-1].content }}";
    let model = fixture().text("tokenizer.chat_template", own);
    let model = model.text("tokenizer.chat_template.tool_use", of_tools);
    let hobd = start(&directory, "tools", &model);
    let prompt = |body: &Value| hobd.client.post("/apply-template", body)["prompt"].clone();
    let mut body = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4});
    assert_eq!(prompt(&body), "[user]Hi");
    body["tools"] = json!([{"type": "function", "function": {"name": "look"}}]);
    assert_eq!(prompt(&body), "<look>Hi");
    hobd.client.post("/v1/chat/completions", &body);
    let props = hobd.client.get("/props");
    assert_eq!(props["chat_template"], own);
    assert_eq!(props["chat_template_tool_use"], of_tools);

    drop(hobd);
    let path = directory.path().join("other.jinja");
    let other = "{% if tools %}with {{ tools | length }}: {% endif %}{{ messages[-1].content }}";
    std::fs::write(&path, other).unwrap();
    let home = directory.path().join("tools");
    let hobd = launch(&home).args(["--chat-template"]).args([&path]).start();
    let shown = hobd.client.post("/apply-template", &body)["prompt"].clone();
    assert_eq!(shown, "with 1: Hi", "the setting replaces both");
    let props = hobd.client.get("/props");
    assert_eq!(
        (&props["chat_template"], props.get("chat_template_tool_use")),
        (&json!(other), None)
    );
}

/// Chat templates, and what each exceeds.
fn templates() -> [(&'static str, String, &'static str); 2] {
    let deep = format!("{{{{ {}1 }}}}", "not ".repeat(200_000));
    let doubled = "{% set ns = namespace(x='x' * 1000) %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x \
                   %}{% endfor %}";
    [("deep", deep, "64 MiB of stack"), ("doubled", doubled.to_owned(), "1024 MiB of memory")]
}

#[test]
fn a_file_whose_chat_template_takes_all_is_refused_chats_only_and_serves_them_with_another_template()
 {
    let directory = TempDir::new().unwrap();
    let own = directory.path().join("own.jinja");
    std::fs::write(&own, "{% for message in messages %}{{ message.content }}{% endfor %}").unwrap();
    let chat = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4});
    for (name, template, why) in templates() {
        let model = fixture().text("tokenizer.chat_template", &template);
        let hobd = start(&directory, name, &model);
        let refused = hobd.client.call("POST", "/v1/chat/completions").json(&chat).send();
        let said = refused.text();
        assert_eq!(refused.status, 400, "{name}: {said}");
        assert!(said.contains("chat template") && said.contains(why), "{name}: {said}");
        hobd.client.post("/v1/completions", &json!({"prompt": "Hi", "max_tokens": 4}));
        drop(hobd);
        let home = directory.path().join(name);
        let hobd = launch(&home).args(["--chat-template"]).args([&own]).start();
        hobd.client.post("/v1/chat/completions", &chat);
    }
}
