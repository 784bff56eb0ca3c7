//! What an engine of each kind is told, and what its errors become.

use std::io::Write;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use hob_testkit::Hobd;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::engine::{Engine, ReceivedRequest, Script, read, said};
use super::{ask, chunks, front, streamed, text, user};

pub(super) const CHAT: &str = "/v1/chat/completions";

pub(super) struct World {
    pub engine: Engine,
    pub front: Hobd,
    pub _directory: TempDir,
}

impl World {
    pub fn of(owner: &'static str) -> Self {
        Self::with(owner, &[])
    }

    fn with(owner: &'static str, arguments: &[&str]) -> Self {
        let (engine, directory) = (Engine::start(owner), TempDir::new().unwrap());
        let front = front(directory.path(), &engine.url()).args(arguments.iter().copied()).start();
        Self { engine, front, _directory: directory }
    }

    /// What the engine gets of this chat.
    fn asked(&self, request: &Value) -> ReceivedRequest {
        self.front.client.chat(request);
        self.engine.last(CHAT)
    }

    /// The status and the error of a chat that is refused.
    fn refused(&self) -> (u16, Value) {
        let refused = self.front.client.call("POST", CHAT).json(&ask("Hi")).send();
        let error = refused.json()["error"].clone();
        assert!(error["message"].as_str().unwrap().contains(&self.engine.url()), "{error}");
        (refused.status, error)
    }
}

fn in_conversation(name: &str) -> Value {
    let mut request = ask("Hi");
    request["conversation"] = name.into();
    request
}

#[test]
fn vllm_gets_a_session_and_a_salt_for_what_is_private() {
    let world = World::of("vllm");
    let mut request = in_conversation("diary");
    request["model"] = "second".into();
    request["min_tokens"] = 3.into();
    request["seed"] = (-1).into();
    request["repeat_penalty"] = 1.5.into();
    let asked = world.asked(&request);
    assert_eq!(asked.body["model"], "second");
    assert_eq!(asked.body["messages"], json!([user("Hi")]));
    assert_eq!(asked.body["min_tokens"], 3, "a field of the engine goes on");
    assert_eq!(asked.body["seed"], Value::Null, "-1 is none");
    assert_eq!(asked.body["repetition_penalty"], 1.5);
    assert_eq!(asked.body["cache_salt"], Value::Null);
    let session = asked.header("x-session-id").unwrap().to_owned();
    assert!(!asked.body.to_string().contains("diary") && !asked.headers.contains("diary"));
    assert_eq!(world.asked(&request).header("x-session-id"), Some(&*session), "the same each time");
    assert_ne!(world.asked(&in_conversation("other")).header("x-session-id"), Some(&*session));

    let mut private = ask("Hi");
    private["model"] = "gpt-4o".into();
    private["hob"] = json!({"private": true});
    let salts = [world.asked(&private), world.asked(&private)];
    assert_eq!(salts[0].body["model"], "first", "an unknown name is that of the first");
    assert_ne!(salts[0].body["cache_salt"], salts[1].body["cache_salt"]);
    assert!(salts[0].body["cache_salt"].as_str().unwrap().len() == 32);

    for (field, value) in [("grammar", json!("root ::= \"a\"")), ("t_max_predict_ms", json!(500))] {
        let mut request = ask("Hi");
        request[field] = value;
        let refused = world.front.client.call("POST", CHAT).json(&request).send();
        assert_eq!((refused.status, &refused.error()["param"]), (400, &json!(field)));
    }
    let schema = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {}}});
    let mut form = ask("Hi");
    form["response_format"] = schema.clone();
    assert_eq!(world.asked(&form).body["response_format"], schema);
}

#[test]
fn sglang_gets_a_routing_key_and_llama_server_no_slot_to_wait_for() {
    let sglang = World::of("sglang").asked(&in_conversation("talk"));
    assert!(sglang.header("x-smg-routing-key").is_some() && sglang.body["id_slot"].is_null());
    let world = World::of("llamacpp");
    let first = world.asked(&in_conversation("talk"));
    assert_eq!(first.body["cache_prompt"], true);
    assert_eq!(first.body["id_slot"], Value::Null, "it chooses a free one by the common beginning");
}

