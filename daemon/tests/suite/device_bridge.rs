//! elizaOS's device bridge: a hobd that dials an agent's WebSocket, and messages as the agent's `DeviceBridge`
//! writes them.

use std::net::{TcpListener, TcpStream};
use std::path::Path;

use hob_testkit::{Hobd, Launch, Process, Signal, wait};
use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::handshake::server::{Request, Response};
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Message, WebSocket, accept_hdr};

use crate::common::socket::next_message;

const TOKEN: &str = "pair me";

/// The agent's side.
struct Agent {
    listener: TcpListener,
}

/// A device that has dialled it.
struct Device {
    socket: WebSocket<TcpStream>,
    /// The payload of its registration.
    registration: Value,
}

impl Agent {
    fn listen() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").unwrap() }
    }

    fn start(&self, directory: &Path, model: &str) -> Hobd {
        let token = directory.join("pairing");
        std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
        let url = format!("http://{}", self.listener.local_addr().unwrap());
        let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
        let launch = launch.args(["--model", model, "--threads", "1", "--ctx", "2048"]);
        let launch = launch.args(["--device-bridge", &url]);
        launch.args(["--device-bridge-token-file".into(), token.into_os_string()]).start()
    }

    /// Waits until a device dials and registers.
    #[expect(clippy::result_large_err, reason = "the library's callback")]
    fn accept(&self) -> Device {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(wait::PATIENCE)).unwrap();
        let check = |request: &Request, response: Response| {
            assert_eq!(request.uri().path(), "/api/local-inference/device-bridge");
            assert_eq!(request.uri().query(), Some("token=pair+me"));
            Ok(response)
        };
        let socket = accept_hdr(stream, check).unwrap();
        let mut device = Device { socket, registration: Value::Null };
        let register = device.read();
        assert_eq!(register["type"], "register");
        device.registration = register["payload"].clone();
        device
    }
}

impl Device {
    fn send(&mut self, message: &Value) {
        self.socket.send(Message::text(message.to_string())).unwrap();
    }

    fn read(&mut self) -> Value {
        next_message(&mut self.socket)
    }

    fn ask(&mut self, message: &Value) -> Value {
        self.send(message);
        self.read()
    }
}

fn generate(id: &str, prompt: &str) -> Value {
    json!({"type": "generate", "correlationId": id, "prompt": prompt})
}

#[test]
fn an_agent_s_messages_are_answered() {
    let (agent, directory) = (Agent::listen(), TempDir::new().unwrap());
    let hobd = agent.start(directory.path(), "fake");
    let mut device = agent.accept();
    let registration = device.registration.clone();
    assert_eq!(registration["pairingToken"], TOKEN);
    assert_eq!(registration["loadedPath"], "fake");
    let capabilities = &registration["capabilities"];
    assert_eq!(capabilities["platform"], "desktop");
    assert!(capabilities["totalRamGb"].as_f64() > Some(0.1), "{capabilities}");
    assert!(capabilities["cpuCores"].as_u64() > Some(0), "{capabilities}");

    let pong = device.ask(&json!({"type": "ping", "at": 1_700_000_000_000u64}));
    assert_eq!(pong, json!({"type": "pong", "at": 1_700_000_000_000u64}));
    let bridge = &hobd.client.get("/v1/status")["device_bridge"];
    assert_eq!((&bridge["connected"], &bridge["error"]), (&json!(true), &Value::Null), "{bridge}");

    let answer = device.ask(&generate("a", "Say this: Good day."));
    assert_eq!(
        (&answer["type"], &answer["correlationId"]),
        (&json!("generateResult"), &json!("a"))
    );
    assert_eq!((&answer["ok"], &answer["text"]), (&json!(true), &json!("Good day.")));
    assert!(answer["promptTokens"].as_u64() > Some(20), "{answer}");
    assert!(answer["outputTokens"].as_u64() > Some(8) && answer["durationMs"].is_u64(), "{answer}");
    let mut cut = generate("b", "Say this: one two three");
    cut["maxTokens"] = 5.into();
    cut["temperature"] = 0.2.into();
    assert_eq!(device.ask(&cut)["text"], "one t");
    let mut stopped = generate("c", "Say this: one two three");
    stopped["stopSequences"] = json!([" two"]);
    assert_eq!(device.ask(&stopped)["text"], "one");
    assert_eq!(hobd.client.get("/v1/conversations")["data"], json!([]), "nothing is stored");

    let mut named = generate("d", "Say this: kept");
    named["promptCacheKey"] = "conv:room".into();
    assert_eq!(device.ask(&named)["text"], "kept");
    let stored = hobd.client.get("/v1/conversations/room");
    assert_eq!(stored["messages"][1]["content"], "kept");

    // More than there are slots: `id_slot` names KV, as in every other request.
    let save = || hobd.client.call("POST", "/slots/70?action=save").json(&json!({})).send();
    assert_ne!(save().status, 200, "no KV has this name");
    let mut numbered = generate("n", "Say this: numbered");
    numbered["id_slot"] = 70.into();
    assert_eq!(device.ask(&numbered)["text"], "numbered");
    assert_eq!(save().status, 200, "{}", save().text());

    let load = json!({"type": "load", "correlationId": "e", "modelPath": "/phone/model.gguf",
        "contextSize": 4096, "useGpu": true});
    let loaded = device.ask(&load);
    let expected = json!({"type": "loadResult", "correlationId": "e", "ok": true,
        "loadedPath": "/phone/model.gguf"});
    assert_eq!(loaded, expected);
    let unloaded = device.ask(&json!({"type": "unload", "correlationId": "f"}));
    assert_eq!(unloaded, json!({"type": "unloadResult", "correlationId": "f", "ok": true}));
    wait::until("the weights are freed", || {
        (hobd.client.get("/v1/status")["residency"] == "unloaded").then_some(())
    });
    assert_eq!(device.ask(&generate("g", "Say this: Back."))["text"], "Back.");

    let embed = json!({"type": "embed", "correlationId": "h", "input": "Hi"});
    let refused = device.ask(&embed);
    assert_eq!((&refused["type"], &refused["ok"]), (&json!("embedResult"), &json!(false)));
    assert!(refused["error"].as_str().unwrap().contains("embedding"), "{refused}");
    // What is not understood is passed over.
    device.socket.send(Message::text("no JSON")).unwrap();
    device.send(&json!({"type": "reboot", "correlationId": "i"}));
    assert_eq!(device.ask(&generate("j", "Say this: On."))["text"], "On.");
}

