//! A hobd process that can be killed at any moment, and a client that survives it.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hob_slots::ModelHash;
use serde_json::Value;

/// Machines that run tests are busy with other things too.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running hobd on the bundled model. It never outlives its value.
pub struct Hobd {
    process: Child,
    pub client: Client,
    pub model: ModelHash,
}

impl Hobd {
    /// Starts one in `directory` and waits until requests are served.
    pub fn start(directory: &Path) -> Self {
        let ready_file = directory.join("ready.json");
        fs::remove_file(&ready_file).ok();
        let mut starting = Starting::begin(directory);
        let ready = wait("hobd serves requests", || {
            assert!(starting.lives(), "hobd ended at once: {}", log(directory));
            fs::read_to_string(&ready_file).ok()
        });
        let ready: Value = serde_json::from_str(&ready).unwrap();
        let text = |name: &str| ready[name].as_str().unwrap();
        let client = Client {
            address: text("address").parse().unwrap(),
            token: fs::read_to_string(text("token_file")).unwrap().trim().to_owned(),
        };
        Self { process: starting.keep(), client, model: text("fingerprint").parse().unwrap() }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Hobd {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

/// A hobd that may not serve yet.
pub struct Starting(Option<Child>);

impl Starting {
    pub fn begin(directory: &Path) -> Self {
        let log = fs::File::options().create(true).append(true).open(log_file(directory)).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_hobd"))
            .env_clear() // The settings of whoever runs the tests must not matter.
            .env("HOME", directory)
            .args(["--listen", "127.0.0.1:0", "--threads", "1", "--slots", "2", "--log", "warn"])
            // Every start sweeps, and compresses what the last one left.
            .args(["--compress-after", "1s"])
            .arg("--data-dir")
            .arg(directory.join("data"))
            .arg("--slots-dir")
            .arg(directory.join("slots"))
            .arg("--ready-file")
            .arg(directory.join("ready.json"))
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self(Some(process))
    }

    fn lives(&mut self) -> bool {
        self.0.as_mut().is_some_and(|process| process.try_wait().unwrap().is_none())
    }

    fn keep(mut self) -> Child {
        self.0.take().expect("only this takes it")
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(process) = &mut self.0 {
            end(process);
        }
    }
}

fn end(process: &mut Child) {
    process.kill().ok(); // An error: it has ended already.
    process.wait().ok();
}

/// Talks to a hobd, and takes it well when that dies.
#[derive(Clone, Debug)]
pub struct Client {
    address: SocketAddr,
    token: String,
}

impl Client {
    /// A chat that is answered in events. They stop where the process does.
    pub fn stream(&self, request: &Value) -> impl Iterator<Item = Event> + use<> {
        let reader = self.send("POST", "/v1/chat/completions", &request.to_string());
        let lines = reader.into_iter().flat_map(BufRead::lines).map_while(Result::ok);
        lines.filter_map(|line| match line.strip_prefix("data: ")? {
            "[DONE]" => Some(Event::Done),
            data => serde_json::from_str(data).ok().map(Event::Data), // Or it was cut off here.
        })
    }

    /// A chat that is answered as a whole.
    pub fn chat(&self, request: &Value) -> Value {
        let answer = self.read("POST", "/v1/chat/completions", &request.to_string());
        serde_json::from_str(&answer).unwrap()
    }

    /// What is kept of a conversation, if it is known at all.
    pub fn conversation(&self, name: &str) -> Option<Value> {
        let list = self.get("/v1/conversations");
        let mut known = list["data"].as_array().unwrap().iter();
        known.find(|known| known["id"] == name)?;
        Some(self.get(&format!("/v1/conversations/{name}")))
    }

    pub fn get(&self, path: &str) -> Value {
        serde_json::from_str(&self.get_text(path)).unwrap()
    }

    pub fn get_text(&self, path: &str) -> String {
        self.read("GET", path, "")
    }

    fn read(&self, method: &str, path: &str, body: &str) -> String {
        let mut answer = String::new();
        self.send(method, path, body).unwrap().read_to_string(&mut answer).unwrap();
        answer
    }

    /// HTTP/1.0: the answer's body ends where the connection does, however that ends.
    fn send(&self, method: &str, path: &str, body: &str) -> io::Result<BufReader<TcpStream>> {
        let mut socket = TcpStream::connect(self.address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let (address, token, length) = (self.address, &self.token, body.len());
        let head = format!(
            "{method} {path} HTTP/1.0\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        socket.write_all(head.as_bytes())?;
        let mut reader = BufReader::new(socket);
        let mut line = String::new();
        while reader.read_line(&mut line)? > 2 {
            assert!(!line.starts_with("HTTP") || line.contains(" 200 "), "{path}: {line}");
            line.clear();
        }
        Ok(reader)
    }
}

/// A piece of an answer.
#[derive(Clone, Debug)]
pub enum Event {
    Data(Value),
    /// The answer is complete.
    Done,
}

/// What hobd said on standard error.
pub fn log(directory: &Path) -> String {
    fs::read_to_string(log_file(directory)).unwrap_or_default()
}

fn log_file(directory: &Path) -> PathBuf {
    directory.join("log")
}

/// Waits until `done` has something to say, within reason.
pub fn wait<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(done) = done() {
            return done;
        }
        assert!(Instant::now() < end, "still not: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
