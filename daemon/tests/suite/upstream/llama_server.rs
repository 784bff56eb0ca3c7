//! A real llama-server behind hobd, with the bundled model, where `cargo xtask peer` has built it. Elsewhere each test
//! says that it is skipped, and the summary of `cargo xtask test` says `NOT CHECKED`.

use std::fs;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hob_testkit::client::Event;
use hob_testkit::{Call, Client, Hobd, Process, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{ask, chunks, first_words, front, streamed, text, user};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/peer/build/bin/llama-server");
const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../assets/hob-tiny-f16.gguf");
/// Of each slot.
const CONTEXT: u64 = 2048;
const SLOTS: u64 = 4;

struct World {
    engine: Engine,
    front: Hobd,
    _directory: TempDir,
}

impl World {
    /// `None`: there is no llama-server.
    fn start() -> Option<Self> {
        if !Path::new(PROGRAM).is_file() {
            // Past the test harness, which shows nothing that a passed test prints.
            let remedy = "`cargo xtask peer` builds it";
            writeln!(io::stderr(), "hobd in front of llama-server ... skipped: {remedy}").ok();
            return None;
        }
        let directory = TempDir::new().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let engine = Engine::start(address, directory.path().join("engine.log"));
        let front = front(directory.path(), &engine.url()).start();
        Some(Self { engine, front, _directory: directory })
    }

    fn client(&self) -> &Client {
        &self.front.client
    }
}

struct Engine {
    address: SocketAddr,
    log: PathBuf,
    process: Process,
}

impl Engine {
    /// Waits until it has loaded the model.
    fn start(address: SocketAddr, log: PathBuf) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["--model", MODEL, "--threads", "1", "--jinja", "--no-warmup"]);
        command.args(["--host", "127.0.0.1", "--port", &address.port().to_string()]);
        command.args(["--parallel", &SLOTS.to_string()]);
        command.args(["--ctx-size", &(SLOTS * CONTEXT).to_string()]);
        let file = fs::File::options().create(true).append(true).open(&log).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let mut process = Process::start(&mut command);
        wait::until("llama-server has loaded the model", || {
            let log = || fs::read_to_string(&log).unwrap_or_default();
            assert!(process.is_running(), "llama-server ended: {}", log());
            let health = Call::new(address, "GET", "/health").try_send().ok()?;
            (health.status == 200).then_some(())
        });
        Self { address, log, process }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn kill(&mut self) {
        self.process.kill();
    }

    fn restart(&mut self) {
        *self = Self::start(self.address, self.log.clone());
    }
}

