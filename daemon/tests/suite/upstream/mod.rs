//! A hobd whose engine is at another address: the built hobd in front of another built hobd, and in front of
//! a scripted engine (`engine`) that speaks as vLLM, SGLang and llama-server do, and of a real llama-server.

mod broken_off;
pub mod engine;
mod hints;
mod llama_server;
mod models;

use std::path::Path;

use hob_testkit::client::Event;
use hob_testkit::{Client, Hobd, Launch, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::user;

/// Two hobds: one that answers, and one in front of it.
struct World {
    directory: TempDir,
    behind: Option<Hobd>,
    front: Hobd,
}

impl World {
    /// `model`: of the one that answers.
    fn with(model: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let behind = behind(directory.path(), model).start();
        let front = in_front(directory.path(), &behind).start();
        Self { directory, behind: Some(behind), front }
    }

    fn new() -> Self {
        Self::with("fake")
    }

    fn front(&self) -> &Client {
        &self.front.client
    }

    fn behind(&self) -> &Client {
        &self.behind.as_ref().expect("it runs").client
    }

    /// Starts the one in front again.
    fn restart(&mut self) {
        let launch = in_front(self.directory.path(), self.behind.as_ref().unwrap());
        self.front.process.terminate(wait::PATIENCE);
        self.front = launch.start();
    }

    fn url(&self) -> String {
        format!("http://{}", self.behind().address)
    }
}

fn behind(directory: &Path, model: &str) -> Launch {
    let directory = directory.join("behind");
    std::fs::create_dir_all(&directory).unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), &directory);
    launch.args(["--model", model, "--threads", "1", "--ctx", "4096"])
}

fn in_front(directory: &Path, behind: &Hobd) -> Launch {
    let token = behind.ready["token_file"].as_str().unwrap();
    front(directory, &format!("http://{}/v1", behind.client.address))
        .args(["--upstream-token-file", token])
}

/// In front of any engine.
fn front(directory: &Path, url: &str) -> Launch {
    let directory = directory.join("front");
    std::fs::create_dir_all(&directory).unwrap();
    Launch::new(env!("CARGO_BIN_EXE_hobd"), &directory).args(["--upstream", url])
}

fn ask(text: &str) -> Value {
    json!({"messages": [user(text)], "temperature": 0, "max_tokens": 64})
}

