//! Ollama's API beside chats: models, embeddings, `keep_alive`, errors, and access without the token.

use std::fs;
use std::thread;
use std::time::Duration;

use hob_testkit::{Client, Launch, wait};
use serde_json::{Value, json};

use crate::common::home::{HOUR, Home, MINUTE};
use crate::common::{Answer, Call, Plan, World, merged, user};
use crate::responses::{ROUTE, respond, text};

fn error(answer: &Answer) -> (u16, String) {
    let body = answer.json();
    let keys: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["error"], "{body}");
    (answer.status, body["error"].as_str().unwrap().to_owned())
}

#[test]
fn the_running_model_is_listed_with_a_tag_and_shown_with_and_without() {
    let world = World::new();
    let version = world.get("/api/version").json()["version"].as_str().unwrap().to_owned();
    let numbers: Vec<u32> = version.split('.').map(|part| part.parse().unwrap()).collect();
    assert!(numbers >= vec![0, 6, 4], "{version} is older than VS Code takes");
    assert!(numbers >= vec![0, 13, 4], "{version} is older than Codex takes");

    for path in ["/api/tags", "/api/ps"] {
        let list = world.get(path).json();
        let [model] = list["models"].as_array().unwrap().as_slice() else { panic!("{list}") };
        assert_eq!(
            (&model["name"], &model["model"]),
            (&json!("fake:latest"), &json!("fake:latest"))
        );
        assert_eq!(model["digest"], world.engine.fingerprint().to_string());
        assert_eq!(model["details"]["family"], "fake");
    }
    let running = &world.get("/api/ps").json()["models"][0];
    assert_eq!(running["context_length"], world.engine.conversation_tokens());
    assert!(running["expires_at"].as_str().unwrap() > "2100", "the weights stay: {running}");

    for body in [json!({"model": "fake"}), json!({"model": "fake:latest"}), json!({"name": "fake"})]
    {
        let shown = world.post("/api/show", body).json();
        assert_eq!(shown["capabilities"], json!(["completion", "tools"]));
        let context = &shown["model_info"]["fake.context_length"];
        assert_eq!(context, world.engine.conversation_tokens());
        assert!(shown["template"].as_str().unwrap().contains("<|im_start|>"));
    }
    let (status, message) = error(&world.post("/api/show", json!({"model": "llama3"})));
    assert!(status == 404 && message.contains("model 'llama3' not found"), "{message}");
    assert_eq!(error(&world.post("/api/show", json!({}))).0, 400);
}

#[test]
fn embeddings_are_those_of_openais_route() {
    let world = Plan::new().embeds().start();
    let expected = world.post("/v1/embeddings", json!({"input": "tea"})).json();
    let expected = &expected["data"][0]["embedding"];
    let both = world.post("/api/embed", json!({"model": "m", "input": ["tea", "milk"]})).json();
    let vectors = both["embeddings"].as_array().unwrap();
    assert_eq!((vectors.len(), &vectors[0]), (2, expected));
    assert_eq!(both["prompt_eval_count"], 7);
    assert!(both["total_duration"].as_u64() > Some(0));
    let one = world.post("/api/embed", json!({"input": "tea", "dimensions": 2})).json();
    assert_eq!(one["embeddings"][0].as_array().unwrap().len(), 2);
    let old = world.post("/api/embeddings", json!({"prompt": "tea"})).json();
    assert_eq!(&old["embedding"], expected);
    for (path, body, expected) in [
        ("/api/embed", json!({"input": []}), "embeddings"),
        ("/api/embed", json!({"input": ""}), "embeddings"),
        ("/api/embeddings", json!({"prompt": ""}), "embedding"),
    ] {
        assert_eq!(world.post(path, body).json()[expected], json!([]));
    }
    let (status, message) = error(&world.post("/api/embed", json!({"input": 1})));
    assert!(status == 400 && message.contains("`input`"), "{message}");
    let shown = world.post("/api/show", json!({"model": "fake"})).json();
    assert_eq!(shown["capabilities"], json!(["embedding"]));
    let (status, _) = error(&World::new().post("/api/embed", json!({"input": "tea"})));
    assert_eq!(status, 400, "a text model makes no embeddings");
}

