//! Random requests and random messages of WebSockets, given to the built hobd: it answers each or closes the
//! connection, with no panic and no 5xx but 503 (busy; in Anthropic's API 529) and, on the routes of what it lacks, 501,
//! and serves the next client.
//!
//! One connection in ten has two requests or three, each sent behind the answer to the one before or all at once; one
//! body in eight is chunked.
//!
//! 20,000 connections and half as many messages in CI; `HOB_TEST_REQUESTS=1000000` opens more, `HOB_TEST_SEED=7` begins
//! with that seed.

mod bodies;
mod events;
mod files;
mod framing;
mod protocols;
mod random;
mod routes;

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use framing::Framed;
use hob_testkit::{Call, Hobd, Launch, Memory, wait};
use protocols::{STORED, STORED_ROW};
use random::Random;
use routes::{METHODS, Route};
use serde_json::json;

use crate::common::chance::{Chance, from_env};

const CLIENTS: u64 = 4;
/// Connections: some have several.
const DEFAULT_REQUESTS: u64 = 20_000;
/// Of one WebSocket.
const MESSAGES: u64 = 10;

/// After any number of requests: the warm pool, every cache and what the allocator keeps.
const MAX_RESIDENT_MIB: u64 = 512;

/// An answer that takes longer is left: some requests wait for a stream without an end.
const PATIENCE: Duration = Duration::from_millis(100);
/// Between two parts of what a client sends.
const PAUSE: Duration = Duration::from_millis(2);

fn hobd(directory: &Path) -> (Launch, Hobd) {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory).args(["--model", "fake"]);
    // It says how many bytes it heard, and fails where these are an odd number of samples.
    let script = directory.join("recognizer");
    std::fs::write(&script, "bytes=$(/usr/bin/wc -c)\necho $bytes\nexit $((bytes / 2 % 2))\n")
        .unwrap();
    let launch = launch.args(["--voice-recognizer", &format!("/bin/sh {}", script.display())]);
    let hobd = launch.start();
    (launch, hobd)
}

/// Routes of what this hobd lacks: a voice, a recogniser of streams, a model with marks for a gap, and another program's
/// store of models.
fn is_lacking(route: &str) -> bool {
    const ROUTES: [&str; 8] = [
        "/v1/audio/speech",
        "/v1/conversations/{id}/audio",
        "/infill",
        "/api/pull",
        "/api/create",
        "/api/delete",
        "/api/copy",
        "/api/push",
    ];
    ROUTES.contains(&route) || route.starts_with("/api/blobs/")
}

fn is_allowed(route: &str, status: u16) -> bool {
    match status {
        0..=499 | 503 => true,
        501 => is_lacking(route),
        529 => route.starts_with("/v1/messages"),
        _ => false,
    }
}

/// Sends one thing for each seed, by [`CLIENTS`] at a time, and asserts that hobd is as before.
fn for_each_seed(count: u64, (launch, hobd): &mut (Launch, Hobd), send: impl Fn(u64) + Sync) {
    let first = from_env("HOB_TEST_SEED", 0_u64);
    let began = Instant::now();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let send = &send;
            scope.spawn(move || {
                let seeds = (first..first + count).skip(client as usize);
                seeds.step_by(CLIENTS as usize).for_each(send);
            });
        }
    });
    println!("{count} in {:.0} s, {} MiB", began.elapsed().as_secs_f64(), resident_mib(hobd));
    assert!(hobd.process.is_running());
    let log = launch.log();
    assert!(!log.contains("panicked"), "{log}");
    // A request may have freed the weights, or may have said that they are to be freed soon: also one that a client has
    // left, and that ends only now.
    wait::until("the weights stay", || {
        hobd.client.post("/api/generate", &json!({"model": "fake", "keep_alive": -1}));
        (hobd.client.get("/v1/status")["residency"] == "resident").then_some(())
    });
    let answer = hobd.client.say("afterwards", "Say this: still here");
    assert_eq!(answer["choices"][0]["message"]["content"], "still here");
    let page = hobd.client.call("GET", "/metrics").send().text();
    let wrong: Vec<_> = page.lines().filter(|line| counts_what_is_not_allowed(line)).collect();
    assert!(wrong.is_empty(), "also what was answered after {PATIENCE:?}: {wrong:?}");
    assert!(resident_mib(hobd) < MAX_RESIDENT_MIB, "{} MiB", resident_mib(hobd));
}

/// Whether the line of hobd's metrics counts requests that were answered in a way that is not allowed.
fn counts_what_is_not_allowed(line: &str) -> bool {
    let Some(labels) = line.strip_prefix("hob_requests_total{route=\"") else { return false };
    let (route, rest) = labels.split_once("\",status=\"").expect("a status follows the route");
    let (status, _) = rest.split_once('"').expect("the status is quoted");
    !is_allowed(route, status.parse().expect("a number"))
}

fn resident_mib(hobd: &Hobd) -> u64 {
    Memory::of(hobd.process.id()).resident_bytes >> 20
}

