//! What clients of OpenAI's and of other servers send: spellings of paths and fields, connections that
//! outlive a refusal, and pages of other origins.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Call, Plan, TOKEN, World, text, user};

const CHAT: &str = "/v1/chat/completions";

/// A connection that a client uses for several requests.
struct Connection {
    reader: BufReader<TcpStream>,
    host: String,
}

/// An answer on it.
struct Reply {
    status: u16,
    closes: bool,
}

impl Connection {
    fn open(world: &World) -> Self {
        let socket = TcpStream::connect(world.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { reader: BufReader::new(socket), host: world.address.to_string() }
    }

    /// Sends the head, and the body a moment later, as Python's clients do.
    fn send(&mut self, method: &str, path: &str, headers: &str, body: &str) -> Reply {
        let (host, length) = (&self.host, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\n{headers}content-length: {length}\r\n\r\n"
        );
        let socket = self.reader.get_mut();
        socket.write_all(head.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        let _ = socket.write_all(body.as_bytes());
        self.read()
    }

    fn read(&mut self) -> Reply {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).expect("the connection is open").parse().unwrap();
        let (mut closes, mut bytes) = (false, 0);
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => bytes = value.parse().unwrap(),
                "connection" => closes = value == "close",
                _ => {}
            }
        }
        self.reader.read_exact(&mut vec![0; bytes]).unwrap();
        Reply { status, closes }
    }
}

fn bearer() -> String {
    format!("authorization: Bearer {TOKEN}\r\n")
}

#[test]
fn a_refused_request_leaves_its_connection_usable() {
    let world = World::new();
    let body = json!({"a": "x".repeat(40_000)}).to_string();
    let form = format!("{}content-type: audio/ogg\r\n", bearer());
    let foreign = format!("{}origin: http://evil.example\r\n", bearer());
    for (method, path, headers, status) in [
        ("POST", "/v1/nothing", &bearer(), 404),
        ("PUT", CHAT, &bearer(), 405),
        ("POST", CHAT, &String::new(), 401),
        ("POST", CHAT, &foreign, 403),
        ("POST", "/v1/voice/transcriptions", &form, 415),
        ("POST", "/app.js", &bearer(), 405),
    ] {
        let mut connection = Connection::open(&world);
        for _ in 0..2 {
            let refused = connection.send(method, path, headers, &body);
            assert_eq!((refused.status, refused.closes), (status, false), "{method} {path}");
        }
        let next = connection.send("GET", "/v1/models", &bearer(), "");
        assert_eq!(next.status, 200, "{method} {path}");
    }
}

#[test]
fn a_refusal_that_cannot_read_the_body_closes_its_connection() {
    let world = World::new();
    for (headers, bytes) in [
        ("content-length: 9999999\r\n", 100_000), // More than it reads in vain.
        ("content-length: 20\r\n", 5),            // The rest never comes.
        ("content-length: 20\r\nexpect: 100-continue\r\n", 0), // The client waits for the answer.
    ] {
        let mut connection = Connection::open(&world);
        let (host, token) = (&connection.host, bearer());
        let head = format!("POST /v1/nothing HTTP/1.1\r\nhost: {host}\r\n{token}{headers}\r\n");
        let socket = connection.reader.get_mut();
        socket.write_all(head.as_bytes()).unwrap();
        let _ = socket.write_all(&vec![b' '; bytes]);
        let refused = connection.read();
        assert_eq!((refused.status, refused.closes), (404, true), "{headers}");
    }
}

#[test]
fn a_path_may_lack_v1_end_with_a_slash_or_have_two() {
    let world = World::new();
    let body = json!({"messages": [user("Hi")], "max_tokens": 2});
    for path in [
        "/chat/completions",
        "/v1/chat/completions/",
        "//v1//chat/completions",
        "/v1/v1/chat/completions",
        "/v1/chat/completions/?api-version=1",
    ] {
        let answer = world.post(path, body.clone());
        assert_eq!((answer.status, &answer.json()["object"]), (200, &json!("chat.completion")));
    }
    let completion = json!({"model": "any", "prompt": "a"});
    assert_eq!(world.post("/completions", completion).json()["object"], "text_completion");
    assert_eq!(
        world.post("/embeddings", json!({"input": "a"})).error()["code"],
        "unsupported_model"
    );
    for path in ["/models", "/models/", "/models/fake", "/v1/models/", "/v1/health"] {
        assert_eq!(world.get(path).status, 200, "{path}");
    }
    let open = |path| Call::new(world.address, "GET", path).send().status;
    assert_eq!((open("//health/"), open("//v1/models/"), open("/")), (200, 401, 200));
}

