//! Connections that outlive a refusal.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hob_testkit::wait;
use serde_json::json;

use crate::common::{TOKEN, World};

const CHAT: &str = "/v1/chat/completions";

/// How long hobd reads a body that it does not need.
const DRAIN_TIME: Duration = Duration::from_secs(1);

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
        // Whether hobd got each body in time.
        let is_usable = || {
            let mut connection = Connection::open(&world);
            for _ in 0..2 {
                let began = Instant::now();
                let refused = connection.send(method, path, headers, &body);
                if refused.closes && began.elapsed() >= DRAIN_TIME {
                    return false;
                }
                assert_eq!((refused.status, refused.closes), (status, false), "{method} {path}");
            }
            let next = connection.send("GET", "/v1/models", &bearer(), "");
            assert_eq!(next.status, 200, "{method} {path}");
            true
        };
        wait::until("the bodies arrive in time", || is_usable().then_some(()));
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
