//! What users write appears in no log, no metric, no status, no title of a process or thread and no error: 64 canaries
//! in every field that takes text and in names of files, of every protocol and of a WebSocket, given to the built hobd
//! with its whole log.
//!
//! - `files`: imports and sound.
//! - `elsewhere`: an agent of the device bridge, the shared tier, an engine at another address.

mod elsewhere;
mod files;

use std::fs;
use std::net::TcpStream;
use std::path::Path;

use hob_testkit::wait::PATIENCE;
use hob_testkit::{Answer, Hobd, Launch};
use serde_json::{Value, json};
use tungstenite::Message;
use tungstenite::client::IntoClientRequest;

use crate::common::merged;

const COUNT: usize = 64;

/// The number `at`, as a word that no component makes of its own.
fn canary(at: usize) -> String {
    format!("Zqx{at:02}canary{}", at * 7_919)
}

/// Gives out one canary after the other.
struct Flock(usize);

impl Flock {
    fn next(&mut self) -> String {
        self.0 += 1;
        canary(self.0 % COUNT)
    }

    /// Messages with tools, names and documents.
    fn request(&mut self) -> Value {
        let arguments = json!({ self.next(): self.next() }).to_string();
        let call = json!({"id": "c1", "type": "function",
            "function": {"name": self.next(), "arguments": arguments}});
        let properties = json!({self.next(): {"type": "string", "description": self.next()}});
        json!({
            "messages": [
                {"role": "system", "content": self.next()},
                {"role": "user", "content": self.next(), "name": self.next()},
                {"role": "assistant", "content": self.next(), "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": self.next()},
                {"role": "user", "content": format!("Say this: {} {}", self.next(), self.next())},
            ],
            "tools": [{"type": "function", "function": {
                "name": self.next(), "description": self.next(),
                "parameters": {"type": "object", "properties": properties},
            }}],
            "max_tokens": 24, "stop": [self.next()], "user": self.next(), "metadata": {"a": self.next()},
        })
    }
}

fn found(text: &str) -> Vec<String> {
    (0..COUNT).map(canary).filter(|canary| text.contains(canary)).collect()
}

fn expect_none(what: &str, text: &str) {
    let found = found(text);
    assert!(found.is_empty(), "{what} has {found:?}:\n{text}");
}

/// Refusals, each without a canary.
#[derive(Default)]
struct Refusals(Vec<String>);

impl Refusals {
    fn add(&mut self, what: &str, answer: &Answer) {
        let text = answer.text();
        let is_refusal = matches!(answer.status, 400..=499 | 501 | 503);
        assert!(is_refusal, "{what}: {}: {text}", answer.status);
        self.0.extend((!found(&text).is_empty()).then(|| format!("{what}: {text}")));
    }

    fn expect_none(self) {
        assert!(self.0.is_empty(), "{}", self.0.join("\n"));
    }
}

fn launch(directory: &Path) -> Launch {
    let arguments = ["--model", "fake", "--log", "trace", "--voice-command", "off"];
    Launch::new(env!("CARGO_BIN_EXE_hobd"), directory).args(arguments)
}

fn succeeds(answer: Answer) -> Answer {
    assert!(answer.status < 300, "{}: {}", answer.status, answer.text());
    answer
}

/// Ends hobd. What everyone on the machine may read, and what an operator reads, has no canary.
fn expect_none_outside(launch: &Launch, mut hobd: Hobd) {
    for path in ["/metrics", "/v1/status", "/v1/memory", "/v1/settings"] {
        expect_none(path, &hobd.client.call("GET", path).send().text());
    }
    expect_none("a title", &titles(hobd.process.id()).unwrap());
    hobd.process.terminate(PATIENCE);
    let log = launch.log();
    assert!(log.contains("TRACE") || log.contains("DEBUG"), "it is the whole log: {log}");
    expect_none("the log", &log);
}

/// The command lines of the process and of its children, and the names of its threads, as `ps` shows them.
fn titles(pid: u32) -> std::io::Result<String> {
    let process = format!("/proc/{pid}");
    let mut titles = fs::read_to_string(format!("{process}/cmdline"))?;
    for task in fs::read_dir(format!("{process}/task"))? {
        let task = task?.path();
        titles += &fs::read_to_string(task.join("comm")).unwrap_or_default(); // It may have ended.
        let children = fs::read_to_string(task.join("children")).unwrap_or_default();
        titles.extend(children.split_whitespace().map(titles_of));
    }
    Ok(titles)
}

/// Empty for a child that has ended meanwhile.
fn titles_of(child: &str) -> String {
    child.parse().ok().and_then(|pid| titles(pid).ok()).unwrap_or_default()
}