#[test]
fn an_engine_is_told_of_a_prompt_without_a_key_too_that_its_kv_stays_in_memory() {
    let mut request = ask("Hi");
    request["prompt_cache_retention"] = "in_memory".into();
    let asked = World::of("hob").asked(&request).body;
    assert_eq!(
        asked["prompt_cache_retention"], "in_memory",
        "it would learn the prompt's beginning"
    );
    assert_eq!(World::of("openai").asked(&request).body["store"], false);
}

#[test]
fn an_engines_stream_is_read_as_it_writes_it() {
    let world = World::of("vllm");
    let answer = world.front.client.chat(&ask("Hi"));
    assert_eq!(text(&answer), "Hello");
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
    let call = |delta: Value| json!({"choices": [{"index": 0, "delta": {"tool_calls": [delta]}}]});
    world.engine.answers(Script::Whole(vec![
        json!({"choices": [{"index": 0, "delta": {"reasoning": "Hm."}}]}),
        call(json!({"index": 0, "id": "c1", "type": "function",
            "function": {"name": "lamp", "arguments": ""}})),
        call(json!({"index": 0, "function": {"arguments": "{\"on\": "}})),
        call(json!({"index": 0, "function": {"arguments": "true}"}})),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
    ]));
    let answer = world.front.client.chat(&in_conversation("home"));
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "Hm.");
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{\"on\": true}");
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
    let stored = world.front.client.get("/v1/conversations/home");
    assert_eq!(stored["messages"][1]["tool_calls"][0]["id"], "c1");
    world.engine.answers(said("Streamed"));
    assert_eq!(streamed(&chunks(&world.front.client, &ask("Hi"))), "Streamed");
}

#[test]
fn an_answer_whose_rest_the_engine_withholds_is_complete_in_no_protocol() {
    let world = World::of("vllm");
    let choice =
        json!({"index": 0, "delta": {"content": "Hel"}, "finish_reason": "content_filter"});
    let cut = json!({"choices": [choice]});
    world.engine.answers(Script::Whole(vec![cut.clone()]));
    let message = world.front.client.post("/v1/messages", &ask("Hi"));
    assert_eq!(message["stop_reason"], "refusal", "{message}");
    world.engine.answers(Script::Whole(vec![cut]));
    let response = world.front.client.post("/v1/responses", &json!({"input": "Hi"}));
    let why = &response["incomplete_details"]["reason"];
    assert_eq!((&response["status"], why), (&json!("incomplete"), &json!("content_filter")));
    let id = response["id"].as_str().unwrap();
    let stored = world.front.client.get(&format!("/v1/responses/{id}"));
    assert_eq!(stored["incomplete_details"], response["incomplete_details"], "{stored}");
}

#[test]
fn an_answer_that_its_limit_cut_says_so_although_the_engine_counts_no_tokens() {
    let world = World::of("vllm");
    let cut = |choice: usize| json!({"choices": [{"index": choice, "delta": {"content": "Hel"}, "finish_reason": "length"}]});
    world.engine.answers(Script::Whole(vec![cut(0)]));
    let mut body = ask("Hi");
    body["max_tokens"] = 2.into();
    let message = world.front.client.post("/v1/messages", &body);
    assert_eq!(message["stop_reason"], "max_tokens", "{message}");
    // Of several answers an engine counts the sum alone.
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 4});
    world.engine.answers(Script::Whole(vec![
        cut(0),
        cut(1),
        json!({"choices": [], "usage": usage}),
    ]));
    body["n"] = 2.into();
    let answer = world.front.client.chat(&body);
    assert_eq!(answer["choices"][1]["finish_reason"], "length");
    assert_eq!(answer["hob"]["context_full"], false, "{answer}");
}

