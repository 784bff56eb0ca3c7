//! HTTP/1.1 over a plain socket, so that a test can send what no HTTP library would.
//!
//! - `send`, `stream` and `open` panic when hobd is gone; `try_…` return the error.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::wait::patience;

/// A request that is not sent yet.
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
        self.try_send().expect("hobd answers")
    }

    pub fn try_send(self) -> io::Result<Answer> {
        let (status, headers, mut reader) = self.try_begin()?;
        let mut body = Vec::new();
        if is_chunked(&headers) {
            while let Some(chunk) = read_chunk(&mut reader)? {
                body.extend(chunk);
            }
        } else {
            reader.read_to_end(&mut body)?;
        }
        Ok(Answer { status, headers, body })
    }

    /// Sends it and reads the answer's events one by one.
    pub fn stream(self) -> Stream {
        self.try_stream().expect("hobd answers")
    }

    pub fn try_stream(self) -> io::Result<Stream> {
        let (status, headers, reader) = self.try_begin()?;
        Ok(Stream { status, headers, reader, text: String::new() })
    }

    /// Sends it without reading the answer. Dropping the socket closes the connection.
    pub fn open(self) -> TcpStream {
        self.try_open().expect("hobd listens")
    }

    fn try_open(mut self) -> io::Result<TcpStream> {
        if !self.has_host {
            self.head.push_str(&format!("host: {}\r\n", self.address));
        }
        let mut socket = TcpStream::connect(self.address)?;
        socket.set_read_timeout(Some(patience()))?;
        socket.write_all(self.head.as_bytes())?;
        socket.write_all(b"\r\n")?;
        socket.write_all(&self.body).ok(); // hobd may refuse a body without reading it.
        Ok(socket)
    }

    fn try_begin(self) -> io::Result<(u16, Headers, BufReader<TcpStream>)> {
        let mut reader = BufReader::new(self.try_open()?);
        let status = read_line(&mut reader)?;
        let code = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let code = code.ok_or_else(|| invalid(format!("no status in {status:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = read_line(&mut reader)?;
            // A value may be empty: llama-server sends such headers.
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim_start().to_owned()));
        }
        Ok((code, headers, reader))
    }
}

type Headers = Vec<(String, String)>;

fn read_line(reader: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

fn value_of<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn is_chunked(headers: &[(String, String)]) -> bool {
    headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked")
}

/// `None` after the last chunk, and where the connection breaks off.
fn read_chunk(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Vec<u8>>> {
    let line = read_line(reader)?;
    let Some(length) = usize::from_str_radix(&line, 16).ok().filter(|length| *length > 0) else {
        return Ok(None);
    };
    let mut chunk = vec![0; length + 2];
    if reader.read_exact(&mut chunk).is_err() {
        return Ok(None);
    }
    chunk.truncate(length);
    Ok(Some(chunk))
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// A whole answer.
pub struct Answer {
    pub status: u16,
    pub headers: Headers,
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
        value_of(&self.headers, name)
    }

    /// The error object.
    ///
    /// # Panics
    /// When there is none, or when a field of it is missing.
    pub fn error(&self) -> Value {
        let error = self.json()["error"].clone();
        let keys: Vec<_> = error.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys[..4], ["message", "type", "param", "code"]);
        // llama-server's clients read these.
        let is_too_long = error["type"] == "exceed_context_size_error";
        let numbers: &[&str] = if is_too_long { &["n_prompt_tokens", "n_ctx"] } else { &[] };
        assert_eq!(&keys[4..], numbers);
        assert!(error["message"].is_string() && error["type"].is_string());
        error
    }
}

/// An answer of server-sent events. Dropping it closes the connection.
pub struct Stream {
    pub status: u16,
    headers: Headers,
    reader: BufReader<TcpStream>,
    text: String,
}

impl Stream {
    pub fn header(&self, name: &str) -> Option<&str> {
        value_of(&self.headers, name)
    }

    /// The data of the next event; `None` after the last one.
    pub fn next_data(&mut self) -> Option<String> {
        self.try_next_data().expect("the stream goes on")
    }

    pub fn try_next_data(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                match event.strip_prefix("data: ") {
                    Some(data) => return Ok(Some(data.to_owned())),
                    None => continue, // A comment.
                }
            }
            let Some(chunk) = read_chunk(&mut self.reader)? else { return Ok(None) };
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Name and data of the next event that has a name; `None` at the end of the connection.
    pub fn next_named(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let named =
                    event.strip_prefix("event: ").and_then(|rest| rest.split_once("\ndata: "));
                let Some((name, data)) = named else { continue }; // A comment.
                return Some((name.to_owned(), serde_json::from_str(data).expect("data is JSON")));
            }
            let chunk = read_chunk(&mut self.reader).expect("the stream goes on")?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
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

/// The objects; `None` after `[DONE]`.
impl Iterator for Stream {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        match self.next_data()?.as_str() {
            "[DONE]" => None,
            data => Some(serde_json::from_str(data).unwrap()),
        }
    }
}