#[test]
fn what_users_write_is_in_no_log_metric_status_or_error() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path());
    let hobd = launch.start();
    let mut flock = Flock(0);
    let post = |path: &str, body: &Value| hobd.client.call("POST", path).json(body).send();
    let mut refusals = Refusals::default();
    let mut is_refused = |what: &str, answer: Answer| refusals.add(what, &answer);

    // Everything works, in a conversation and without one.
    let chat = "/v1/chat/completions";
    let mut heard = String::new();
    for fields in [
        json!({}),
        json!({"conversation": "a", "hob": {"append": true}}),
        json!({"conversation": "b", "hob": {"private": true, "append": true}}),
        json!({"stream": true}),
        json!({"response_format": {"type": "json_object"}}),
    ] {
        heard += &succeeds(post(chat, &merged(flock.request(), &fields))).text();
    }
    assert!(!found(&heard).is_empty(), "the answers repeat canaries: {heard}");
    succeeds(post("/v1/completions", &json!({"prompt": flock.next(), "max_tokens": 4})));
    succeeds(post("/tokenize", &json!({"content": flock.next()})));
    let file = |name: String, bytes: &[u8]| {
        let path = format!("/v1/documents?name={name}");
        hobd.client.call("POST", &path).body(bytes).send()
    };
    let text = flock.next();
    succeeds(file(flock.next() + ".txt", text.as_bytes()));
    let title = json!({"title": flock.next()});
    succeeds(hobd.client.call("PATCH", "/v1/conversations/a").json(&title).send());
    succeeds(hobd.client.call("GET", &format!("/v1/conversations?q={}", flock.next())).send());
    for (path, body) in other_protocols(&mut flock) {
        succeeds(post(path, &body));
    }
    // It names a conversation, as `conversation` does: the status shows both.
    succeeds(post("/slots/3?action=save", &json!({"filename": "saved"})));
    succeeds(post("/slots/3?action=erase", &json!({})));
    let spoken = speak(&hobd, &mut flock);
    assert!(spoken.errors.len() > 2 && spoken.has_answer, "{:?}", spoken.errors);
    expect_none("an error of a WebSocket", &spoken.errors.join("\n"));
    let typed = json!({"transcript": flock.next(), "text": flock.next(), "messages": []});
    post("/v1/conversations/a/typing", &typed);
    post("/v1/conversations/a/transcript", &typed);

    // Everything is refused, by the place of what is wrong and not by its text.
    let unknown_role = json!({"messages": [{"role": "poet", "content": flock.next()}]});
    is_refused("an unknown role", post(chat, &unknown_role));
    let part = json!({"type": "poem", "text": flock.next()});
    let part = json!({"messages": [{"role": "user", "content": [part]}]});
    is_refused("an unknown part", post(chat, &part));
    for (field, value) in [
        ("temperature", json!(flock.next())),
        ("tool_choice", json!({"type": "function", "function": {"name": flock.next()}})),
        ("response_format", json!({"type": "poem", "text": flock.next()})),
        ("stop", json!([[flock.next()]])),
        (
            "tools",
            json!([{"type": "function", "function": {"name": flock.next(), "parameters": flock.next()}}]),
        ),
        ("hob", json!({"poem": flock.next()})),
    ] {
        is_refused(field, post(chat, &merged(flock.request(), &json!({ field: value }))));
    }
    let poet = |flock: &mut Flock| json!([{"role": "poet", "content": flock.next()}]);
    for (path, body) in [
        ("/v1/messages", json!({"max_tokens": 8, "messages": poet(&mut flock)})),
        ("/v1/messages", json!({"max_tokens": flock.next(), "messages": []})),
        ("/v1/responses", json!({"input": poet(&mut flock)})),
        (
            "/v1/responses",
            json!({"input": [{"type": "function_call_output", "output": flock.next()}]}),
        ),
        (
            "/v1/responses",
            json!({"input": "a", "text": {"format": {"type": "poem", "name": flock.next()}}}),
        ),
        ("/api/chat", json!({"model": "any", "messages": poet(&mut flock)})),
        ("/api/generate", json!({"model": "any", "prompt": [flock.next()]})),
        ("/api/generate", json!({"model": "any", "prompt": "a", "format": flock.next()})),
        ("/v1/embeddings", json!({"input": {"text": flock.next()}})),
        ("/completion", json!({"prompt": {"text": flock.next()}})),
        ("/completion", json!({"prompt": [1, {"prompt_string": [flock.next()]}]})),
        ("/completion", json!({"prompt": flock.next(), "n_predict": flock.next()})),
        ("/completion", json!({"prompt": flock.next().repeat(90_000)})),
        (
            "/infill",
            json!({
                "input_prefix": flock.next(), "input_suffix": flock.next(), "prompt": flock.next(),
                "input_extra": [{"filename": flock.next(), "text": flock.next()}],
            }),
        ),
        (
            "/infill",
            json!({
                "input_prefix": "a", "input_suffix": "b",
                "input_extra": [{"filename": [flock.next()], "text": flock.next()}],
            }),
        ),
        ("/rerank", json!({"query": flock.next(), "documents": [flock.next(), flock.next()]})),
        ("/v1/rerank", json!({"query": [flock.next()], "documents": [flock.next()]})),
        ("/rerank", json!({"query": flock.next(), "texts": [[flock.next()]]})),
        ("/embedding", json!({"content": flock.next()})),
        ("/apply-template", json!({"messages": poet(&mut flock)})),
        ("/detokenize", json!({"tokens": flock.next()})),
        ("/slots/3?action=restore", json!({"filename": flock.next()})),
        ("/slots/3?action=save", json!({"filename": format!("../{}", flock.next())})),
        ("/slots/3?action=save", json!({"filename": [flock.next()]})),
        ("/v1/profiles/check", json!({"segments": flock.next()})),
        ("/v1/profiles/check", json!({"segments": [flock.next()]})),
        ("/v1/profiles/check", json!({"segments": [{"layer": "rules", "stable": flock.next()}]})),
        ("/v1/verify/correctness", json!({"prompts": [poet(&mut flock)]})),
        ("/v1/verify/correctness", json!({"prompts": [{"messages": poet(&mut flock)}]})),
        (
            "/v1/verify/correctness",
            json!({"prompts": ["a"], "sources": [{"messages": [{"role": "user", "content": [flock.next()]}]}]}),
        ),
    ] {
        is_refused(path, post(path, &body));
    }
    let long = json!({"messages": [{"role": "user", "content": flock.next().repeat(90_000)}]});
    is_refused("a prompt that is too long", post(chat, &long));
    let broken = format!("{{\"messages\": [{{\"content\": \"{}\"", flock.next());
    is_refused("broken JSON", hobd.client.call("POST", chat).body(broken).send());
    is_refused("a broken document", file(flock.next() + ".pdf", b"%PDF-1.4 broken"));
    is_refused("a file that is no text", file(flock.next() + ".txt", &[0xff, 0x00, 0xfe]));
    refusals.expect_none();
    // A form is quoted to the client that demands it, and in no log.
    for form in [
        json!({"grammar": format!("root ::= {}", flock.next())}),
        json!({"regex": format!("({}", flock.next())}),
        json!({"json_schema": {"type": flock.next()}}),
    ] {
        let answer = post("/completion", &merged(json!({"prompt": flock.next()}), &form));
        assert_eq!(answer.status, 400, "{}", answer.text());
    }
    expect_none_outside(&launch, hobd);
    assert!(flock.0 > COUNT, "every canary was used");
}