#[test]
fn an_answer_that_goes_on_keeps_the_reasoning_and_the_calls_of_its_first_part() {
    let world = World::of("vllm");
    let delta = |delta: Value, reason: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    let call = json!({"index": 0, "id": "c1", "type": "function",
        "function": {"name": "lamp", "arguments": "{}"}});
    world.engine.answers(Script::Whole(vec![
        delta(json!({"reasoning": "Hm."}), Value::Null),
        delta(json!({"content": "One"}), Value::Null),
        delta(json!({"tool_calls": [call]}), json!("length")),
    ]));
    world.front.client.chat(&in_conversation("cut"));
    let stored = || world.front.client.get("/v1/conversations/cut")["messages"][1].clone();
    let check = |message: &Value, content: &str| {
        assert_eq!(message["content"], content, "{message}");
        assert_eq!(message["reasoning_content"], "Hm.", "{message}");
        assert_eq!(message["tool_calls"][0]["id"], "c1", "{message}");
    };
    check(&stored(), "One");
    let rest = json!({"conversation": "cut", "messages": [],
        "hob": {"append": true, "continue": true}});
    let failure = json!({"error": {"message": "oom", "code": 500}});
    world.engine.answers(Script::Whole(vec![failure]));
    assert_eq!(world.front.client.call("POST", CHAT).json(&rest).send().status, 502);
    check(&stored(), "One");
    world.engine.answers(Script::Whole(vec![delta(json!({"content": " two"}), json!("stop"))]));
    let answer = world.front.client.chat(&rest);
    check(&answer["choices"][0]["message"], "One two");
    check(&stored(), "One two");
}

