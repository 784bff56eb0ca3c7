//! An engine that answers as a test says, and remembers what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use serde_json::{Value, json};

/// A request that the engine got.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    pub path: String,
    /// In lower case, one a line.
    pub headers: String,
    pub body: Value,
}

impl ReceivedRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        let start = format!("{name}: ");
        self.headers.lines().find_map(|line| line.strip_prefix(&start))
    }
}

/// What it answers to a request that generates.
#[derive(Clone, Debug)]
pub enum Script {
    /// These events, and the end of the connection.
    Events(Vec<Value>),
    /// The same, and `[DONE]` in front of it.
    Whole(Vec<Value>),
    /// A status and an object.
    Status(u16, Value),
    /// The status 429 with this `Retry-After`.
    Busy(&'static str),
    /// The head of a stream, and nothing more until the client leaves.
    Silence,
}

pub struct Engine {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    owner: &'static str,
    models: Mutex<Vec<&'static str>>,
    script: Mutex<Script>,
    held: Mutex<()>,
    asked: Mutex<Vec<ReceivedRequest>>,
    ends: AtomicBool,
}

impl Engine {
    /// `owner`: what it says of its models.
    pub fn start(owner: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            owner,
            models: Mutex::new(vec!["first", "second"]),
            script: Mutex::new(said("Hello")),
            held: Mutex::default(),
            asked: Mutex::default(),
            ends: AtomicBool::new(false),
        });
        let of_thread = shared.clone();
        thread::spawn(move || {
            for socket in listener.incoming() {
                if of_thread.ends.load(Ordering::SeqCst) {
                    return;
                }
                let (socket, shared) = (socket.unwrap(), of_thread.clone());
                thread::spawn(move || shared.serve(socket));
            }
        });
        Self { address, shared }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers so from here on.
    pub fn answers(&self, script: Script) {
        *self.shared.script.lock().unwrap() = script;
    }

    /// Serves this model alone from here on.
    pub fn serves(&self, model: &'static str) {
        *self.shared.models.lock().unwrap() = vec![model];
    }

    /// Serves this model too from here on.
    pub fn adds(&self, model: &'static str) {
        self.shared.models.lock().unwrap().push(model);
    }

    /// It answers no request that generates until this is dropped.
    pub fn hold(&self) -> MutexGuard<'_, ()> {
        self.shared.held.lock().unwrap()
    }

    /// How often it was asked at `path`.
    pub fn count(&self, path: &str) -> usize {
        let asked = self.shared.asked.lock().unwrap();
        asked.iter().filter(|asked| asked.path == path).count()
    }

    /// What it was asked last at `path`.
    pub fn last(&self, path: &str) -> ReceivedRequest {
        let asked = self.shared.asked.lock().unwrap();
        asked.iter().rev().find(|asked| asked.path == path).expect("it was asked").clone()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::SeqCst);
        TcpStream::connect(self.address).ok(); // Ends the wait for a connection.
    }
}

/// One text, as an engine streams it.
pub fn said(text: &str) -> Script {
    Script::Whole(vec![
        json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}),
        json!({"choices": [{"index": 0, "delta": {"content": text}}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 4}}}),
    ])
}

impl Shared {
    fn serve(&self, mut socket: TcpStream) {
        let Some(asked) = read(&socket) else { return };
        self.asked.lock().unwrap().push(asked.clone());
        let json = |socket: &mut TcpStream, status: u16, body: Value| {
            let body = body.to_string();
            let length = body.len();
            write!(
                socket,
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
                 connection: close\r\n\r\n{body}"
            )
            .ok();
        };
        if asked.path != "/v1/models" {
            drop(self.held.lock().unwrap());
        }
        let models = self.models.lock().unwrap().clone();
        if asked.path == "/v1/models" {
            let model = |id: &str| json!({"id": id, "object": "model", "owned_by": self.owner});
            let models: Vec<Value> = models.into_iter().map(model).collect();
            return json(&mut socket, 200, json!({"object": "list", "data": models}));
        }
        if !models.iter().any(|model| asked.body["model"] == *model) {
            let error = json!({"message": "The model does not exist.", "code": 404});
            return json(&mut socket, 404, json!({"error": error}));
        }
        let script = self.script.lock().unwrap().clone();
        const HEAD: &[u8] =
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let (events, is_whole) = match script {
            Script::Status(status, body) => return json(&mut socket, status, body),
            Script::Busy(retry_after) => {
                let head = format!("retry-after: {retry_after}\r\ncontent-length: 0");
                write!(socket, "HTTP/1.1 429 X\r\n{head}\r\nconnection: close\r\n\r\n").ok();
                return;
            }
            Script::Silence => {
                socket.write_all(HEAD).ok();
                socket.read_exact(&mut [0]).ok(); // Until the client leaves.
                return;
            }
            Script::Events(events) => (events, false),
            Script::Whole(events) => (events, true),
        };
        socket.write_all(HEAD).ok();
        for event in events {
            write!(socket, "data: {event}\n\n").ok();
        }
        if is_whole {
            socket.write_all(b"data: [DONE]\n\n").ok();
        }
    }
}

pub fn read(socket: &TcpStream) -> Option<ReceivedRequest> {
    let mut reader = BufReader::new(socket);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut headers, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(bytes) = line.strip_prefix("content-length: ") {
            length = bytes.parse().unwrap();
        }
        headers.push_str(&line);
        headers.push('\n');
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(ReceivedRequest { path, headers, body: serde_json::from_slice(&body).unwrap_or_default() })
}