#[test]
fn the_names_and_schemas_of_tools_are_in_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path());
    let hobd = launch.start();
    let mut flock = Flock(0);
    let mut refusals = Refusals::default();
    let tool = |name: &str, parameters: Value| {
        let function = json!({"name": name, "parameters": parameters, "strict": true});
        json!({"type": "function", "function": function})
    };
    let named = |name: String| json!({"type": "function", "function": {"name": name}});
    let object = json!({"type": "object"});
    let name = flock.next();
    let twice = json!([tool(&name, object.clone()), tool(&name, object.clone())]);
    let mut cases = vec![("a tool twice", json!({"tools": twice}))];
    for (what, choice) in [
        ("a choice by the name alone", json!(flock.next())),
        ("a choice of another tool", named(flock.next())),
        ("a choice of another type", json!({"type": flock.next()})),
        (
            "allowed tools",
            json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named(flock.next())]}}),
        ),
        (
            "a mode",
            json!({"type": "allowed_tools", "allowed_tools": {"mode": flock.next(), "tools": [named("f".into())]}}),
        ),
    ] {
        cases.push((what, json!({"tools": [tool("f", object.clone())], "tool_choice": choice})));
    }
    for (what, parameters) in [
        ("a type", json!({"type": flock.next()})),
        ("a pattern", json!({"type": "string", "pattern": format!("({}", flock.next())})),
        ("a format", json!({"type": "string", "format": flock.next()})),
        ("a reference", json!({"$ref": format!("#/$defs/{}", flock.next())})),
        ("a keyword", json!({"not": {"const": flock.next()}})),
        (
            "a required property",
            json!({"type": "object", "required": [flock.next()],
            "additionalProperties": false}),
        ),
        ("no value", json!({"allOf": [{"const": flock.next()}, {"const": flock.next()}]})),
    ] {
        let parameters = json!({"type": "object", "properties": {flock.next(): parameters}});
        cases.push((
            what,
            json!({"tools": [tool(&flock.next(), parameters)], "tool_choice": "required"}),
        ));
    }
    let mut refused = 0;
    for (what, fields) in cases {
        let body = merged(
            json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}),
            &fields,
        );
        let answer = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
        if answer.status == 200 {
            continue; // Followed.
        }
        refused += 1;
        refusals.add(what, &answer);
    }
    assert!(refused > 8, "{refused} were refused");
    refusals.expect_none();
    expect_none_outside(&launch, hobd);
}