#[test]
fn a_text_that_is_too_long_to_embed_is_cut_unless_the_request_wants_all_of_it() {
    let world = Plan::new().embeds().context_tokens(1024).start();
    let long = "tea ".repeat(1000);
    let whole = world.post("/api/embed", json!({"input": long[..1024], "truncate": false})).json();
    let cut = world.post("/api/embed", json!({"input": ["milk", long]})).json();
    assert_eq!(
        (&cut["embeddings"][1], &cut["prompt_eval_count"]),
        (&whole["embeddings"][0], &json!(1028))
    );
    let old = world.post("/api/embeddings", json!({"prompt": long})).json();
    assert_eq!(old["embedding"], whole["embeddings"][0]);
    let (status, message) =
        error(&world.post("/api/embed", json!({"input": long, "truncate": false})));
    assert!(status == 400 && message.contains("4000"), "{message}");
}

fn residency(client: &Client) -> Value {
    client.get("/v1/status")["residency"].clone()
}

#[test]
fn keep_alive_frees_the_weights_and_a_request_loads_them() {
    let home = Home::on_fake();
    let hobd = home.start();
    let client = &hobd.client;
    let chat = |keep_alive: Value| {
        let messages = json!([user("Say this: Hi")]);
        let body = json!({"messages": messages, "stream": false, "keep_alive": keep_alive});
        client.post("/api/chat", &body)
    };
    let until = |wanted: &str| {
        wait::until(wanted, || (residency(client) == wanted).then_some(()));
    };
    chat(json!(0));
    until("unloaded");
    assert_eq!(client.get("/api/ps")["models"], json!([]));
    let reloaded = chat(json!("10m"));
    assert!(reloaded["load_duration"].as_u64() > Some(0), "{reloaded}");
    let expires = || client.get("/api/ps")["models"][0]["expires_at"].clone();
    wait::until("the time is told", || (expires().as_str()? < "2100").then_some(()));
    home.pass(9 * MINUTE);
    assert_eq!(residency(client), "resident");
    wait::until("the weights are unloaded", || {
        home.pass(MINUTE);
        (residency(client) == "unloaded").then_some(())
    });

    let empty = |path: &str, body: Value| client.post(path, &body);
    let loaded = empty("/api/generate", json!({"model": "fake"}));
    assert_eq!((&loaded["done"], &loaded["done_reason"]), (&json!(true), &json!("load")));
    assert_eq!((residency(client), &loaded["response"]), (json!("resident"), &json!("")));
    assert!(loaded["load_duration"].as_u64() > Some(0), "{loaded}");
    let unloaded = empty("/api/chat", json!({"messages": [], "keep_alive": 0}));
    assert_eq!(
        (&unloaded["done_reason"], residency(client)),
        (&json!("unload"), json!("unloaded"))
    );
    assert_eq!(unloaded["message"], json!({"role": "assistant", "content": ""}));
    // Clients stop an embedding model by its own route.
    let freed = empty("/api/embed", json!({"input": [], "keep_alive": 0}));
    assert_eq!((&freed["load_duration"], residency(client)), (&json!(0), json!("unloaded")));
    // For ever, then as the settings say, which is for ever too.
    chat(json!(-1));
    chat(Value::Null);
    home.pass(HOUR);
    assert_eq!(residency(client), "resident");
}