#[test]
fn an_unknown_path_is_named_with_the_one_to_use() {
    let world = World::new();
    let refused = |path: &str| {
        let answer = world.post(path, json!({}));
        assert_eq!((answer.status, answer.error()["code"].as_str()), (404, Some("not_found")));
        answer.error()["message"].as_str().unwrap().to_owned()
    };
    let unknown = refused("/v1/nothing");
    assert!(unknown.contains("POST /v1/nothing") && unknown.contains("docs/HTTP.md"), "{unknown}");
    for (path, instead) in [
        ("/v1/engines/x/completions", "POST /v1/completions"),
        ("/openai/deployments/x/chat/completions", "POST /v1/chat/completions"),
        ("/llama/completion", "POST /completion"),
    ] {
        let message = refused(path);
        assert!(message.contains(path) && message.contains(instead), "{message}");
    }
    let long = refused(&format!("/{}", "x".repeat(9_000)));
    assert!(long.len() < 400, "{} bytes", long.len());
    let method = world.get(CHAT).error()["message"].clone();
    assert!(
        method.as_str().unwrap().contains("`/v1/chat/completions` does not take GET"),
        "{method}"
    );
}

#[test]
fn numbers_and_empty_fields_are_read_as_clients_write_them() {
    let world = World::new();
    let said = |extra: Value| {
        let mut body = json!({"messages": [user("Say this: abcdefghijkl")], "temperature": 0});
        for (name, value) in extra.as_object().unwrap() {
            body[name] = value.clone();
        }
        let answer = world.post(CHAT, body);
        assert_eq!(answer.status, 200, "{extra}: {}", answer.text());
        text(&answer.json())
    };
    let whole = "abcdefghijkl";
    for (extra, expected) in [
        (json!({"max_tokens": 3.0, "n": 1.0, "top_k": 0.0, "seed": 7.0}), "abc"),
        (json!({"n_predict": 3}), "abc"),
        (json!({"max_tokens": -1}), whole),
        (json!({"max_completion_tokens": -1, "n_predict": -1}), whole),
        (json!({"max_tokens": 3, "max_completion_tokens": -1}), "abc"),
        (json!({"seed": u64::MAX}), whole),
        (json!({"stop": ""}), whole),
        (json!({"stop": ["", "d"]}), "abc"),
        (json!({"logit_bias": [], "top_logprobs": 0}), whole),
        (json!({"functions": [], "function_call": "none"}), whole),
        (json!({"function_call": "auto", "tools": [], "tool_choice": "none"}), whole),
        (json!({"repetition_penalty": 1.1}), whole),
    ] {
        assert_eq!(said(extra.clone()), expected, "{extra}");
    }
    let wrong = world.post(CHAT, json!({"messages": [user("Hi")], "repetition_penalty": 0}));
    assert_eq!(wrong.error()["param"], "repetition_penalty");
    let completed = world.post("/v1/completions", json!({"prompt": [97.0, 98.0], "suffix": ""}));
    assert_eq!(completed.status, 200, "{}", completed.text());
    let ids = world.post("/detokenize", json!({"tokens": [97.0, 98.0]}));
    assert_eq!(ids.json()["content"], "ab");
}

#[test]
fn a_completion_without_a_limit_goes_on_to_its_end() {
    let world = Plan::new().context_tokens(256).start();
    let answer = world.post("/v1/completions", json!({"prompt": "a", "max_tokens": -1})).json();
    let (tokens, reason) =
        (&answer["usage"]["completion_tokens"], &answer["choices"][0]["finish_reason"]);
    assert!(*reason == "stop" || tokens.as_u64().unwrap() > 200, "{answer}");
    assert_eq!(answer["hob"]["context_full"], json!(*reason == "length"));
}

#[test]
fn a_body_of_json_may_have_any_content_type() {
    let world = World::new();
    let body = json!({"messages": [user("Hi")], "max_tokens": 2}).to_string();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "nonsense", ""] {
        let call = world.call("POST", CHAT).header("content-type", kind).body(body.clone());
        assert_eq!(call.send().status, 200, "{kind}");
    }
    let call = world.call("POST", CHAT).header("content-type", "text/plain").body("not JSON");
    assert_eq!(call.send().error()["code"], "unsupported_media_type");
}

