//! Many clients at a time, given to the built hobd: no answer is crossed, doubled or dropped, and clients that
//! vanish leave nothing behind.
//!
//! Runs 10 seconds and 600 broken streams; `HOB_TEST_ALL=1`: 30 minutes and 10,000.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hob_testkit::{Client, Hobd, Launch, wait};
use serde_json::{Value, json};

/// Fifty for each slot.
const CLIENTS: u64 = 200;

/// Of resident memory, once every buffer has had its largest size.
const MAX_GROWTH_PERCENT: u64 = 2;
/// Below this, growth is that of the allocator.
const NOISE_BYTES: u64 = 8 << 20;

fn is_whole() -> bool {
    std::env::var_os("HOB_TEST_ALL").is_some()
}

fn start(directory: &Path) -> Hobd {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
    launch.args(["--model", "fake", "--slots", "4"]).start()
}

fn resident_bytes(hobd: &Hobd) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", hobd.ready["pid"])).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    size.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

fn descriptors(hobd: &Hobd) -> usize {
    fs::read_dir(format!("/proc/{}/fd", hobd.ready["pid"])).unwrap().count()
}

fn body(text: &str) -> Value {
    json!({
        "messages": [{"role": "user", "content": format!("Say this: {text}")}],
        "stream": true, "temperature": 0, "max_tokens": 400,
    })
}

/// Numbered words that no other request has.
fn numbered(client: u64, round: u64) -> String {
    (0..12).map(|at| format!("{client}.{round}.{at} ")).collect::<String>().trim_end().to_owned()
}

/// The text of a whole stream, or `None` where hobd was too busy.
fn say(client: &Client, text: &str) -> Option<String> {
    let call = client.call("POST", "/v1/chat/completions").json(&body(text));
    let mut stream = call.try_stream().expect("hobd answers");
    if stream.status == 503 {
        return None;
    }
    assert_eq!(stream.status, 200);
    let mut said = String::new();
    let mut is_ended = false;
    while let Some(data) = stream.next_data() {
        if data == "[DONE]" {
            is_ended = true;
            continue;
        }
        let chunk: Value = serde_json::from_str(&data).expect("a chunk is JSON");
        assert_eq!(chunk["error"], Value::Null, "{chunk}");
        said += chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
    }
    assert!(is_ended, "a stream ends as such");
    Some(said)
}

fn is_idle(client: &Client) -> bool {
    let status = client.get("/v1/status");
    let slots = status["slots"].as_array().unwrap();
    status["queue"] == 0
        && slots.iter().all(|slot| ["idle", "free"].contains(&slot["state"].as_str().unwrap()))
}

#[test]
fn two_hundred_clients_on_four_slots_get_their_own_whole_answer_or_a_refusal() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let time = Duration::from_secs(if is_whole() { 1_800 } else { 10 });
    let (answered, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let (began, mut settled) = (Instant::now(), 0);
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (client, answered, refused) = (&hobd.client, &answered, &refused);
            scope.spawn(move || {
                for round in 0.. {
                    if began.elapsed() > time {
                        break;
                    }
                    let text = numbered(number, round);
                    match say(client, &text) {
                        Some(said) => {
                            assert_eq!(said, text);
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        None => {
                            refused.fetch_add(1, Ordering::Relaxed);
                            thread::sleep(Duration::from_millis(100));
                        }
                    }
                }
            });
        }
        thread::sleep(time / 2);
        settled = resident_bytes(&hobd);
    });
    let resident = resident_bytes(&hobd);
    let allowed = settled + (settled * MAX_GROWTH_PERCENT / 100).max(NOISE_BYTES);
    assert!(resident <= allowed, "{} MiB of {} MiB", resident >> 20, settled >> 20);
    let (answered, refused) = (answered.into_inner(), refused.into_inner());
    assert!(answered > 20 && refused > 20, "{answered} answered, {refused} refused");
    wait::until("nothing is left", || is_idle(&hobd.client).then_some(()));
    println!("{answered} answered, {refused} refused, {} MiB", resident >> 20);
}

#[test]
fn streams_that_break_off_at_any_byte_leave_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    say(&hobd.client, "warm").unwrap();
    let before = descriptors(&hobd);
    let count = if is_whole() { 10_000 } else { 600 };
    thread::scope(|scope| {
        for worker in 0..4 {
            let client = &hobd.client;
            scope.spawn(move || {
                for at in (worker..count).step_by(4) {
                    let text = numbered(at, 0);
                    let call = client.call("POST", "/v1/chat/completions").json(&body(&text));
                    let mut socket = call.open();
                    let mut heard = vec![0; (at * 7_919 % 4_001) as usize];
                    socket.read_exact(&mut heard).ok(); // The answer may be shorter.
                }
            });
        }
    });
    wait::until("nothing is left", || is_idle(&hobd.client).then_some(()));
    wait::until("no connection is left", || (descriptors(&hobd) <= before + 2).then_some(()));
    let status = hobd.client.get("/v1/status");
    assert_eq!(status["counters"]["failed"], 0, "{status}");
    assert_eq!(say(&hobd.client, "and now").unwrap(), "and now");
}

#[test]
fn five_hundred_slow_connections_leave_room_for_a_request() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let slow: Vec<TcpStream> = (0..500)
        .map(|_| {
            let mut socket = TcpStream::connect(hobd.client.address).unwrap();
            socket.write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0").unwrap();
            socket
        })
        .collect();
    for round in 0..20 {
        let text = numbered(round, 1);
        assert_eq!(say(&hobd.client, &text).as_ref(), Some(&text));
    }
    drop(slow);
    wait::until("the connections are gone", || (descriptors(&hobd) < 100).then_some(()));
}