#[test]
fn a_call_that_was_cut_goes_back_with_arguments_that_an_engine_can_read() {
    let world = World::of("vllm");
    let cut = r#"{"room": "ha"#;
    let call = json!({"index": 0, "id": "c1", "function": {"name": "lamp", "arguments": cut}});
    let choice = json!({"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "length"});
    world.engine.answers(Script::Whole(vec![json!({"choices": [choice]})]));
    world.front.client.chat(&in_conversation("home"));
    world.engine.answers(said("Hello"));
    let mut next = in_conversation("home");
    next["hob"] = json!({"append": true});
    let sent = world.asked(&next).body["messages"][1]["tool_calls"][0].clone();
    assert_eq!((&sent["id"], &sent["function"]["arguments"]), (&json!("c1"), &json!("{}")));
    let stored = world.front.client.get("/v1/conversations/home")["messages"][1].clone();
    assert_eq!(stored["tool_calls"][0]["function"]["arguments"], cut);
}

/// SGLang writes null where OpenAI leaves a field out.
#[test]
fn a_call_is_one_in_each_protocol_where_an_engine_writes_its_missing_fields() {
    let world = World::of("sglang");
    let piece = |id: Value, name: Value, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        let call = json!({"index": 0, "id": id, "type": "function", "function": function});
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    };
    world.engine.answers(Script::Whole(vec![
        piece(json!("c1"), json!("lamp"), ""),
        piece(Value::Null, Value::Null, "{\"on\": "),
        piece(Value::Null, Value::Null, "true}"),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
    ]));
    let lines = world.front.client.call("POST", "/api/chat").json(&ask("Hi")).send().text();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let calls = lines.filter_map(|line| line["message"]["tool_calls"].as_array().cloned());
    let calls: Vec<Value> = calls.flatten().collect();
    let function = json!({"index": 0, "name": "lamp", "arguments": {"on": true}});
    assert_eq!(calls, [json!({"id": "c1", "function": function})]);

    let mut body = ask("Hi");
    body["max_tokens"] = 20.into();
    body["stream"] = true.into();
    let mut stream = world.front.client.call("POST", "/v1/messages").json(&body).stream();
    let mut events = Vec::new();
    while let Some((_, event)) = stream.next_named() {
        events.push(event);
    }
    let begun = events.iter().filter(|event| event["type"] == "content_block_start").count();
    let input = events.iter().filter_map(|event| event["delta"]["partial_json"].as_str());
    assert_eq!((begun, input.collect::<String>().as_str()), (1, "{\"on\": true}"), "{events:?}");
}

#[test]
fn an_engine_that_fails_is_named_with_what_can_be_done() {
    let world = World::of("vllm");
    for (script, status, code) in [
        (Script::Status(401, json!({"error": "no"})), 502, "upstream_token"),
        (Script::Status(429, json!({"error": {"message": "later"}})), 503, "upstream_busy"),
        (Script::Status(500, json!({"error": {"message": "oh"}})), 502, "upstream_failed"),
        (Script::Status(400, json!({"error": {"message": "no"}})), 400, "upstream_refused"),
        (
            Script::Status(400, json!({"error": {"message": "maximum context length is 9"}})),
            400,
            "context_length_exceeded",
        ),
        (Script::Events(Vec::new()), 502, "upstream_broken"),
        (
            Script::Events(vec![json!({"choices": [{"index": 0, "delta": {"content": "a"}}]})]),
            502,
            "upstream_broken",
        ),
        (
            Script::Events(vec![json!({"error": {"message": "oom", "code": 500}})]),
            502,
            "upstream_failed",
        ),
        (Script::Status(200, json!({"choices": []})), 502, "upstream_foreign"),
    ] {
        world.engine.answers(script.clone());
        let (found, error) = world.refused();
        assert_eq!((found, &error["code"]), (status, &json!(code)), "{script:?}: {error}");
    }
    world.engine.answers(said("Again"));
    assert_eq!(text(&world.front.client.chat(&ask("Hi"))), "Again");

    // The limit is for this engine alone: the other one may take longer.
    let silent = World::with("vllm", &["--upstream-timeout-secs", "1"]);
    silent.engine.answers(Script::Silence);
    let (status, error) = silent.refused();
    assert_eq!((status, &error["code"]), (502, &json!("upstream_timeout")), "{error}");
}

#[test]
fn a_client_of_a_busy_engine_is_told_when_to_come_again() {
    let world = World::of("vllm");
    for retry_after in ["30", "Wed, 21 Oct 2026 07:28:00 GMT"] {
        world.engine.answers(Script::Busy(retry_after));
        for (path, status) in [(CHAT, 503), ("/v1/messages", 529)] {
            let mut body = ask("Hi");
            body["stream"] = true.into();
            let refused = world.front.client.call("POST", path).json(&body).send();
            assert_eq!(refused.status, status, "{path}: {}", refused.text());
            assert_eq!(refused.header("retry-after"), Some(retry_after), "{path}");
        }
    }
    world.engine.answers(Script::Status(429, json!({"error": {"message": "later"}})));
    let refused = world.front.client.call("POST", CHAT).json(&ask("Hi")).send();
    assert_eq!(refused.header("retry-after"), Some("1"), "it does not say when");
}

#[test]
fn an_engine_that_gives_fewer_answers_than_it_was_asked_for_is_named() {
    let world = World::of("vllm");
    let mut two = ask("Hi");
    two["n"] = 2.into();
    for streams in [false, true] {
        two["stream"] = streams.into();
        let answer = world.front.client.call("POST", CHAT).json(&two).send();
        let text = answer.text();
        assert_eq!(answer.status, if streams { 200 } else { 502 }, "{text}");
        assert!(text.contains("gave 1 of 2 answers"), "{text}");
        assert!(text.contains("\"upstream_foreign\""), "{text}");
    }
}

#[test]
fn a_response_has_its_id_before_the_engine_says_anything() {
    let world = World::of("vllm");
    world.engine.answers(Script::Silence);
    let body = json!({"conversation": "talk", "input": "Hi", "stream": true});
    let mut stream = world.front.client.call("POST", "/v1/responses").json(&body).stream();
    let (name, event) = stream.next_named().unwrap();
    assert_eq!(
        (name.as_str(), &event["response"]["id"]),
        ("response.created", &json!("resp_2_talk"))
    );
}

#[test]
fn an_engine_gets_no_answer_that_broke_off_before_its_first_word() {
    let world = World::of("vllm");
    let failure = json!({"error": {"message": "oom", "code": 500}});
    world.engine.answers(Script::Whole(vec![failure]));
    let asked = world.front.client.call("POST", CHAT).json(&in_conversation("talk")).send();
    assert_eq!(asked.status, 502, "{}", asked.text());
    world.engine.answers(said("Hello"));
    let next = json!({"conversation": "talk", "hob": {"append": true}, "messages": [user("Bye")]});
    let asked = world.asked(&next).body;
    assert_eq!(asked["messages"], json!([user("Hi\n\nBye")]), "no two questions stand in a row");
    let stored = world.front.client.get("/v1/conversations/talk");
    assert_eq!(stored["messages"].as_array().unwrap().len(), 4, "{stored}");
    // Questions that the client itself puts in a row stay as they are, as do those of two persons.
    let said =
        |name: &str, content: &str| json!({"role": "user", "name": name, "content": content});
    let silence = json!({"role": "assistant", "content": ""});
    let messages =
        [user("a"), user("b"), silence.clone(), said("Ann", "c"), silence, said("Bo", "d")];
    let asked = world.asked(&json!({"messages": messages})).body["messages"].clone();
    assert_eq!(asked, json!([user("a"), user("b"), said("Ann", "c"), said("Bo", "d")]));
}

/// The address of an engine whose first connection ends with the second request, without an answer, as those of an
/// engine that was restarted do.
fn closes_a_connection() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for (connection, socket) in listener.incoming().enumerate() {
            let mut socket = socket.unwrap();
            thread::spawn(move || {
                let mut requests = 0;
                while let Some(asked) = read(&socket) {
                    requests += 1;
                    if connection == 0 && requests == 2 {
                        return;
                    }
                    let events = json!({"choices": [{"index": 0, "delta": {"content": "Again"},
                        "finish_reason": "stop"}]});
                    let (kind, body) = match asked.path.as_str() {
                        "/v1/models" => {
                            ("application/json", json!({"data": [{"id": "m"}]}).to_string())
                        }
                        _ => ("text/event-stream", format!("data: {events}\n\ndata: [DONE]\n\n")),
                    };
                    let length = body.len();
                    let head = format!("content-type: {kind}\r\ncontent-length: {length}");
                    write!(socket, "HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}").unwrap();
                }
            });
        }
    });
    url
}