#[test]
fn what_cannot_be_done_is_refused_by_name() {
    let world = World::new();
    let chat = |extra: Value| {
        let body = json!({"messages": [user("Hi")], "stream": false});
        error(&world.post("/api/chat", merged(body, &extra)))
    };
    let image = json!([{"role": "user", "content": "look", "images": ["aGk="]}]);
    let tool = json!([{"type": "function", "function": {"name": "a b"}}]);
    for (extra, named) in [
        (json!({"messages": image}), "`messages[0].images`"),
        (json!({"messages": [{"role": "user"}]}), "`messages[0].content`"),
        (json!({"messages": "Hi"}), "`messages`"),
        (json!({"options": {"temperature": 9}}), "`options.temperature`"),
        (json!({"options": {"stop": [1]}}), "`options.stop`"),
        (json!({"format": "xml"}), "`format`"),
        (json!({"format": {"type": 1}}), "`format`"),
        (json!({"think": "much"}), "`think`"),
        (json!({"keep_alive": "soon"}), "`keep_alive`"),
        (json!({"hob": {"ttl": "x"}}), "ttl"),
        (json!({"tools": tool}), "a tool's name"),
    ] {
        let (status, message) = chat(extra.clone());
        assert!(status == 400 && message.contains(named), "{extra}: {status} {message}");
    }
    let generate = |extra: Value| {
        let body = json!({"prompt": "Hi", "stream": false});
        error(&world.post("/api/generate", merged(body, &extra)))
    };
    for (extra, named) in [
        (json!({"template": "{{ .Prompt }}"}), "`template`"),
        (json!({"context": [1, 2]}), "`context`"),
        (json!({"images": ["aGk="]}), "`images`"),
        (json!({"suffix": "}"}), "`suffix`"),
        (json!({"raw": true, "system": "x"}), "`system`"),
        (json!({"prompt": 1}), "`prompt`"),
    ] {
        let (status, message) = generate(extra.clone());
        assert!(status == 400 && message.contains(named), "{extra}: {status} {message}");
    }
}

#[test]
fn every_error_has_ollamas_shape() {
    let world = World::new();
    let keyless = Call::new(world.address, "GET", "/api/tags").send();
    assert_eq!(keyless.header("www-authenticate"), Some("Bearer"));
    assert_eq!(error(&keyless).0, 401);
    let foreign = world.call("GET", "/api/tags").header("host", "evil.example").send();
    assert_eq!(error(&foreign).0, 403);
    let origin = world.call("GET", "/api/tags").header("origin", "http://evil.example").send();
    assert_eq!(error(&origin).0, 403);
    let unknown = error(&world.get("/api/nothing"));
    assert!(unknown.0 == 404 && unknown.1.contains("/api/nothing"), "{}", unknown.1);
    let compressed = world.call("GET", "/api/nothing").header("accept-encoding", "gzip").send();
    assert_eq!((error(&compressed).0, compressed.header("content-encoding")), (404, None));
    assert_eq!(error(&world.get("/api/chat")).0, 405);
    // The limit is for this request alone: the others may take longer.
    let brief = Plan::new().body_time(Duration::from_millis(300)).start();
    let slow = brief.call("POST", "/api/chat").header("content-length", "20").send();
    assert_eq!(error(&slow).0, 408);
    let large = json!({"messages": [user(&"x".repeat(100 << 10))]});
    assert_eq!(error(&world.post("/api/chat", large)).0, 413);
    let text = world.call("POST", "/api/chat").body("words").send();
    assert_eq!(error(&text).0, 400);
    for (method, path) in [
        ("POST", "/api/pull"),
        ("POST", "/api/create"),
        ("DELETE", "/api/delete"),
        ("POST", "/api/copy"),
        ("POST", "/api/push"),
        ("POST", "/api/blobs/sha256:00"),
    ] {
        let (status, message) =
            error(&world.call(method, path).json(&json!({"model": "x"})).send());
        assert!(status == 501 && message.starts_with("hobd "), "{path}: {message}");
    }
    assert_eq!(world.get("/v1/nothing").error()["code"], "not_found", "others keep theirs");
}

#[test]
fn a_prompt_that_is_too_long_is_refused_before_its_stream_begins() {
    let world = Plan::new().context_tokens(64).start();
    let mut body = json!({"messages": [user(&"x".repeat(200))]});
    let (status, message) = error(&world.post("/api/chat", body.clone()));
    assert!(status == 400 && message.contains("maximum context length"), "{message}");
    body["stream"] = false.into();
    assert_eq!(error(&world.post("/api/chat", body)), (400, message));
}