#[test]
fn no_random_request_ends_a_thread_or_gets_an_internal_error() {
    let directory = tempfile::tempdir().unwrap();
    let mut started = hobd(directory.path());
    let (address, token) = (started.1.client.address, started.1.client.token.clone());
    let routes = routes::all();
    assert!(routes.len() > 80, "{} routes", routes.len());
    // Requests go on behind this answer.
    let stored = started.1.client.say(STORED, "Say this: one");
    assert_eq!(stored["hob"]["message"], STORED_ROW, "{stored}");
    let count = from_env("HOB_TEST_REQUESTS", DEFAULT_REQUESTS);
    let answered = Mutex::new(AnsweredRequests::default());
    for_each_seed(count, &mut started, |seed| {
        let random = &mut Random(Chance(seed));
        let sent = connection(random, &routes, &token, address);
        let parts: Vec<&[u8]> = sent.iter().map(|request| request.bytes.as_slice()).collect();
        let whole = parts.concat();
        let is_pipelined = random.one_in(2);
        let heard =
            if is_pipelined { exchanged(address, &[&whole]) } else { exchanged(address, &parts) };
        let statuses = statuses(&heard);
        let is_allowed =
            |status: &u16| sent.iter().any(|request| is_allowed(&request.route.path, *status));
        let shown = || String::from_utf8_lossy(&whole).into_owned();
        assert!(statuses.iter().all(is_allowed), "seed {seed}: {statuses:?} to {}", shown());
        let mut answered = answered.lock().unwrap();
        for (at, (request, status)) in sent.iter().zip(&statuses).enumerate() {
            if *status < 300 {
                answered.count(request, at);
            }
        }
    });
    let AnsweredRequests { all, later, chunked, routes } = answered.into_inner().unwrap();
    println!("{all} answered, {later} of them behind another, {chunked} chunked ones");
    assert!(all > count / 20, "{all} were well-formed and answered: these are to be, too");
    if count >= DEFAULT_REQUESTS {
        assert!(later > 20 && chunked > 5, "{later} behind another, {chunked} chunked ones");
        let is_missing = |route: &&&str| !routes.contains(**route);
        let missing: Vec<_> = protocols::ROUTES.iter().filter(is_missing).collect();
        assert!(missing.is_empty(), "no request to these was answered: {missing:?}");
    }
}

#[test]
fn no_random_message_of_a_web_socket_ends_a_thread_or_gets_an_internal_error() {
    let directory = tempfile::tempdir().unwrap();
    let mut started = hobd(directory.path());
    let (address, token) = (started.1.client.address, started.1.client.token.clone());
    // Each with as many messages on average.
    let sockets = from_env("HOB_TEST_REQUESTS", DEFAULT_REQUESTS) / 2 / MESSAGES;
    let (opened, updated) = (AtomicU64::new(0), AtomicU64::new(0));
    for_each_seed(sockets, &mut started, |seed| {
        let random = &mut Random(Chance(seed));
        let mut parts = vec![handshake(random, &token, address)];
        parts.extend((0..random.below(2 * MESSAGES + 1)).map(|_| events::frames(random)));
        parts.push(vec![0x88, 0x80, 0, 0, 0, 0]); // Close.
        if !random.one_in(4) {
            parts = vec![parts.concat()];
        }
        let heard = exchanged(address, &parts);
        let status = statuses(&heard).first().copied();
        let is_allowed = |status| is_allowed("/v1/realtime/events", status);
        assert!(status.is_none_or(is_allowed), "seed {seed}: {status:?}");
        opened.fetch_add(u64::from(status == Some(101)), Ordering::Relaxed);
        let text = String::from_utf8_lossy(&heard);
        assert!(!text.contains("internal_error"), "seed {seed}: {text}");
        updated.fetch_add(u64::from(text.contains("session.updated")), Ordering::Relaxed);
    });
    let (opened, updated) = (opened.into_inner(), updated.into_inner());
    assert!(opened > sockets / 2 && updated > sockets / 10, "{opened} opened, {updated} updated");
}

#[test]
fn no_route_answers_without_the_token_of_today() {
    let directory = tempfile::tempdir().unwrap();
    let (launch, mut hobd) = hobd(directory.path());
    let revoked = hobd.client.token.clone();
    let file = hobd.ready["token_file"].as_str().unwrap().to_owned();
    hobd.process.terminate(wait::PATIENCE);
    std::fs::remove_file(file).unwrap();
    let hobd = launch.start();
    assert_ne!(hobd.client.token, revoked);
    for Route { path, .. } in routes::all() {
        if path == "/health" {
            continue;
        }
        for method in METHODS.iter().chain(&["HEAD", "OPTIONS"]) {
            let refused = |header: Option<(&str, String)>| {
                let call = Call::new(hobd.client.address, method, &path);
                let call = match &header {
                    Some((name, value)) => call.header(name, value),
                    None => call,
                };
                let answer = call.send();
                assert_eq!(answer.status, 401, "{method} {path} with {header:?}");
            };
            refused(None);
            for token in ["not-the-token-of-this-daemon", &revoked] {
                refused(Some(("authorization", format!("Bearer {token}"))));
                refused(Some(("x-api-key", token.to_owned())));
                refused(Some(("sec-websocket-protocol", format!("realtime, hob-token.{token}"))));
            }
        }
    }
}

