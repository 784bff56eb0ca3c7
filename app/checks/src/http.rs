//! Requests to hobd beside the page: they prepare a check and see what came of it.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::wait::PATIENCE;

/// Speaks to one hobd, and is let in.
#[derive(Clone, Debug)]
pub struct Client {
    /// Where it listens.
    pub address: SocketAddr,
    /// What lets a client in.
    pub token: String,
}

impl Client {
    /// Speaks to the hobd that has announced itself so, or has written that it is ready.
    pub fn of(announced: &Value) -> Self {
        let text = |name: &str| announced[name].as_str().expect("the announcement is complete");
        let token = fs::read_to_string(text("token_file")).expect("the token can be read");
        let address = text("address").parse().expect("it listens on an address");
        Self { address, token: token.trim().to_owned() }
    }

    /// What a path answers.
    ///
    /// # Panics
    /// Where that is an error, or no JSON.
    pub fn get(&self, path: &str) -> Value {
        self.json("GET", path, "")
    }

    /// The same for a body.
    pub fn post(&self, path: &str, body: &Value) -> Value {
        self.json("POST", path, &body.to_string())
    }

    /// A whole answer to one message, of which nothing before it need be known.
    pub fn say(&self, conversation: &str, text: &str) -> Value {
        self.post(
            "/v1/chat/completions",
            &serde_json::json!({
                "conversation": conversation, "hob": {"append": true}, "temperature": 0,
                "messages": [{"role": "user", "content": text}],
            }),
        )
    }

    /// Whether something is computed for a conversation.
    pub fn is_busy(&self, conversation: &str) -> bool {
        let map = self.get("/v1/memory/map");
        let busy = |slot: &Value| slot["conversation"] == conversation && slot["state"] != "idle";
        map["slots"].as_array().is_some_and(|slots| slots.iter().any(busy))
    }

    /// Gives a conversation a title.
    pub fn rename(&self, conversation: &str, title: &str) {
        let title = serde_json::json!({"title": title}).to_string();
        self.json("PATCH", &format!("/v1/conversations/{conversation}"), &title);
    }

    /// An answer of the fake model that calls a tool with one argument.
    pub fn call_tool(&self, conversation: &str, tool: &str, name: &str, value: &str) -> Value {
        // The engine wants a forced call in this very form.
        let arguments = serde_json::json!({name: value});
        let call = format!(r#"{{"name": "{tool}", "arguments": {arguments}}}"#);
        let schema = serde_json::json!({
            "type": "object", "properties": {name: {"type": "string"}}, "required": [name],
        });
        self.post(
            "/v1/chat/completions",
            &serde_json::json!({
                "conversation": conversation, "hob": {"append": true}, "tool_choice": "required",
                "parallel_tool_calls": false,
                "messages": [{
                    "role": "user",
                    "content": format!("Say this: <tool_call>\n{call}\n</tool_call>"),
                }],
                "tools": [{"type": "function", "function": {"name": tool, "parameters": schema}}],
            }),
        )
    }

    fn json(&self, method: &str, path: &str, body: &str) -> Value {
        let (status, answer) = self.send(method, path, body).expect("hobd answers");
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{method} {path}: {e}: {answer}"))
    }

    /// Status and body. HTTP/1.0: the body ends where the connection does.
    pub fn send(&self, method: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
        let mut socket = TcpStream::connect(self.address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let (address, token, length) = (self.address, &self.token, body.len());
        let head = format!(
            "{method} {path} HTTP/1.0\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        socket.write_all(head.as_bytes())?;
        socket.write_all(body.as_bytes())?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "no HTTP answer");
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(bad)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok((status.ok_or_else(bad)?, body.to_owned()))
    }
}