#[test]
fn the_choices_of_a_seed_differ_and_repeat() {
    let world = World::new();
    let texts = || {
        let extra = json!({"n": 3, "seed": 1, "temperature": 1, "max_tokens": 12});
        let answer = world.chat(json!([user("Tell me something.")]), extra);
        let texts = answer["choices"].as_array().unwrap().iter();
        texts.map(|choice| choice["message"]["content"].clone()).collect::<Vec<_>>()
    };
    let first = texts();
    assert!(first[0] != first[1] && first[1] != first[2] && first[0] != first[2], "{first:?}");
    assert_eq!(texts(), first);
}

#[test]
fn an_overflow_is_told_in_the_words_that_clients_look_for() {
    let world = Plan::new().context_tokens(64).start();
    let error = world.post(CHAT, json!({"messages": [user(&"long ".repeat(50))]})).error();
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("This model's maximum context length is 64 tokens"), "{message}");
    assert!(message.contains("(context_length_exceeded)"), "{message}");
}

#[test]
fn the_model_says_how_much_a_conversation_holds() {
    let world = Plan::new().context_tokens(512).start();
    let model = world.get("/v1/models").json()["data"][0].clone();
    let holds = world.get("/v1/status").json()["conversation_tokens"].clone();
    assert_eq!((&model["max_model_len"], &model["context_length"]), (&holds, &holds));
    assert_eq!(world.get("/v1/models/fake").json(), model);
}

/// A browser's question before a request with these headers.
fn preflight(world: &World, origin: &str, headers: &str) -> crate::common::Answer {
    Call::new(world.address, "OPTIONS", CHAT)
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", headers)
        .send()
}

#[test]
fn a_page_may_send_the_headers_of_its_sdk() {
    let world = Plan::new().origin("https://app.example").start();
    let asked = "authorization,content-type,x-stainless-os,x-stainless-retry-count";
    let answer = preflight(&world, "https://app.example", asked);
    let allowed = answer.header("access-control-allow-headers").unwrap().to_owned();
    let allowed: Vec<&str> = allowed.split(',').map(str::trim).collect();
    for name in asked.split(',').chain(["x-session-id"]) {
        assert!(allowed.contains(&name), "{name} in {allowed:?}");
    }
    let refused = preflight(&world, "https://evil.example", asked);
    assert_eq!((refused.status, refused.header("access-control-allow-headers")), (403, None));
    let answer = world.call("GET", "/v1/models").header("origin", "https://app.example").send();
    assert_eq!(answer.header("access-control-expose-headers"), Some("retry-after"));
}

#[test]
fn an_origin_is_compared_as_browsers_write_it() {
    for (set, sent) in [
        ("file://", "file://"),
        ("https://App.Example/", "https://app.example"),
        ("VSCODE-WEBVIEW://Abc", "vscode-webview://abc"),
        ("null", "null"),
        ("*", "http://localhost:3000"),
    ] {
        let world = Plan::new().origin(set).start();
        let call = world.call("GET", "/v1/models").header("origin", sent);
        let answer = call.send();
        let allowed = answer.header("access-control-allow-origin");
        assert_eq!((answer.status, allowed), (200, Some(sent)), "{set}");
        let call = Call::new(world.address, "GET", "/v1/models").header("origin", sent);
        assert_eq!(call.send().status, 401, "{set}: the token is still needed");
    }
}

/// Routes whose answer may have a form; each has a field for JSON of a schema that takes the place of
/// `response_format`, or `None` where that is its name.
const FORMED: [(&str, Option<&str>); 7] = [
    (CHAT, None),
    ("/v1/completions", None),
    ("/completion", None),
    ("/v1/responses", Some("text.format")),
    ("/v1/messages", Some("output_config.format")),
    ("/api/chat", Some("format")),
    ("/api/generate", Some("format")),
];

