//! HTTP by hand: whatever a polite client would not send can be sent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A request that is being put together.
pub struct Call {
    address: SocketAddr,
    head: String,
    has_host: bool,
    body: Vec<u8>,
}

impl Call {
    pub fn new(address: SocketAddr, method: &str, path: &str) -> Self {
        let head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        Self { address, head, has_host: false, body: Vec::new() }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.has_host |= name.eq_ignore_ascii_case("host");
        self.head.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    pub fn json(self, body: &Value) -> Self {
        self.header("content-type", "application/json").body(body.to_string().into_bytes())
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        let length = self.body.len();
        self.header("content-length", &length.to_string())
    }

    /// Sends it and reads the whole answer.
    pub fn send(self) -> Answer {
        let (status, headers, mut reader) = self.begin();
        let mut body = Vec::new();
        if is_chunked(&headers) {
            while let Some(chunk) = read_chunk(&mut reader) {
                body.extend(chunk);
            }
        } else {
            reader.read_to_end(&mut body).unwrap();
        }
        Answer { status, headers, body }
    }

    /// Sends it and reads the answer's events one by one.
    pub fn stream(self) -> Stream {
        let (status, _, reader) = self.begin();
        Stream { status, reader, text: String::new() }
    }

    /// Sends it and waits for nothing. Dropping the connection goes away.
    pub fn open(mut self) -> TcpStream {
        if !self.has_host {
            self.head.push_str(&format!("host: {}\r\n", self.address));
        }
        let mut socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.write_all(self.head.as_bytes()).unwrap();
        socket.write_all(b"\r\n").unwrap();
        socket.write_all(&self.body).ok(); // A refused body need not be taken.
        socket
    }

    fn begin(self) -> (u16, Vec<(String, String)>, BufReader<TcpStream>) {
        let mut reader = BufReader::new(self.open());
        let status = line(&mut reader);
        let status = status.split(' ').nth(1).unwrap_or_else(|| panic!("no status in {status:?}"));
        let mut headers = Vec::new();
        loop {
            let line = line(&mut reader);
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        (status.parse().unwrap(), headers, reader)
    }
}

fn line(reader: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn is_chunked(headers: &[(String, String)]) -> bool {
    headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked")
}

fn read_chunk(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let length = usize::from_str_radix(&line(reader), 16).ok().filter(|length| *length > 0)?;
    let mut chunk = vec![0; length + 2];
    reader.read_exact(&mut chunk).ok()?;
    chunk.truncate(length);
    Some(chunk)
}

/// A whole answer.
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The error object; panics when there is none, or when it lacks a part.
    pub fn error(&self) -> Value {
        let error = self.json()["error"].clone();
        let keys: Vec<_> = error.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["message", "type", "param", "code"]);
        assert!(error["message"].is_string() && error["type"].is_string());
        error
    }
}

/// An answer that comes in events. Dropping it closes the connection.
pub struct Stream {
    pub status: u16,
    reader: BufReader<TcpStream>,
    text: String,
}

impl Stream {
    /// The data of the next event; `None` after the last one.
    pub fn next_data(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                match event.strip_prefix("data: ") {
                    Some(data) => return Some(data.to_owned()),
                    None => continue, // A comment.
                }
            }
            let chunk = read_chunk(&mut self.reader)?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next object; `None` after `[DONE]`.
    pub fn next(&mut self) -> Option<Value> {
        match self.next_data()?.as_str() {
            "[DONE]" => None,
            data => Some(serde_json::from_str(data).unwrap()),
        }
    }

    /// All objects to the end, which must be `[DONE]`.
    pub fn collect(mut self) -> Vec<Value> {
        let mut objects = Vec::new();
        loop {
            match self.next_data().expect("a stream ends with [DONE]").as_str() {
                "[DONE]" => return objects,
                data => objects.push(serde_json::from_str(data).unwrap()),
            }
        }
    }
}