#[test]
fn an_error_ends_a_stream_as_a_line() {
    let world = World::new();
    let body = json!({"messages": [user(&format!("Say this slowly: {}", "a".repeat(2_000)))]});
    let call = world.call("POST", "/api/chat").json(&body);
    let answer = thread::spawn(move || call.send());
    world.until("it answers", |world| world.status().counters.generated_tokens > 3);
    world.engine.shutdown();
    let answer = answer.join().unwrap();
    let last: Value = serde_json::from_str(answer.text().lines().last().unwrap()).unwrap();
    assert!(answer.status == 200 && last["error"].is_string(), "{}", answer.text());
}

#[test]
fn without_the_token_only_programs_of_this_machine_reach_only_the_routes_of_ollamas_server() {
    let world = Plan::new().opens_ollama().origin("*").start();
    let call = |method: &str, path: &str| Call::new(world.address, method, path);
    assert_eq!(call("GET", "/api/tags").send().status, 200);
    let hello = json!({"messages": [user("Say this: Hi")], "stream": false});
    let answered = call("POST", "/api/chat").json(&hello).send();
    assert_eq!(answered.json()["message"]["content"], "Hi");
    // Clients send any token that they are given.
    let any = call("GET", "/api/tags").header("authorization", "Bearer ollama").send();
    assert_eq!(any.status, 200);
    for path in ["/v1/models/local", "/v1/conversations", "/v1/status", "/metrics"] {
        assert_eq!(call("GET", path).send().status, 401, "{path}");
    }
    // Many have Ollama's address and no key, or one that cannot be changed, and speak OpenAI's API.
    let openais = |path: &str, body: &Value| {
        call("POST", path).header("authorization", "Bearer ollama").json(body).send()
    };
    let said = openais("/v1/chat/completions", &hello).json();
    assert_eq!(said["choices"][0]["message"]["content"], "Hi");
    assert_eq!(call("GET", "/v1/models").send().status, 200);
    assert_eq!(openais("/v1/completions", &json!({"prompt": "a"})).status, 200);
    let embedded = openais("/v1/embeddings", &json!({"input": "a"}));
    assert_eq!(embedded.error()["code"], "unsupported_model");
    for path in ["/v1/responses", "/v1/messages", "/v1/prewarm", "/v1/models/switch"] {
        assert_eq!(openais(path, &hello).status, 401, "{path}");
    }
    for (name, value) in [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("x-forwarded-for", "10.0.0.7"),
        ("forwarded", "for=10.0.0.7"),
    ] {
        let answer = call("POST", "/api/chat").header(name, value).json(&hello).send();
        assert_eq!(error(&answer).0, 401, "{name}");
    }
    let rebound = call("GET", "/api/tags").header("host", "evil.example").send();
    assert_eq!(error(&rebound).0, 403);
    // Stored text is for those who have the token.
    world.chat(json!([user("My locker code is 48213.")]), json!({"conversation": "room"}));
    let mut stored = hello.clone();
    stored["hob"] = json!({"append": true});
    for (name, value) in [("conversation", "room"), ("promptCacheKey", "conv:room")] {
        let mut body = stored.clone();
        body[name] = value.into();
        assert_eq!(error(&call("POST", "/api/chat").json(&body).send()).0, 401, "{name}");
        assert_eq!(openais("/v1/chat/completions", &body).status, 401, "{name}");
    }
    let document = json!({"role": "user", "content": "Hi", "hob": {"documents": ["a"]}});
    for (name, value) in
        [("hob", json!({"profile": "clerk"})), ("messages", json!([user("Hi"), document]))]
    {
        let mut body = stored.clone();
        body[name] = value;
        assert_eq!(openais("/v1/chat/completions", &body).status, 401, "{name}");
    }
    let session = call("POST", "/api/chat").header("x-session-id", "room").json(&hello).send();
    assert_eq!(error(&session).0, 401);
}

