//! Answers that go on without their client, through the built hobd.

use hob_testkit::client::Event;
use hob_testkit::{Hobd, Launch, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

const ANSWER: &str = "/v1/conversations/room/answer";

fn launch(model: &str) -> (Launch, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    (launch.args(["--model", model, "--threads", "1", "--voice-command", "off"]), directory)
}

fn start(model: &str) -> (Hobd, TempDir) {
    let (launch, directory) = launch(model);
    (launch.start(), directory)
}

fn ask(text: &str) -> Value {
    json!({
        "conversation": "room", "stream": true, "temperature": 0, "max_tokens": 300,
        "hob": {"append": true, "detached": true, "progress": true},
        "messages": [{"role": "user", "content": text}],
    })
}

/// The fake answers it with all `words`, 10 ms a letter.
fn slowly(words: &str) -> Value {
    let mut request = ask(&format!("Say this slowly: {words}"));
    request["max_tokens"] = 2000.into();
    request
}

fn text_of(chunk: &Value) -> &str {
    chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default()
}

/// The text of the running answer, read to its end.
fn read(hobd: &Hobd) -> String {
    let mut stream = hobd.client.call("GET", ANSWER).stream();
    assert_eq!(stream.status, 200);
    let data = std::iter::from_fn(|| stream.try_next_data().ok()?);
    let chunks = data.take_while(|data| data != "[DONE]");
    chunks.map(|data| text_of(&serde_json::from_str(&data).unwrap()).to_owned()).collect()
}

fn messages(hobd: &Hobd) -> Vec<Value> {
    let room = hobd.client.get("/v1/conversations/room");
    room["messages"].as_array().unwrap().clone()
}

/// Reads the stream up to the first text, and leaves.
fn ask_and_leave(hobd: &Hobd, request: &Value) {
    let mut events = hobd.client.events(request);
    events.find(|event| matches!(event, Event::Data(data) if !text_of(data).is_empty())).unwrap();
}

fn until_over(hobd: &Hobd) -> Value {
    wait::until("the answer is stored", || {
        let last = messages(hobd).pop().unwrap();
        (last["status"] != "streaming").then_some(last)
    })
}

#[test]
fn a_detached_answer_goes_on_when_its_client_leaves_and_another_reads_it_whole() {
    let (hobd, _directory) = start("fake");
    let words = "one two three four five six seven eight nine ten ".repeat(12);
    let words = words.trim_end(); // 5.9 s.
    ask_and_leave(&hobd, &slowly(words));
    assert_eq!(hobd.client.get("/v1/status")["answering"], json!(["room"]));

    assert_eq!(read(&hobd), words, "from its first word to its last");
    let last = until_over(&hobd);
    assert_eq!((&last["status"], &last["content"]), (&json!("complete"), &json!(words)));
    assert_eq!(hobd.client.call("GET", ANSWER).send().status, 404);
    assert_eq!(hobd.client.get("/v1/status")["answering"], json!([]));
}

#[cfg(feature = "llama")]
#[test]
fn a_detached_answer_of_llama_cpp_goes_on_when_its_client_leaves() {
    let (hobd, _directory) = start("bundled");
    let mut request = ask("My locker code is 48213.");
    request["ignore_eos"] = true.into();
    ask_and_leave(&hobd, &request);
    let last = until_over(&hobd);
    assert_eq!(last["status"], "complete");
    assert_eq!(last["finish"]["usage"]["completion_tokens"], 300, "{last}");
}

#[test]
fn an_answer_that_is_not_detached_still_ends_with_its_client() {
    let (hobd, _directory) = start("fake");
    let mut request = slowly(&"word ".repeat(300)); // 15 s.
    request["hob"] = json!({"append": true});
    ask_and_leave(&hobd, &request);
    assert_eq!(until_over(&hobd)["status"], "interrupted");
    assert_eq!(hobd.client.call("GET", ANSWER).send().status, 404);
}

#[test]
fn any_client_stops_a_detached_answer_while_it_speaks_and_while_it_reads() {
    let (hobd, _directory) = start("fake");
    let words = "word ".repeat(300); // 15 s; 6 s to read.
    let stop = || hobd.client.call("DELETE", ANSWER).send().json()["stopped"].clone();
    assert_eq!(stop(), false);
    ask_and_leave(&hobd, &slowly(&words));
    assert_eq!(stop(), true);
    let said = until_over(&hobd);
    assert_eq!(said["status"], "interrupted");
    assert!(said["content"].as_str().unwrap().len() < words.len() / 2, "{said}");

    let mut events = hobd.client.events(&ask(&format!("Read this slowly: {words}")));
    let reads = |event: &Event| matches!(event, Event::Data(data) if data["hob"]["progress"]["phase"] == "reading");
    events.find(reads).unwrap();
    assert_eq!(stop(), true);
    let end: Vec<_> = events.collect();
    assert!(matches!(end.last(), Some(Event::Done)), "the reader's stream ends: {end:?}");
    assert_eq!(until_over(&hobd)["status"], "interrupted");
    wait::until("the engine is idle", || (!hobd.client.is_busy("room")).then_some(()));
}

#[test]
fn a_detached_answer_needs_a_conversation_and_a_stream_and_reports_errors() {
    let (hobd, _directory) = start("fake");
    let refused = |change: fn(&mut Value)| {
        let mut request = ask("Hello");
        change(&mut request);
        let answer = hobd.client.call("POST", "/v1/chat/completions").json(&request).send();
        (answer.status, answer.json()["error"]["param"].clone())
    };
    assert_eq!(refused(|it| it["stream"] = false.into()), (400, json!("hob.detached")));
    let anonymous = |it: &mut Value| {
        it["conversation"] = Value::Null;
        it["hob"]["append"] = false.into();
    };
    assert_eq!(refused(anonymous), (400, json!("hob.detached")));
    assert_eq!(refused(|it| it["temperature"] = 9.into()), (400, json!("temperature")));
    assert_eq!(hobd.client.get("/v1/status")["answering"], json!([]));
}

/// As answers with a connection do.
#[test]
fn a_detached_answer_without_a_reader_may_end_within_the_five_seconds_of_a_stop() {
    let (launch, _directory) = launch("fake");
    let mut hobd = launch.start();
    let words = "k".repeat(50); // 0.5 s.
    ask_and_leave(&hobd, &slowly(&words));
    assert_eq!(hobd.process.terminate(wait::PATIENCE).code(), Some(0));
    let hobd = launch.start();
    let last = messages(&hobd).pop().unwrap();
    assert_eq!(last["content"], words, "{last}");
}

#[test]
fn a_stop_of_hobd_keeps_the_text_of_a_detached_answer() {
    let (launch, _directory) = launch("fake");
    let mut hobd = launch.start();
    ask_and_leave(&hobd, &slowly(&"word ".repeat(400))); // 20 s: more than a stop waits.
    hobd.process.terminate(wait::PATIENCE);
    let hobd = launch.start();
    let last = messages(&hobd).pop().unwrap();
    assert_eq!(last["status"], "interrupted");
    assert!(last["content"].as_str().unwrap().starts_with('w'), "{last}");
}