fn text(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// The chunks of a stream that ends as it should.
fn chunks(client: &Client, request: &Value) -> Vec<Value> {
    let mut request = request.clone();
    request["stream"] = true.into();
    request["stream_options"] = json!({"include_usage": true});
    client.call("POST", "/v1/chat/completions").json(&request).stream().collect()
}

/// The first 20 bytes of a streamed answer, or a few more.
fn first_words(events: &mut impl Iterator<Item = Event>) -> String {
    let mut said = String::new();
    while said.len() < 20 {
        let Some(Event::Data(chunk)) = events.next() else { panic!("the answer goes on") };
        said.push_str(chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
    }
    said
}

fn streamed(chunks: &[Value]) -> String {
    let contents = chunks.iter().filter_map(|it| it["choices"][0]["delta"]["content"].as_str());
    contents.collect()
}

#[test]
fn the_start_prints_the_address_of_the_upstream() {
    let (directory, url) = (TempDir::new().unwrap(), "http://127.0.0.1:1");
    let launch = front(directory.path(), url);
    let hobd = launch.start();
    let log = wait::until("it has printed them", || {
        let line = format!("hobd forwards to {url} at http://{}\n", hobd.client.address);
        Some(launch.log()).filter(|log| log.contains(&line))
    });
    assert!(!log.contains("conversation_tokens"), "no context is chosen here: {log}");
}

#[test]
fn a_chat_is_answered_by_the_engine_whole_and_as_a_stream() {
    let world = World::new();
    let request = ask("Say this: Grüße from behind.");
    let answer = world.front().chat(&request);
    assert_eq!(text(&answer), "Grüße from behind.");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer["model"], "fake", "the engine's model");
    assert_eq!(answer["hob"]["upstream"], world.url());
    assert_eq!(answer["hob"]["tokens"], Value::Null, "no KV is here");
    let direct = world.behind().chat(&request);
    for count in ["prompt_tokens", "completion_tokens", "total_tokens"] {
        assert_eq!(answer["usage"][count], direct["usage"][count], "{count}");
    }
    let streamed_chunks = chunks(world.front(), &request);
    assert_eq!(streamed(&streamed_chunks), "Grüße from behind.");
    let usage = &streamed_chunks.last().unwrap()["usage"];
    assert_eq!(usage["completion_tokens"], direct["usage"]["completion_tokens"]);
    let long =
        world.front().chat(&json!({"messages": [user("Say this: too long")], "max_tokens": 3}));
    assert_eq!((text(&long), &long["choices"][0]["finish_reason"]), ("too", &json!("length")));
    let both = world.front().chat(&json!({"messages": [user("Say this: Twice")], "n": 2}));
    assert_eq!(both["choices"][1]["message"]["content"], "Twice");
    let known = json!({"messages": [user("Say this: a")], "logprobs": true, "top_logprobs": 1});
    let entry = &world.front().chat(&known)["choices"][0]["logprobs"]["content"][0];
    assert_eq!((&entry["token"], &entry["bytes"]), (&json!("a"), &json!([97])));
}

#[test]
fn every_protocol_reaches_the_engine() {
    let world = World::new();
    let front = world.front();
    let message = front.post(
        "/v1/messages",
        &json!({"max_tokens": 50, "messages": [user("Say this: As Claude.")]}),
    );
    assert_eq!(message["content"], json!([{"type": "text", "text": "As Claude."}]));
    assert_eq!(message["stop_reason"], "end_turn");
    assert!(message["usage"]["output_tokens"].as_u64() > Some(5), "{message}");
    let streamed =
        json!({"max_tokens": 50, "stream": true, "messages": [user("Say this: Events.")]});
    let mut stream = front.call("POST", "/v1/messages").json(&streamed).stream();
    let mut said = String::new();
    while let Some((name, data)) = stream.next_named() {
        assert_ne!(name, "error", "{data}");
        said.push_str(data["delta"]["text"].as_str().unwrap_or_default());
    }
    assert_eq!(said, "Events.");

    let ollama =
        json!({"model": "fake", "stream": false, "messages": [user("Say this: As llama.")]});
    assert_eq!(front.post("/api/chat", &ollama)["message"]["content"], "As llama.");
    let generate = json!({"model": "fake", "stream": false, "prompt": "Say this: One prompt."});
    let generated = front.post("/api/generate", &generate);
    assert_eq!(generated["response"], "One prompt.");
    assert!(generated["eval_count"].as_u64() > Some(5), "{generated}");

    let first = front.post("/v1/responses", &json!({"input": "Say this: As a response."}));
    assert_eq!(first["output"][0]["content"][0]["text"], "As a response.");
    let next = json!({"input": "Say this: And on.", "previous_response_id": first["id"]});
    let next = front.post("/v1/responses", &next);
    assert_eq!(next["output"][0]["content"][0]["text"], "And on.");
    assert_eq!(next["conversation"], first["conversation"]);

    let raw = "<|im_start|>user\nSay this: Continued.<|im_end|>\n<|im_start|>assistant\n";
    let completion = json!({"prompt": raw, "max_tokens": 50, "temperature": 0});
    assert_eq!(front.post("/v1/completions", &completion)["choices"][0]["text"], "Continued.");
    let several = json!({"prompt": [raw, raw], "max_tokens": 4, "temperature": 0});
    assert_eq!(front.post("/v1/completions", &several)["choices"][1]["text"], "Cont");
    let own = front.post("/completion", &json!({"prompt": raw, "temperature": 0}));
    assert_eq!(own["content"], "Continued.");
}

#[test]
fn a_conversation_is_stored_in_front_and_goes_on_after_a_restart() {
    let mut world = World::new();
    world.front().say("talk", "Say this: The code is 7.");
    world.restart();
    let answer = world.front().say("talk", "Say this: It is.");
    assert_eq!(text(&answer), "It is.");
    assert_eq!(answer["hob"]["conversation"], "talk");
    let stored = world.front().get("/v1/conversations/talk");
    let said: Vec<&str> = stored["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["Say this: The code is 7.", "The code is 7.", "Say this: It is.", "It is."]);
    // The engine got all four messages: its own count of the same prompt is equal.
    let history = json!({"messages": stored["messages"].as_array().unwrap()[..3]
        .iter()
        .map(|message| json!({"role": message["role"], "content": message["content"]}))
        .collect::<Vec<_>>(), "temperature": 0});
    let direct = world.behind().chat(&history);
    assert_eq!(answer["usage"]["prompt_tokens"], direct["usage"]["prompt_tokens"]);
    let behind = world.behind().get("/v1/conversations");
    assert_eq!(behind["data"], json!([]), "no text is stored behind");
    assert!(
        answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64() > Some(20),
        "the engine was told that the turns belong together: {answer}"
    );
    let again =
        json!({"conversation": "talk", "messages": [], "hob": {"append": true, "after": 2}});
    let refused = world.front().call("POST", "/v1/chat/completions").json(&again).send();
    assert_eq!(refused.status, 400, "as in one daemon: {}", refused.text());
}

/// By these counts a page learns that another client's chat has an answer.
#[test]
fn the_answers_of_the_engine_are_counted_in_front() {
    let world = World::new();
    let counted = || {
        let counters = world.front().get("/v1/status")["counters"].clone();
        [&counters["turns"], &counters["generated_tokens"]].map(|count| count.as_u64().unwrap())
    };
    assert_eq!(counted(), [0, 0]);
    let stored = world.front().say("talk", "Say this: The code is 7.");
    let tokens = stored["usage"]["completion_tokens"].as_u64().unwrap();
    assert_eq!(counted(), [1, tokens]);
    world.front().chat(&ask("Say this: no conversation"));
    assert_eq!(counted()[0], 2);
}

#[test]
fn tools_are_called_and_their_results_go_back() {
    let world = World::new();
    let answer = world.front().call_tool("home", "lamp", "room", "kitchen");
    let call = &answer["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(call["function"]["name"], "lamp");
    assert_eq!(call["function"]["arguments"], r#"{"room":"kitchen"}"#);
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
    let result = json!({"role": "tool", "tool_call_id": call["id"], "content": "on"});
    let next = json!({"conversation": "home", "hob": {"append": true}, "temperature": 0,
        "messages": [result, user("Say this: The lamp is on.")]});
    assert_eq!(text(&world.front().chat(&next)), "The lamp is on.");
    let stored = world.front().get("/v1/conversations/home");
    assert_eq!(stored["messages"][1]["tool_calls"][0]["id"], call["id"]);

    let arguments = json!({"room": "hall"});
    let said =
        format!("<tool_call>\n{{\"name\": \"lamp\", \"arguments\": {arguments}}}\n</tool_call>");
    let parameters = json!({"type": "object", "properties": {"room": {"type": "string"}}});
    let request = json!({
        "messages": [user(&format!("Say this: {said}"))], "temperature": 0, "tool_choice": "required",
        "tools": [{"type": "function", "function": {"name": "lamp", "parameters": parameters}}],
    });
    let chunks = chunks(world.front(), &request);
    let pieces: Vec<&Value> = chunks
        .iter()
        .flat_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array())
        .flatten()
        .collect();
    assert_eq!(pieces[0]["function"]["name"], "lamp");
    let arguments: String =
        pieces.iter().filter_map(|piece| piece["function"]["arguments"].as_str()).collect();
    assert_eq!(arguments, r#"{"room":"hall"}"#);
}

#[test]
fn a_profile_stands_in_front_and_its_parameters_count() {
    let directory = TempDir::new().unwrap();
    let behind = behind(directory.path(), "fake").start();
    let profiles = directory.path().join("profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    let profile =
        "[sampling]\nmax_tokens = 4\n[[segment]]\nlayer = 'rules'\nkey = 'r'\ntext = 'Be kind.'";
    std::fs::write(profiles.join("kind.toml"), profile).unwrap();
    let launch = in_front(directory.path(), &behind);
    let front = launch.args(["--profiles-dir".into(), profiles.into_os_string()]).start();
    let mut request = json!({"messages": [user("Say this: 123456")], "temperature": 0,
        "hob": {"profile": "kind"}});
    let answer = front.client.chat(&request);
    assert_eq!(text(&answer), "1234");
    request["hob"] = json!({});
    request["messages"] =
        json!([{"role": "system", "content": "Be kind."}, user("Say this: 123456")]);
    let written = front.client.chat(&request);
    assert_eq!(answer["usage"]["prompt_tokens"], written["usage"]["prompt_tokens"]);
}

#[test]
fn the_export_of_a_conversation_is_imported_again() {
    let world = World::new();
    let front = world.front();
    front.say("talk", "Say this: The code is 7.");
    for (format, kind) in [("json", "application/json"), ("archive", "application/x-tar")] {
        let path = format!("/v1/conversations/talk/export?format={format}");
        let exported = front.call("GET", &path).send();
        let import = front.call("POST", "/v1/conversations/import").header("content-type", kind);
        let imported = import.body(exported.body).send();
        assert_eq!(imported.status, 200, "{format}: {}", imported.text());
    }
}

#[test]
fn a_document_goes_to_the_engine_which_alone_counts_its_tokens() {
    let world = World::new();
    let text_of_it = "the castle has seven doors\n".repeat(20);
    let call = world.front().call("POST", "/v1/documents?name=castle.txt");
    let added = call.body(text_of_it.as_str()).send().json();
    let id = added["id"].as_str().unwrap();
    for document in [&added, &world.front().get(&format!("/v1/documents/{id}"))] {
        let counts = ["tokens", "ready_tokens", "seconds_left"].map(|name| &document[name]);
        assert_eq!(counts, [&json!(0), &json!(0), &Value::Null], "{document}");
        assert!(document["context_tokens"].as_u64() > Some(0), "it is too long for no chat");
    }

    let mut about = user("How many doors?");
    about["hob"] = json!({"documents": [id]});
    let answer = world.front().chat(&json!({"messages": [about], "max_tokens": 4}));
    let tokens = answer["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(tokens > text_of_it.len() as u64, "the fake model has a token a letter: {tokens}");
}

#[test]
fn the_bundled_model_answers_as_it_does_by_itself() {
    if !cfg!(feature = "llama") {
        return;
    }
    let world = World::with("bundled");
    let mut request = ask("What can you do?");
    request["max_tokens"] = 12.into();
    let (front, direct) = (world.front().chat(&request), world.behind().chat(&request));
    assert_eq!(text(&front), text(&direct));
    assert_eq!(front["model"], direct["model"]);
    assert_eq!(streamed(&chunks(world.front(), &request)), text(&direct));
}

#[test]
fn the_engines_models_are_listed_and_routes_of_a_local_engine_are_refused() {
    let world = World::new();
    let front = world.front();
    let (models, direct) = (front.get("/v1/models"), world.behind().get("/v1/models"));
    assert_eq!(models["data"], direct["data"]);
    assert_eq!(front.get("/v1/models/fake"), direct["data"][0]);
    let unknown = front.call("GET", "/v1/models/other").send();
    assert_eq!((unknown.status, &unknown.error()["code"]), (404, &json!("model_not_found")));
    assert_eq!(front.get("/api/tags")["models"][0]["name"], "fake:latest");
    let shown = front.post("/api/show", &json!({"model": "fake"}));
    assert_eq!(shown["capabilities"], json!(["completion", "tools"]));
    let status = front.get("/v1/status");
    assert_eq!(status["upstream"]["url"], world.url());
    assert_eq!(status["upstream"]["engine"], "hob");
    assert_eq!(status["conversation_tokens"], direct["data"][0]["max_model_len"]);
    assert_eq!(shown["model_info"]["upstream.context_length"], status["conversation_tokens"]);
    assert_eq!((&status["model"], &status["demo"]), (&json!("fake"), &json!(false)));

    for (method, route) in [
        ("POST", "/v1/prewarm"),
        ("GET", "/v1/slots"),
        ("POST", "/v1/slots/prune"),
        ("GET", "/v1/memory"),
        ("GET", "/v1/models/local"),
        ("GET", "/v1/conversations/talk/context"),
        ("POST", "/v1/conversations/talk/typing"),
        ("POST", "/tokenize"),
        ("GET", "/v1/learned"),
        ("GET", "/v1/stats"),
        ("POST", "/v1/verify/correctness"),
    ] {
        let refused = front.call(method, route).json(&json!({})).send();
        assert_eq!(refused.status, 501, "{method} {route}: {}", refused.text());
        let error = refused.error();
        let message = error["message"].as_str().unwrap();
        assert!(error["code"] == "upstream" && message.contains(&world.url()), "{message}");
    }
    for (field, value) in
        [("max_tokens", json!(0)), ("lora", json!([{"id": "x"}])), ("regex", json!("a+"))]
    {
        let mut request = ask("Hi");
        request[field] = value;
        let answer = front.call("POST", "/v1/chat/completions").json(&request).send();
        if field == "regex" {
            assert_eq!(answer.status, 200, "a hobd behind knows it: {}", answer.text());
            continue;
        }
        assert!(answer.status >= 400, "{field}: {}", answer.text());
        assert_eq!(answer.error()["param"].as_str().unwrap().split('[').next(), Some(field));
    }
    let mixed = json!({"prompt": ["Hi", 7], "n_predict": 4});
    let refused = front.call("POST", "/completion").json(&mixed).send();
    assert_eq!((refused.status, &refused.error()["code"]), (501, &json!("upstream")));
    let stranger = Client { token: "wrong".into(), ..front.clone() };
    assert_eq!(stranger.call("GET", "/v1/slots").send().status, 401, "the token comes first");
}

#[test]
fn a_private_chat_leaves_nothing_in_front_or_behind() {
    let world = World::new();
    let mut request = ask("Say this: secret");
    request["conversation"] = "diary".into();
    request["store"] = false.into();
    assert_eq!(text(&world.front().chat(&request)), "secret");
    let listed = world.front().get("/v1/conversations");
    assert_eq!(listed["data"][0]["private"], true, "{listed}");
    let mut unstored = ask("Say this: hidden");
    unstored["store"] = false.into();
    assert_eq!(text(&world.front().chat(&unstored)), "hidden");
    assert_eq!(world.front().get("/v1/conversations")["data"].as_array().map(Vec::len), Some(1));
    let slots = world.behind().get("/v1/slots");
    assert_eq!(slots["data"], json!([]), "{slots}");
}