#[test]
fn without_the_token_a_response_is_answered_that_stores_and_names_nothing() {
    let world = Plan::new().opens_ollama().start();
    let ask = |body: &Value| {
        let call = Call::new(world.address, "POST", ROUTE).header("authorization", "Bearer ollama");
        call.json(body).send()
    };
    // As Codex asks: the key is a hint and names no conversation.
    let body = json!({
        "input": [user("Say this: Hi")], "store": false, "temperature": 0, "prompt_cache_key": "0a1b",
        "include": ["reasoning.encrypted_content"],
    });
    let said = ask(&body).json();
    assert_eq!(text(&said), "Hi");
    let streamed = ask(&merged(body.clone(), &json!({"stream": true})));
    assert!(streamed.status == 200 && streamed.text().contains("response.completed"));

    let stored = respond(&world, json!({"input": "My locker code is 48213."}));
    let id = stored["id"].as_str().unwrap();
    let item = &stored["output"][0]["id"];
    for (field, value) in [
        ("store", json!(true)),
        ("store", Value::Null),
        ("previous_response_id", json!(id)),
        ("conversation", json!("room")),
        ("input", json!([{"type": "item_reference", "id": item}])),
        ("input", json!([{"id": item}])),
        ("input", json!([{"role": "user", "content": "Hi", "hob": {"documents": ["a"]}}])),
        ("hob", json!({"profile": "clerk"})),
    ] {
        let mut body = body.clone();
        body[field] = value;
        let refused = ask(&body);
        let error = refused.error();
        assert_eq!((refused.status, &error["code"]), (401, &json!("missing_token")), "{field}");
        assert!(error["param"].as_str().unwrap().starts_with(field), "{error}");
        assert!(error["message"].as_str().unwrap().contains("token"), "{error}");
    }
    let session = Call::new(world.address, "POST", ROUTE).header("x-session-id", "room");
    assert_eq!(session.json(&body).send().status, 401);
    for path in [format!("{ROUTE}/{id}"), format!("{ROUTE}/{id}/input_items")] {
        assert_eq!(Call::new(world.address, "GET", &path).send().status, 401, "{path}");
    }
    let counted = Call::new(world.address, "POST", "/v1/responses/input_tokens").json(&body);
    assert_eq!(counted.send().status, 401);
}

#[test]
fn the_setting_is_off_and_needs_a_loopback_address() {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--model", "fake"]);
    let open = launch.clone().args(["--allow-without-token", "ollama"]);
    {
        let hobd = open.start();
        let call = Call::new(hobd.client.address, "GET", "/api/tags");
        assert_eq!(call.send().status, 200);
        assert!(open.log().contains("without the token"), "{}", open.log());
    }
    fs::remove_file(directory.path().join("log")).unwrap();
    let everywhere = open.clone().listen("0.0.0.0:0".parse().unwrap());
    assert!(everywhere.spawn().ready().is_none(), "it is refused");
    let said = everywhere.log();
    assert!(said.contains("allow_without_token") && said.contains("loopback"), "{said}");
    let closed = launch.start();
    assert_eq!(Call::new(closed.client.address, "GET", "/api/tags").send().status, 401);
}

#[test]
fn programs_are_greeted_where_browsers_get_the_page() {
    let world = World::new();
    let at_root = |method: &str, accept: Option<&str>| {
        let call = Call::new(world.address, method, "/");
        let call = match accept {
            Some(accept) => call.header("accept", accept),
            None => call,
        };
        let answer = call.send();
        assert_eq!(answer.status, 200);
        answer.text()
    };
    assert_eq!(at_root("GET", Some("*/*")), "Ollama is running");
    assert_eq!(at_root("GET", Some("application/json")), "Ollama is running");
    assert!(at_root("GET", None).contains("<!doctype html>"));
    assert!(at_root("GET", Some("text/html,*/*;q=0.8")).contains("<!doctype html>"));
    assert_eq!(at_root("HEAD", Some("*/*")), "");
}