fn cached(answer: &Value) -> u64 {
    answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

fn prompt(answer: &Value) -> u64 {
    answer["usage"]["prompt_tokens"].as_u64().unwrap()
}

/// An answer that llama-server writes until `tokens` are there.
fn endless(conversation: &str, tokens: u64) -> Value {
    json!({"conversation": conversation, "hob": {"append": true}, "messages": [user("Hello!")],
        "ignore_eos": true, "temperature": 0, "max_tokens": tokens})
}

#[test]
fn each_turn_of_a_conversation_finds_the_turns_before_it_cached() {
    let Some(world) = World::start() else { return };
    let client = world.client();
    assert_eq!(client.get("/v1/status")["upstream"]["engine"], "llama-server");
    let first = client.say("talk", "My locker code is 48213.");
    let second = client.say("talk", "My favorite color is teal.");
    let third = client.say("talk", "What is my locker code?");
    assert!(text(&third).contains("48213"), "it has read all turns: {third}");
    assert!(cached(&second) >= prompt(&first), "{second}");
    assert!(cached(&third) >= prompt(&second), "{third}");
    assert!(prompt(&third) - cached(&third) < prompt(&third) / 2, "{third}");
    // The engine alone, asked with the same messages, says the same.
    let stored = client.get("/v1/conversations/talk")["messages"].clone();
    let sent: Vec<Value> = stored.as_array().unwrap()[..5]
        .iter()
        .map(|message| json!({"role": message["role"], "content": message["content"]}))
        .collect();
    let direct = Call::new(world.engine.address, "POST", "/v1/chat/completions");
    let direct = direct.json(&json!({"messages": sent, "temperature": 0})).send().json();
    assert_eq!((text(&third), prompt(&third)), (text(&direct), prompt(&direct)));
}

/// `harbour` and `garden` have the same `derive_slot_id` of four, and so do `attic` and `cellar`.
#[test]
fn conversations_are_answered_side_by_side_while_slots_are_free() {
    let Some(world) = World::start() else { return };
    let began = Instant::now();
    let run = |name: &str| -> (Duration, Duration) {
        let mut first = None;
        for event in world.client().events(&{
            let mut request = endless(name, 1000);
            request["stream"] = true.into();
            request
        }) {
            if let Event::Data(chunk) = event {
                assert!(chunk.get("error").is_none(), "{name}: {chunk}");
                let has_text = chunk["choices"][0]["delta"]["content"].as_str() > Some("");
                first = first.or(has_text.then(|| began.elapsed()));
            }
        }
        (first.expect("it has answered"), began.elapsed())
    };
    let times: Vec<(Duration, Duration)> = std::thread::scope(|scope| {
        let names = ["harbour", "garden", "attic", "cellar"];
        let threads = names.map(|name| scope.spawn(move || run(name)));
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let last_begun = times.iter().map(|(first, _)| first).max();
    let first_ended = times.iter().map(|(_, end)| end).min();
    assert!(last_begun < first_ended, "one has waited for another's end: {times:?}");
}

#[test]
fn a_stream_and_a_tool_come_through() {
    let Some(world) = World::start() else { return };
    let client = world.client();
    let request = ask("What is 3 plus 4?");
    let whole = client.chat(&request);
    let pieces = chunks(client, &request);
    assert_eq!(streamed(&pieces), text(&whole));
    assert!(pieces.len() > 4, "{pieces:?}");
    assert_eq!(pieces.last().unwrap()["usage"]["prompt_tokens"], whole["usage"]["prompt_tokens"]);

    let parameters = json!({"type": "object", "required": ["room", "state"], "properties":
        {"room": {"enum": ["kitchen", "hall"]}, "state": {"enum": ["on", "off"]}}});
    let tools = json!([{"type": "function", "function": {"name": "set_light",
        "description": "Switches a light.", "parameters": parameters}}]);
    let called = client.chat(&json!({"conversation": "home", "hob": {"append": true},
        "messages": [user("Turn on the kitchen light.")], "tools": tools.clone(),
        "tool_choice": "required", "temperature": 0}));
    assert_eq!(called["choices"][0]["finish_reason"], "tool_calls", "{called}");
    let call = &called["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(call["function"]["name"], "set_light");
    let arguments: Value =
        serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
    let is_of = |name: &str, values: [&str; 2]| values.iter().any(|it| arguments[name] == *it);
    assert!(is_of("room", ["kitchen", "hall"]) && is_of("state", ["on", "off"]), "{arguments}");
    let result = json!({"role": "tool", "tool_call_id": call["id"], "content": "done"});
    let after = client.chat(&json!({"conversation": "home", "hob": {"append": true},
        "messages": [result], "tools": tools, "temperature": 0, "max_tokens": 40}));
    assert!(prompt(&after) > prompt(&called), "it has read the call and its result: {after}");
    assert!(cached(&after) > prompt(&called) / 2, "{after}");
    let stored = client.get("/v1/conversations/home");
    assert_eq!(stored["messages"][1]["tool_calls"][0]["id"], call["id"]);
}

#[test]
fn a_prompt_that_is_too_long_is_refused_with_its_size() {
    let Some(world) = World::start() else { return };
    let long = "The harbour was quiet until the evening tide came in. ".repeat(400);
    let refused = world.client().call("POST", "/v1/chat/completions").json(&ask(&long)).send();
    assert_eq!(refused.status, 400, "{}", refused.text());
    let error = refused.error();
    assert_eq!(error["code"], "context_length_exceeded", "{error}");
    assert_eq!(error["n_ctx"], CONTEXT, "{error}");
    assert!(error["n_prompt_tokens"].as_u64() > Some(CONTEXT), "{error}");
    assert!(error["message"].as_str().unwrap().contains(&world.engine.url()), "{error}");
    assert!(
        !text(&world.client().chat(&ask("What is 3 plus 4?"))).is_empty(),
        "the next one is answered"
    );
}

#[test]
fn a_server_that_is_killed_within_an_answer_leaves_the_text_and_is_used_when_it_is_back() {
    let Some(mut world) = World::start() else { return };
    let known = world.front.client.say("talk", "My locker code is 48213.");
    assert!(!text(&known).is_empty());
    let mut request = endless("talk", 1500);
    request["stream"] = true.into();
    let mut events = world.front.client.events(&request);
    let mut said = first_words(&mut events);
    world.engine.kill();
    let mut error = None;
    for event in events {
        let Event::Data(chunk) = event else { continue };
        said.push_str(chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
        error = chunk.get("error").cloned().or(error);
    }
    let (error, url) = (error.expect("the stream says why it ends"), world.engine.url());
    assert_eq!(error["code"], "upstream_broken");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&url) && message.contains("ask again"), "{message}");
    let stored = world.client().get("/v1/conversations/talk");
    assert_eq!(stored["messages"][3]["content"], said, "what came is stored");

    let refused = world.client().call("POST", "/v1/chat/completions").json(&ask("Hi")).send();
    assert_eq!((refused.status, &refused.error()["code"]), (502, &json!("upstream_unreachable")));
    assert_eq!(world.client().call("GET", "/health").send().status, 503);

    world.engine.restart();
    assert_eq!(world.client().call("GET", "/health").send().status, 200);
    let answer = world.client().say("talk", "What is my locker code?");
    assert!(prompt(&answer) > prompt(&known) + said.len() as u64 / 8, "all turns: {answer}");
    let stored = world.client().get("/v1/conversations/talk");
    assert_eq!(stored["messages"].as_array().unwrap().len(), 6);
}