#[test]
fn a_request_on_a_connection_that_the_engine_has_closed_is_sent_once_more() {
    // A connection that ends later than this has failed in the request, which is not sent again.
    const AT_ONCE: Duration = Duration::from_millis(500);
    let are_all_answered = || {
        let directory = TempDir::new().unwrap();
        let front = front(directory.path(), &closes_a_connection()).start();
        (0..3).all(|_| {
            let began = Instant::now();
            let answer = front.client.call("POST", CHAT).json(&ask("Hi")).send();
            if answer.status == 502 && began.elapsed() >= AT_ONCE {
                return false;
            }
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(text(&answer.json()), "Again");
            true
        })
    };
    assert!((0..5).any(|_| are_all_answered()), "each time, the engine took too long");
}

#[test]
fn vectors_and_scores_come_from_the_engine() {
    let world = World::of("vllm");
    let vectors = json!({"data": [{"embedding": [0.5, 1.0]}], "usage": {"prompt_tokens": 3}});
    world.engine.answers(Script::Status(200, vectors));
    let answer = world.front.client.post("/v1/embeddings", &json!({"input": "a"}));
    assert_eq!(answer["data"][0]["embedding"], json!([0.5, 1.0]));
    assert_eq!(world.engine.last("/v1/embeddings").body["input"], json!(["a"]));
    let scores = json!({"results": [{"index": 1, "relevance_score": 2.0},
        {"index": 0, "relevance_score": -1.0}]});
    world.engine.answers(Script::Status(200, scores));
    let body = json!({"query": "q", "documents": ["a", "b"]});
    let ranked = world.front.client.post("/v1/rerank", &body);
    assert_eq!(
        (&ranked["results"][0]["index"], &ranked["results"][1]["index"]),
        (&json!(1), &json!(0))
    );
    world.engine.answers(Script::Status(200, json!({"data": []})));
    let refused = world.front.client.call("POST", "/v1/embeddings").json(&json!({"input": "a"}));
    assert_eq!(refused.send().error()["code"], "upstream_foreign");
}