struct SentRequest<'r> {
    route: &'r Route,
    bytes: Vec<u8>,
    is_chunked: bool,
}

/// The requests that got what they asked for.
#[derive(Default)]
struct AnsweredRequests {
    all: u64,
    /// Those behind another one on their connection.
    later: u64,
    /// Those with a body in chunks to [`protocols::ROUTES`], which read it.
    chunked: u64,
    /// Their routes.
    routes: BTreeSet<String>,
}

impl AnsweredRequests {
    /// `at`: its place on its connection.
    fn count(&mut self, request: &SentRequest<'_>, at: usize) {
        let path = &request.route.path;
        let reads_body = protocols::ROUTES.contains(&path.as_str());
        self.all += 1;
        self.later += u64::from(at > 0);
        self.chunked += u64::from(request.is_chunked && reads_body);
        self.routes.insert(path.clone());
    }
}

/// The requests of one connection. All but the last leave it open.
fn connection<'r>(
    random: &mut Random,
    routes: &'r [Route],
    token: &str,
    address: SocketAddr,
) -> Vec<SentRequest<'r>> {
    let count = if random.one_in(10) { 2 + random.below(2) } else { 1 };
    let request = |at: u64| {
        let route = route(random, routes);
        request(random, route, token, address, at == count)
    };
    (1..=count).map(request).collect()
}

fn route<'r>(random: &mut Random, routes: &'r [Route]) -> &'r Route {
    if random.one_in(10) {
        let path = *random.among(&protocols::ROUTES);
        return routes.iter().find(|route| route.path == path).expect("hobd has it");
    }
    random.among(routes)
}

/// Most are well-formed. The last one of a connection asks hobd to close it.
fn request<'r>(
    random: &mut Random,
    route: &'r Route,
    token: &str,
    address: SocketAddr,
    is_last: bool,
) -> SentRequest<'r> {
    let method =
        if random.one_in(4) { random.among(METHODS) } else { random.among(&route.methods) };
    // An import is a POST to the path of a conversation.
    let pattern = match *method {
        "POST" if route.path == "/v1/conversations/{id}" && !random.one_in(8) => {
            "/v1/conversations/import"
        }
        _ => &route.path,
    };
    let path = random.path(pattern);
    let (kind, mut body) = bodies::body(random, &route.path);
    if random.one_in(4) {
        random.damage(&mut body);
    }
    let Framed { field, bytes: body, is_chunked } = framing::framed(random, body);
    let kind = if random.one_in(20) { "application/octet-stream" } else { kind };
    let connection = if is_last { "close" } else { "keep-alive" };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: \
         {connection}\r\ncontent-type: {kind}\r\n{field}\r\n\r\n"
    );
    let mut head = head.into_bytes();
    if random.one_in(20) {
        random.damage(&mut head);
    }
    SentRequest { route, bytes: [head, body].concat(), is_chunked }
}

/// The head that asks for a WebSocket; some are wrong.
fn handshake(random: &mut Random, token: &str, address: SocketAddr) -> Vec<u8> {
    let version = if random.one_in(40) { "7" } else { "13" };
    let path = if random.one_in(40) { "/v1/status" } else { "/v1/realtime/events" };
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: \
         upgrade\r\nupgrade: websocket\r\nsec-websocket-version: {version}\r\nsec-websocket-key: \
         dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: realtime\r\n\r\n"
    );
    let mut head = head.into_bytes();
    if random.one_in(20) {
        random.damage(&mut head);
    }
    head
}

/// What hobd answers until it closes the connection, or is silent for [`PATIENCE`].
fn exchanged(address: SocketAddr, parts: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).expect("hobd listens");
    let mut answer = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        socket.write_all(part.as_ref()).ok(); // hobd may refuse it before its end.
        let is_last = at + 1 == parts.len();
        // A close that answers a later part discards what was not read before.
        let patience = if is_last { PATIENCE } else { PAUSE };
        socket.set_read_timeout(Some(patience)).unwrap();
        read(&mut socket, &mut answer);
    }
    answer
}

/// Reads until hobd closes the connection, or is silent for long.
fn read(socket: &mut TcpStream, answer: &mut Vec<u8>) {
    let mut buffer = [0; 4096];
    // More is a stream, or a file of the page.
    while answer.len() <= 64 * 1024 {
        match socket.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
}

/// Those of the answers that began in time, in order.
fn statuses(heard: &[u8]) -> Vec<u16> {
    const VERSION: &[u8] = b"HTTP/1.";
    let begins = |at: &usize| heard[*at..].starts_with(VERSION);
    let status = |at: usize| -> Option<u16> {
        // Behind the last digit of the version and a space.
        let digits = heard.get(at + VERSION.len() + 2..)?.get(..3)?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    };
    (0..heard.len()).filter(begins).filter_map(status).collect()
}