/// Chats as other protocols have them.
fn other_protocols(flock: &mut Flock) -> Vec<(&'static str, Value)> {
    let parameters = |flock: &mut Flock| json!({"type": "object", "properties": {flock.next(): {"type": "string", "description": flock.next()}}});
    let say = |flock: &mut Flock| {
        let text = format!("Say this: {}", flock.next());
        json!([{"role": "user", "content": text}])
    };
    vec![
        (
            "/v1/messages",
            json!({
                "system": flock.next(), "messages": say(flock), "max_tokens": 24,
                "metadata": {"user_id": flock.next()}, "stop_sequences": [flock.next()],
                "tools": [{"name": flock.next(), "description": flock.next(), "input_schema": parameters(flock)}],
            }),
        ),
        ("/v1/messages/count_tokens", json!({"messages": say(flock), "system": flock.next()})),
        (
            "/v1/responses",
            json!({
                "instructions": flock.next(), "input": say(flock), "max_output_tokens": 24, "user": flock.next(),
                "metadata": {"a": flock.next()}, "safety_identifier": flock.next(),
                "tools": [{
                    "type": "function", "name": flock.next(), "description": flock.next(),
                    "parameters": parameters(flock),
                }],
            }),
        ),
        ("/v1/responses", json!({"input": say(flock), "store": false, "stream": true})),
        (
            "/api/chat",
            json!({"model": flock.next(), "messages": say(flock), "options": {"stop": [flock.next()]}}),
        ),
        (
            "/api/generate",
            json!({
                "model": "any", "prompt": flock.next(), "system": flock.next(), "stream": false,
                "options": {"num_predict": 8},
            }),
        ),
        (
            "/completion",
            json!({
                "prompt": [flock.next(), {"prompt_string": flock.next()}], "n_predict": 8, "id_slot": 3,
                "stop": [flock.next()], "grammar": format!("root ::= \"{}\"", flock.next()),
            }),
        ),
        ("/completion", json!({"prompt": flock.next(), "n_predict": 8, "id_slot": 3})),
        ("/apply-template", json!({"messages": say(flock)})),
        (
            "/v1/verify/correctness",
            json!({
                "prompts": [flock.next(), {"messages": say(flock)}], "sources": [{"messages": say(flock)}],
                "max_tokens": 4,
            }),
        ),
    ]
}

/// What a WebSocket sent.
struct Spoken {
    errors: Vec<String>,
    has_answer: bool,
}

/// An utterance, and messages that are wrong.
fn speak(hobd: &Hobd, flock: &mut Flock) -> Spoken {
    let url = format!("ws://{}/v1/realtime/events", hobd.client.address);
    let mut request = url.into_client_request().unwrap();
    let bearer = format!("Bearer {}", hobd.client.token).parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    let stream = TcpStream::connect(hobd.client.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut socket, _) = tungstenite::client(request, stream).unwrap();
    let transcription = "conversation.item.input_audio_transcription";
    for event in [
        json!({"type": "input_audio_buffer.append", "audio": flock.next() + "!"}),
        json!({"type": "session.update", "session": {"conversation": [flock.next()]}}),
        json!({"type": [flock.next()]}),
        json!({"type": "session.update", "session": {
            "conversation": "spoken", "max_tokens": 24, "user": flock.next(),
            "messages": [{"role": "system", "content": flock.next()}],
        }}),
        json!({"type": "input_audio_buffer.speech_started"}),
        json!({"type": format!("{transcription}.delta"), "transcript": flock.next()}),
        json!({"type": format!("{transcription}.completed"), "transcript": [flock.next()]}),
        json!({"type": format!("{transcription}.completed"), "transcript": format!("Say this: {}", flock.next())}),
        json!({"type": "input_audio_buffer.speech_stopped"}),
    ] {
        socket.send(Message::text(event.to_string())).unwrap();
    }
    socket.send(Message::text(format!("{{\"type\": \"{}", flock.next()))).unwrap();
    let (mut errors, mut has_answer, mut is_done) = (Vec::new(), false, false);
    // The broken one is answered last, or before the answer.
    while !is_done || errors.len() < 5 {
        let Message::Text(text) = socket.read().unwrap() else { continue };
        let event: Value = serde_json::from_str(&text).unwrap();
        match event["type"].as_str().unwrap() {
            "error" => errors.push(text.to_string()),
            "response.output_text.delta" => has_answer = true,
            "response.done" => is_done = true,
            _ => {}
        }
    }
    Spoken { errors, has_answer }
}
