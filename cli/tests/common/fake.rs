//! A daemon that is a socket with prepared answers.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use serde_json::{Value, json};

use super::common::Home;

/// Status and body, by method and path.
type Answers = std::sync::Arc<std::sync::Mutex<BTreeMap<String, (u16, String)>>>;

/// Prepared answers, by method and path.
pub struct Daemon {
    pub address: String,
    answers: Answers,
    requests: Receiver<Request>,
}

#[derive(Debug)]
pub struct Request {
    pub line: String,
    pub token: String,
    pub body: Value,
}

/// The line under which the end of a request with an open answer is received.
pub const CLOSED: &str = "closed";

/// In place of the status: the answer has no end.
const OPEN: u16 = 0;

/// The status of an answer that is sent before the body is read.
const TOO_LARGE: u16 = 413;

/// Behind the line of a request with `hob.newest`.
pub const NEWEST: &str = " (newest)";

impl Daemon {
    pub fn new(home: &Home) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let token_file = home.path("data/token");
        fs::create_dir_all(home.path("data")).unwrap();
        fs::write(&token_file, "secret\n").unwrap();
        fs::set_permissions(&token_file, fs::Permissions::from_mode(0o600)).unwrap();
        let file = json!({
            "address": address, "token_file": token_file, "pid": 1, "model": "m",
            "fingerprint": "0123456789abcdef", "slots_dir": home.path("data/slots"),
        });
        fs::write(home.path("data/hobd.json"), file.to_string()).unwrap();

        let answers = Answers::default();
        let (sender, requests) = channel();
        let known = std::sync::Arc::clone(&answers);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let is_too_large = |line: &str| {
                    known.lock().unwrap().get(line).is_some_and(|answer| answer.0 == TOO_LARGE)
                };
                let Some(request) = read(&stream, is_too_large) else { continue };
                let is_newest = request.body["hob"]["newest"] == true;
                let line = format!("{}{}", request.line, if is_newest { NEWEST } else { "" });
                let answer = known.lock().unwrap().get(&line).cloned();
                let missing = (404, r#"{"error":{"message":"no such path"}}"#.to_owned());
                let (status, body) = answer.unwrap_or(missing);
                let is_open = status == OPEN;
                write(&stream, (if is_open { 200 } else { status }, body));
                let _ = sender.send(request);
                // Its end is received after it.
                if is_open {
                    report_end(stream, sender.clone());
                }
            }
        });
        Self { address, answers, requests }
    }

    pub fn raw(self, line: &str, status: u16, body: String) -> Self {
        self.answers.lock().unwrap().insert(line.to_owned(), (status, body));
        self
    }

    pub fn answer(self, line: &str, status: u16, body: Value) -> Self {
        self.raw(line, status, body.to_string())
    }

    pub fn stream(self, line: &str, chunks: &[Value]) -> Self {
        let events: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        self.raw(line, 200, format!(": waiting\n\n{events}data: [DONE]\n\n"))
    }

    /// Without an end: the client leaves.
    pub fn open_stream(self, line: &str, chunks: &[Value]) -> Self {
        let events = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        self.raw(line, OPEN, events)
    }

    /// The next received request with this method and path.
    pub fn received(&self, line: &str) -> Request {
        self.requests.iter().find(|request| request.line == line).unwrap()
    }
}

/// `is_too_large`: whether the body of a request with this line is not read.
fn read(mut stream: &TcpStream, is_too_large: impl Fn(&str) -> bool) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let line = line.trim_end_matches(" HTTP/1.1\r\n").to_owned();
    let (mut token, mut length, mut waits) = (String::new(), 0, false);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        match header.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                token = value.to_owned();
            }
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().unwrap();
            }
            Some((name, _)) if name.eq_ignore_ascii_case("expect") => waits = true,
            Some(_) => {}
            None => break,
        }
    }
    if is_too_large(&line) {
        return Some(Request { line, token, body: Value::Null });
    }
    if waits {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { line, token, body: serde_json::from_slice(&body).unwrap_or_default() })
}

fn write(mut stream: &TcpStream, (status, body): (u16, String)) {
    let head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}

/// Reports when the client leaves.
fn report_end(mut stream: TcpStream, sender: Sender<Request>) {
    thread::spawn(move || {
        let _ = stream.read(&mut [0]);
        let line = CLOSED.to_owned();
        let _ = sender.send(Request { line, token: String::new(), body: Value::Null });
    });
}
