//! Random requests, given to the built hobd: it answers each or closes the connection, with no panic and no
//! 5xx but 503 (busy; in Anthropic's API 529), 507 (disk full) and 501 (not configured), and serves the next client.
//!
//! 20,000 in CI; `HOB_TEST_REQUESTS=1000000` sends more, `HOB_TEST_SEED=7` begins with that seed.

mod bodies;
mod random;
mod routes;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use hob_testkit::{Call, Hobd, Launch};
use random::Random;
use routes::{METHODS, Route};

const CLIENTS: u64 = 4;
const DEFAULT_REQUESTS: u64 = 20_000;

/// An answer that takes longer is left: some requests wait for a stream without an end.
const PATIENCE: Duration = Duration::from_millis(100);

fn hobd(directory: &Path) -> (Launch, Hobd) {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory).args(["--model", "fake"]);
    let hobd = launch.start();
    (launch, hobd)
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

fn is_allowed(status: u16) -> bool {
    status < 500 || [501, 503, 507, 529].contains(&status)
}

#[test]
fn no_random_request_ends_a_thread_or_gets_an_internal_error() {
    let directory = tempfile::tempdir().unwrap();
    let (launch, mut hobd) = hobd(directory.path());
    let (address, token) = (hobd.client.address, hobd.client.token.clone());
    let routes = routes::all();
    assert!(routes.len() > 60, "{} routes", routes.len());
    let (count, first) =
        (number("HOB_TEST_REQUESTS", DEFAULT_REQUESTS), number("HOB_TEST_SEED", 0));
    let answered = AtomicU64::new(0);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (routes, token, answered) = (&routes, &token, &answered);
            scope.spawn(move || {
                let seeds = (first..first + count).skip(client as usize);
                for seed in seeds.step_by(CLIENTS as usize) {
                    let request = request(&mut Random(seed), routes, token, address);
                    let status = status_of(address, &request);
                    let is_answered = status.is_some_and(|status| status < 300);
                    answered.fetch_add(u64::from(is_answered), Ordering::Relaxed);
                    assert!(
                        status.is_none_or(is_allowed),
                        "seed {seed}: {status:?} to {}",
                        String::from_utf8_lossy(&request)
                    );
                }
            });
        }
    });
    let answered = answered.into_inner();
    assert!(
        answered > count / 20,
        "{answered} were well-formed and answered: these are to be, too"
    );
    assert!(hobd.process.is_running());
    let log = launch.log();
    assert!(!log.contains("panicked"), "{log}");
    let status = hobd.client.get("/v1/status");
    assert_eq!(status["residency"], "resident", "{status}");
    let answer = hobd.client.say("afterwards", "Say this: still here");
    assert_eq!(answer["choices"][0]["message"]["content"], "still here");
}

#[test]
fn no_route_answers_without_the_token_of_today() {
    let directory = tempfile::tempdir().unwrap();
    let (launch, mut hobd) = hobd(directory.path());
    let revoked = hobd.client.token.clone();
    let file = hobd.ready["token_file"].as_str().unwrap().to_owned();
    hobd.process.terminate(Duration::from_secs(10));
    std::fs::remove_file(file).unwrap();
    let hobd = launch.start();
    assert_ne!(hobd.client.token, revoked);
    for Route { path, .. } in routes::all() {
        if path == "/health" {
            continue;
        }
        for method in METHODS {
            let refused = |bearer: Option<&str>| {
                let call = Call::new(hobd.client.address, method, &path);
                let call = match bearer {
                    Some(token) => call.header("authorization", &format!("Bearer {token}")),
                    None => call,
                };
                let answer = call.send();
                assert_eq!(answer.status, 401, "{method} {path} with {bearer:?}");
            };
            refused(None);
            refused(Some("not-the-token-of-this-daemon"));
            refused(Some(&revoked));
        }
    }
}

/// Bytes of a request, most of which are well-formed.
fn request(random: &mut Random, routes: &[Route], token: &str, address: SocketAddr) -> Vec<u8> {
    let route = random.among(routes);
    let method =
        if random.one_in(4) { random.among(METHODS) } else { random.among(&route.methods) };
    let path = random.path(&route.path);
    let mut body = bodies::body(random, &route.path);
    if random.one_in(4) {
        random.damage(&mut body);
    }
    let length = match random.below(40) {
        0 => body.len() + random.below(50) as usize,
        1 => body.len() / 2,
        _ => body.len(),
    };
    let kind = random.among(&["application/json", "application/json", "text/plain", "audio/wav"]);
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: \
         close\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
    );
    let mut head = head.into_bytes();
    if random.one_in(20) {
        random.damage(&mut head);
    }
    [head, body].concat()
}

/// `None`: the connection was closed or the answer did not begin in time.
fn status_of(address: SocketAddr, request: &[u8]) -> Option<u16> {
    let mut socket = TcpStream::connect(address).expect("hobd listens");
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(request).ok(); // hobd may refuse it before its end.
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
        if answer.len() > 64 * 1024 {
            break; // A stream, or a file of the page.
        }
    }
    let line = answer.split(|byte| *byte == b'\r').next()?;
    std::str::from_utf8(line).ok()?.split(' ').nth(1)?.parse().ok()
}