#[test]
fn requests_run_side_by_side_and_end_with_the_connection() {
    let (agent, directory) = (Agent::listen(), TempDir::new().unwrap());
    let hobd = agent.start(directory.path(), "fake");
    let mut device = agent.accept();
    let id = device.registration["deviceId"].clone();
    let slow = generate("slow", &format!("Say this slowly: {}", "word ".repeat(300)));
    device.send(&slow);
    let fast = device.ask(&generate("fast", "Say this: first"));
    assert_eq!((&fast["correlationId"], &fast["text"]), (&json!("fast"), &json!("first")));
    drop(device);
    wait::until("the answer is cancelled", || {
        (hobd.client.get("/v1/status")["counters"]["cancelled"] == 1).then_some(())
    });
    let mut again = agent.accept();
    assert_eq!(again.registration["deviceId"], id);
    assert_eq!(again.ask(&generate("a", "Say this: again"))["text"], "again");

    let frame = CloseFrame { code: CloseCode::from(4001), reason: "unauthorized".into() };
    again.socket.close(Some(frame)).unwrap();
    while again.socket.read().is_ok() {}
    wait::until("the status says why", || {
        let bridge = &hobd.client.get("/v1/status")["device_bridge"];
        let error = bridge["error"].as_str().unwrap_or_default();
        (bridge["connected"] == false && error.contains("ELIZA_DEVICE_PAIRING_TOKEN")).then_some(())
    });
}

#[test]
fn a_stop_lets_an_answer_end() {
    let (agent, directory) = (Agent::listen(), TempDir::new().unwrap());
    let mut hobd = agent.start(directory.path(), "fake");
    let mut device = agent.accept();
    let words = ["tea"; 25].join(" "); // The fake model writes a byte each 10 ms.
    device.send(&generate("a", &format!("Say this slowly: {words}")));
    wait::until("the answer has begun", || {
        let status = hobd.client.get("/v1/status");
        (status["counters"]["generated_tokens"] != 0).then_some(())
    });
    Process::signal(hobd.process.id(), Signal::TERM);
    let answer = device.read();
    assert_eq!((&answer["ok"], answer["text"].as_str()), (&json!(true), Some(words.as_str())));
    let status = wait::until("hobd ends", || hobd.process.exit_status());
    assert_eq!(status.code(), Some(0));
}

#[cfg(feature = "llama")]
#[test]
fn an_embedding_model_embeds() {
    let (agent, directory) = (Agent::listen(), TempDir::new().unwrap());
    let fixture = hob_testkit::asset("fixtures/qwen2.gguf");
    let model = directory.path().join("embeds.gguf");
    hob_testkit::Gguf::open(&fixture).number("qwen2.pooling_type", 3).write(&model);
    let hobd = agent.start(directory.path(), model.to_str().unwrap());
    let mut device = agent.accept();
    assert_eq!(device.registration["loadedPath"], model.to_str().unwrap());
    let embed = json!({"type": "embed", "correlationId": "a", "input": "Hello"});
    let answer = device.ask(&embed);
    let direct = hobd.client.post("/v1/embeddings", &json!({"input": "Hello"}));
    assert_eq!(answer["embedding"], direct["data"][0]["embedding"]);
    assert_eq!(answer["tokens"], direct["usage"]["prompt_tokens"]);
}