/// A request of the route with these fields.
fn formed_body(path: &str, extra: &Value) -> Value {
    let messages = json!([user("Tell me something.")]);
    let prompt = "Something: ";
    let mut body = match path {
        "/v1/completions" => json!({"prompt": prompt, "max_tokens": 200, "seed": 3}),
        "/completion" => json!({"prompt": prompt, "n_predict": 200, "seed": 3}),
        "/v1/responses" => json!({"input": messages, "max_output_tokens": 200, "seed": 3}),
        "/api/chat" => json!({"messages": messages, "stream": false, "options": {"seed": 3}}),
        "/api/generate" => json!({"prompt": prompt, "stream": false, "options": {"seed": 3}}),
        _ => json!({"messages": messages, "max_tokens": 200, "seed": 3}),
    };
    for (name, value) in extra.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// The text of an answer, as its route has it.
fn formed_text(path: &str, answer: &Value) -> String {
    let place = match path {
        CHAT => "/choices/0/message/content",
        "/v1/completions" => "/choices/0/text",
        "/completion" => "/content",
        "/v1/responses" => "/output/0/content/0/text",
        "/v1/messages" => "/content/0/text",
        "/api/chat" => "/message/content",
        _ => "/response",
    };
    let text = answer.pointer(place).and_then(Value::as_str);
    text.unwrap_or_else(|| panic!("{path}: {answer}")).to_owned()
}

/// The texts of the answers of each route that has the fields.
fn formed(world: &World, extra: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    for (path, own) in FORMED {
        let answer = world.post(path, formed_body(path, extra));
        if let Some(own) = own.filter(|_| extra.get("response_format").is_some()) {
            let text = answer.text();
            assert_eq!(answer.status, 400, "{path} {extra}: {text}");
            assert!(text.contains("`response_format`") && text.contains(own), "{path}: {text}");
            continue;
        }
        assert_eq!(answer.status, 200, "{path} {extra}: {}", answer.text());
        texts.push(formed_text(path, &answer.json()));
    }
    texts
}

#[test]
fn a_form_is_followed_under_each_name() {
    let world = World::new();
    let schema = json!({
        "type": "object", "required": ["a"],
        "properties": {"a": {"type": "object", "properties": {"b": {"enum": [1, 2]}}, "required": ["b"]}},
    });
    for extra in [
        json!({"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}),
        json!({"response_format": {"type": "json_object", "schema": schema}}),
        json!({"json_schema": schema}),
        json!({"guided_json": schema}),
        json!({"structured_outputs": {"json": schema}}),
    ] {
        for text in formed(&world, &extra) {
            let value: Value =
                serde_json::from_str(&text).unwrap_or_else(|_| panic!("{extra}: {text}"));
            assert!(
                ["{\"a\":{\"b\":1}}", "{\"a\":{\"b\":2}}"].contains(&value.to_string().as_str())
            );
        }
    }
    for extra in [
        json!({"grammar": "root ::= \"yes\" | \"no\""}),
        json!({"guided_grammar": "root ::= word\nword ::= \"yes\" | \"no\""}),
        json!({"guided_choice": ["yes", "no"]}),
        json!({"guided_regex": "(yes|no)"}),
        json!({"regex": "(yes|no)"}),
        json!({"ebnf": "root ::= \"yes\" | \"no\""}),
        json!({"structured_outputs": {"choice": ["yes", "no"]}}),
    ] {
        let texts = formed(&world, &extra);
        assert!(texts.iter().all(|text| text == "yes" || text == "no"), "{extra}: {texts:?}");
    }
}

#[test]
fn a_form_that_cannot_be_followed_is_refused_by_name() {
    let world = World::new();
    let sets = json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true});
    let strict = json!({"type": "json_schema", "json_schema": {"schema": sets, "strict": true}});
    for (extra, param) in [
        (json!({"grammar": "root ::= missing"}), "grammar"),
        (json!({"grammar": "start: \"a\""}), "grammar"),
        (json!({"guided_regex": "("}), "guided_regex"),
        (json!({"guided_choice": []}), "guided_choice"),
        (json!({"json_schema": {"type": "strange"}}), "json_schema"),
        (
            json!({"structured_outputs": {"structural_tag": "x"}}),
            "structured_outputs.structural_tag",
        ),
        (json!({"response_format": strict}), "response_format.json_schema.schema"),
        (json!({"response_format": {"type": "json_object"}, "guided_regex": "a"}), "guided_regex"),
    ] {
        for (path, own) in FORMED {
            let answer = world.post(path, formed_body(path, &extra));
            let text = answer.text();
            assert_eq!(answer.status, 400, "{path} {extra}: {text}");
            let is_of_chats = own.is_some() && extra.get("response_format").is_some();
            let param = if is_of_chats { "response_format" } else { param };
            match path {
                // Their errors have nothing but a message.
                "/v1/messages" | "/api/chat" | "/api/generate" => {
                    assert!(text.contains(&format!("`{param}`")), "{path} {extra}: {text}");
                }
                _ => assert_eq!(answer.error()["param"], param, "{path} {extra}"),
            }
        }
    }
    let lenient =
        json!({"response_format": {"type": "json_schema", "json_schema": {"schema": sets}}});
    for text in formed(&world, &lenient) {
        assert!(serde_json::from_str::<Vec<i64>>(&text).is_ok(), "{text}");
    }
}

#[test]
fn a_protocols_own_form_is_the_only_one() {
    let world = World::new();
    let schema = json!({"enum": [1, 2]});
    let format = json!({"type": "json_schema", "name": "n", "schema": schema});
    for (path, own) in [
        ("/v1/responses", json!({"text": {"format": format}})),
        ("/v1/messages", json!({"output_config": {"format": format}})),
        ("/v1/messages", json!({"output_format": format})),
        ("/api/chat", json!({"format": {"type": "integer", "enum": [1, 2]}})),
        ("/api/generate", json!({"format": {"type": "integer", "enum": [1, 2]}})),
    ] {
        let answer = world.post(path, formed_body(path, &own));
        assert_eq!(answer.status, 200, "{own}: {}", answer.text());
        let text = formed_text(path, &answer.json());
        assert!(["1", "2"].contains(&text.as_str()), "{path} {own}: {text}");
        let mut both = own.clone();
        both["guided_regex"] = json!("a");
        let answer = world.post(path, formed_body(path, &both));
        assert_eq!(answer.status, 400, "{both}: {}", answer.text());
        assert!(answer.text().contains("`guided_regex`"), "{}", answer.text());
        let text_of_any_form = json!({"response_format": {"type": "text"}, "grammar": ""});
        assert_eq!(world.post(path, formed_body(path, &text_of_any_form)).status, 200);
    }
    let both = json!({"output_config": {"format": format}, "output_format": format});
    let answer = world.post("/v1/messages", formed_body("/v1/messages", &both));
    assert_eq!(answer.status, 400, "{}", answer.text());
    let of_an_object = json!({"text": {"format": {"type": "json_object", "schema": schema}}});
    let answer = world.post("/v1/responses", formed_body("/v1/responses", &of_an_object));
    let text = formed_text("/v1/responses", &answer.json());
    assert!(["1", "2"].contains(&text.as_str()), "{text}");
}

#[test]
fn no_effort_switches_reasoning_off() {
    const TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}\
        <|im_end|>\n{% endfor %}<|im_start|>assistant\n{% if reasoning_effort %}{{ reasoning_effort }}\n{% endif %}\
        {% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}";
    let world = Plan::new().chat_template(TEMPLATE).start();
    let ask = json!([user("Say this: Hm.</think>Yes.")]);
    for (fields, end) in [
        (json!({}), "assistant\n<think>\n"),
        (json!({"reasoning_effort": "low"}), "assistant\nlow\n<think>\n"),
        (json!({"reasoning_effort": "none"}), "assistant\n"),
        (
            json!({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": true}}),
            "assistant\n<think>\n",
        ),
    ] {
        let body = crate::common::chat_body(ask.clone(), fields.clone());
        let prompt = world.post("/apply-template", body).json()["prompt"].clone();
        assert!(prompt.as_str().unwrap().ends_with(end), "{fields}: {prompt}");
    }
    for (effort, reasons) in [("low", true), ("none", false)] {
        let chat = world.chat(ask.clone(), json!({"reasoning_effort": effort}));
        let thought = &chat["choices"][0]["message"]["reasoning_content"];
        assert_eq!(thought.is_string(), reasons, "{effort}: {chat}");
        let body = json!({"input": ask, "reasoning": {"effort": effort}, "temperature": 0});
        let answer = world.post("/v1/responses", body).json();
        let items = answer["output"].as_array().unwrap();
        let thought = items.iter().any(|item| item["type"] == "reasoning");
        assert_eq!(thought, reasons, "{effort}: {answer}");
    }
}

#[test]
fn an_answer_goes_on_with_the_last_message() {
    let world = World::new();
    let ask = user("Say this: One, two, three and four.");
    let body = |begun: &str, extra: Value| {
        let mut body = crate::common::chat_body(
            json!([ask, {"role": "assistant", "content": begun}]),
            json!({"continue_final_message": true, "max_tokens": 60}),
        );
        for (name, value) in extra.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };
    let whole = world.chat(json!([ask]), json!({"max_tokens": 60}));
    let prompt = world.post("/apply-template", body("One, two", json!({}))).json();
    assert!(prompt["prompt"].as_str().unwrap().ends_with("assistant\nOne, two"), "{prompt}");
    for (begun, rest) in [("One, two", ", three and four."), ("One, ", "two, three and four.")] {
        let answer = world.post(CHAT, body(begun, json!({}))).json();
        assert_eq!(text(&answer), rest);
        let prompt = |answer: &Value| answer["usage"]["prompt_tokens"].as_u64().unwrap();
        assert_eq!(prompt(&answer), prompt(&whole) + begun.len() as u64);
        let streamed = body(begun, json!({"stream": true}));
        let chunks = world.call("POST", CHAT).json(&streamed).stream().collect();
        let deltas = chunks.iter().filter_map(|c| c["choices"][0]["delta"]["content"].as_str());
        assert_eq!(deltas.collect::<String>(), rest);
    }
    for (extra, param) in [
        (json!({"conversation": "a"}), "continue_final_message"),
        (json!({"response_format": {"type": "json_object"}}), "response_format"),
        (json!({"messages": [ask]}), "continue_final_message"),
    ] {
        let refused = world.post(CHAT, body("One", extra.clone()));
        assert_eq!((refused.status, &refused.error()["param"]), (400, &json!(param)), "{extra}");
    }
}

#[test]
fn a_suffix_needs_a_model_with_marks_for_it() {
    let refused = World::new().post("/v1/completions", json!({"prompt": "a", "suffix": "c"}));
    assert_eq!((refused.status, &refused.error()["param"]), (400, &json!("suffix")));
    assert_eq!(refused.error()["code"], "unsupported_model");
}

#[test]
fn embeddings_take_many_texts_and_shorten_their_vectors() {
    let world = Plan::new().embeds().body_bytes(1 << 20).start();
    let many: Vec<String> = (0..2048).map(|n| format!("text {n}")).collect();
    let answer = world.post("/v1/embeddings", json!({"input": many}));
    assert_eq!(answer.json()["data"].as_array().map(Vec::len), Some(2048));
    let more: Vec<&str> = vec!["a"; 2049];
    let refused = world.post("/v1/embeddings", json!({"input": more})).error();
    assert_eq!(refused["param"], "input");
    assert!(refused["message"].as_str().unwrap().contains("2048"), "{refused}");

    let vector = |dimensions: Value| {
        let body = json!({"input": "several letters", "dimensions": dimensions});
        let answer = world.post("/v1/embeddings", body).json();
        let numbers = answer["data"][0]["embedding"].as_array().unwrap().clone();
        numbers.iter().map(|number| number.as_f64().unwrap()).collect::<Vec<_>>()
    };
    let (all, short) = (vector(Value::Null), vector(json!(3)));
    assert_eq!((all.len(), short.len()), (8, 3));
    assert!((short.iter().map(|n| n * n).sum::<f64>() - 1.0).abs() < 1e-5, "{short:?}");
    assert!((short[0] / short[1] - all[0] / all[1]).abs() < 1e-4, "{short:?} {all:?}");
    for wrong in [json!(9), json!(0)] {
        let refused = world.post("/v1/embeddings", json!({"input": "a", "dimensions": wrong}));
        assert_eq!(refused.error()["param"], "dimensions");
    }
}

#[test]
fn a_conversation_of_another_type_is_refused_on_every_route() {
    let world = World::new();
    for conversation in [json!(5), json!(["a"]), json!({"id": 5})] {
        for (path, mut body) in [
            (CHAT, json!({"messages": [user("Hi")]})),
            ("/v1/completions", json!({"prompt": "a"})),
            ("/v1/responses", json!({"input": "Hi"})),
            ("/v1/messages", json!({"messages": [user("Hi")], "max_tokens": 9})),
            ("/api/chat", json!({"model": "fake", "messages": [user("Hi")]})),
        ] {
            body["conversation"] = conversation.clone();
            let refused = world.post(path, body);
            assert_eq!(refused.status, 400, "{path} {conversation}");
            assert!(refused.text().contains("`conversation"), "{path}: {}", refused.text());
        }
    }
}
