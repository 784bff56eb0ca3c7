//! What a client reads while its prompt is restored and computed, through the built hobd.

use hob_testkit::client::Event;
use hob_testkit::{Hobd, Launch, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

/// On the fake model, each token of it takes 4 ms.
fn slow_question() -> String {
    format!("Read this slowly: {}", "one more word ".repeat(40))
}

fn launch(model: &str, arguments: &[&str]) -> (Launch, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--model", model, "--threads", "1", "--voice-command", "off"]);
    (launch.args(arguments.iter().copied()), directory)
}

fn chunks(hobd: &Hobd, mut body: Value) -> Vec<Value> {
    body["stream"] = true.into();
    let events = hobd.client.events(&body);
    events
        .filter_map(|event| if let Event::Data(data) = event { Some(data) } else { None })
        .collect()
}

fn ask(text: &str) -> Value {
    json!({
        "conversation": "long", "hob": {"append": true, "progress": true}, "max_tokens": 4,
        "messages": [{"role": "user", "content": text}],
    })
}

/// The reports of a stream, which all come before the answer.
fn reports(chunks: &[Value]) -> Vec<Value> {
    let begin = chunks.iter().position(|chunk| chunk["choices"] != json!([])).unwrap();
    assert!(chunks[begin..].iter().all(|chunk| chunk["hob"]["progress"].is_null()));
    let reports: Vec<Value> =
        chunks[..begin].iter().map(|it| it["hob"]["progress"].clone()).collect();
    for (report, chunk) in reports.iter().zip(chunks) {
        let number = |name: &str| report[name].as_u64().unwrap();
        let parts = ["tokens_shared", "tokens_from_memory", "tokens_from_disk", "tokens_computed"];
        assert_eq!(parts.map(number).iter().sum::<u64>(), number("tokens_ready"), "{report}");
        assert_eq!(chunk["prompt_progress"]["total"], report["tokens_total"]);
        assert_eq!(chunk["prompt_progress"]["processed"], report["tokens_ready"]);
    }
    reports
}

/// A long prompt, and its end after a restart.
fn a_prompt_is_reported_from_its_arrival_to_its_last_token(model: &str) {
    let (launch, _directory) = launch(model, &[]);
    let mut hobd = launch.clone().start();
    let chunks = chunks(&hobd, ask(&slow_question()));
    assert_eq!(chunks[0]["hob"]["conversation"], "long", "the first chunk has the address");
    let first = reports(&chunks);
    assert_eq!((&first[0]["phase"], &first[0]["tokens_ready"]), (&json!("waiting"), &json!(0)));
    let total = first[0]["tokens_total"].as_u64().unwrap();
    assert!(total > 100, "{:?}", first[0]);
    let reading: Vec<_> = first.iter().filter(|report| report["phase"] == "reading").collect();
    let ready: Vec<_> = reading.iter().map(|it| it["tokens_ready"].as_u64().unwrap()).collect();
    assert_eq!(ready.first(), Some(&0), "{first:?}");
    assert!(ready.is_sorted() && ready.iter().all(|&ready| ready < total), "{ready:?}");
    if model == "fake" {
        assert!(ready.len() > 3, "it takes two seconds: {ready:?}");
        assert!(reading[1]["seconds_left"].as_f64() > Some(0.0), "{reading:?}");
    }
    let end = chunks.last().unwrap();
    assert_eq!(end["hob"]["tokens"]["computed"], total);
    let times = ["ttft_ms", "total_ms", "tokens_per_second"].map(|name| end["hob"][name].as_f64());
    assert!(times[0] > Some(0.0) && times[1] > times[0] && times[2] > Some(0.0), "{end}");
    let stored = hobd.client.get("/v1/conversations/long");
    assert_eq!(stored["messages"][1]["finish"]["hob"]["total_ms"].as_f64(), times[1]);

    hobd.process.terminate(wait::PATIENCE);
    let hobd = launch.start();
    let again = reports(&self::chunks(&hobd, ask("And now?")));
    let phases: Vec<_> = again.iter().map(|report| report["phase"].as_str().unwrap()).collect();
    assert_eq!([phases[0], phases[1]], ["waiting", "restoring"], "{again:?}");
    let last = again.last().unwrap();
    assert_eq!(last["phase"], "reading");
    assert!(last["tokens_from_disk"].as_u64() >= Some(total), "{last}");
}

#[test]
fn a_prompt_is_reported_from_its_arrival_to_its_last_token_on_the_fake() {
    a_prompt_is_reported_from_its_arrival_to_its_last_token("fake");
}

#[cfg(feature = "llama")]
#[test]
fn a_prompt_is_reported_from_its_arrival_to_its_last_token_on_llama_cpp() {
    a_prompt_is_reported_from_its_arrival_to_its_last_token("bundled");
}

#[test]
fn a_client_that_asks_for_no_progress_reads_openai_s_stream() {
    let (launch, _directory) = launch("fake", &[]);
    let hobd = launch.start();
    let mut plain = ask("Hello");
    plain["hob"] = json!({"append": true});
    for chunk in chunks(&hobd, plain) {
        assert_ne!(chunk["choices"], json!([]), "{chunk}");
        assert_eq!(chunk.get("prompt_progress"), None);
    }
    // As llama-server's clients ask.
    let mut other = ask("Hello again");
    (other["hob"], other["return_progress"]) = (json!({"append": true}), true.into());
    let first = &chunks(&hobd, other)[0];
    assert!(first["prompt_progress"]["total"].as_u64() > Some(0), "{first}");
}

#[test]
fn a_model_that_loads_is_reported_as_loading() {
    let (launch, _directory) = launch("fake", &["--unload-after", "1s"]);
    let hobd = launch.start();
    wait::until("the weights are unloaded", || {
        (hobd.client.get("/v1/status")["residency"] == "unloaded").then_some(())
    });
    let first = &reports(&chunks(&hobd, ask("Hello")))[0];
    assert_eq!(first["phase"], "loading", "{first}");
    assert!(first["loaded_percent"].is_u64(), "{first}");
}

#[test]
fn a_turn_that_finds_no_slot_is_reported_as_waiting() {
    let (launch, _directory) = launch("fake", &["--slots", "1"]);
    let hobd = launch.start();
    let busy = json!({
        "conversation": "busy", "stream": true,
        "messages": [{"role": "user", "content": format!("Say this slowly: {}", "word ".repeat(60))}],
    });
    let mut other = hobd.client.events(&busy);
    other.next(); // It has the slot.
    let second = std::thread::scope(|scope| {
        let second = scope.spawn(|| reports(&chunks(&hobd, ask("Hello"))));
        let _rest: Vec<_> = other.collect();
        second.join().unwrap()
    });
    assert_eq!(second[0]["phase"], "waiting", "{second:?}");
    assert_eq!(second.last().unwrap()["phase"], "reading", "{second:?}");
}
