//! Requests with the token of one hobd that must succeed.

use std::fs;
use std::io;
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::{Answer, Call, Stream};

const CHAT: &str = "/v1/chat/completions";

/// An address and the token that is valid there.
#[derive(Clone, Debug)]
pub struct Client {
    pub address: SocketAddr,
    pub token: String,
}

impl Client {
    /// The hobd that wrote `announced`: its `hobd.json` or its ready file.
    pub fn of(announced: &Value) -> Self {
        let text = |name: &str| announced[name].as_str().expect("the announcement is complete");
        let token = fs::read_to_string(text("token_file")).expect("the token is readable");
        let address = text("address").parse().expect("hobd announces an address");
        Self { address, token: token.trim().to_owned() }
    }

    /// A request with the token, not sent yet.
    pub fn call(&self, method: &str, path: &str) -> Call {
        let bearer = format!("Bearer {}", self.token);
        Call::new(self.address, method, path).header("authorization", &bearer)
    }

    pub fn get(&self, path: &str) -> Value {
        successful(self.call("GET", path).send()).json()
    }

    pub fn get_text(&self, path: &str) -> String {
        successful(self.call("GET", path).send()).text()
    }

    pub fn post(&self, path: &str, body: &Value) -> Value {
        successful(self.call("POST", path).json(body).send()).json()
    }

    pub fn patch(&self, path: &str, body: &Value) -> Value {
        successful(self.call("PATCH", path).json(body).send()).json()
    }

    /// `GET /v1/status`; `None` while no hobd serves there.
    pub fn try_status(&self) -> Option<Value> {
        let answer = self.call("GET", "/v1/status").try_send().ok()?;
        (answer.status == 200).then(|| answer.json())
    }

    pub fn chat(&self, request: &Value) -> Value {
        self.post(CHAT, request)
    }

    /// The events of a streamed chat. They end early when hobd dies.
    pub fn events(&self, request: &Value) -> impl Iterator<Item = Event> + use<> {
        let stream: io::Result<Stream> = self.call("POST", CHAT).json(request).try_stream();
        if let Ok(stream) = &stream {
            assert_eq!(stream.status, 200, "{CHAT}");
        }
        let mut stream = stream.ok();
        let data = std::iter::from_fn(move || stream.as_mut()?.try_next_data().ok()?);
        data.map_while(|data| match data.as_str() {
            "[DONE]" => Some(Event::Done),
            data => serde_json::from_str(data).ok().map(Event::Data),
        })
    }

    /// One message appended to a conversation, answered as a whole.
    pub fn say(&self, conversation: &str, text: &str) -> Value {
        self.chat(&json!({
            "conversation": conversation, "hob": {"append": true}, "temperature": 0,
            "messages": [{"role": "user", "content": text}],
        }))
    }

    /// Asks for a call of `tool` with one argument, which the fake model makes.
    pub fn call_tool(&self, conversation: &str, tool: &str, name: &str, value: &str) -> Value {
        // A forced call must have this very form.
        let arguments = json!({name: value});
        let call = format!(r#"{{"name": "{tool}", "arguments": {arguments}}}"#);
        let schema = json!({
            "type": "object", "properties": {name: {"type": "string"}}, "required": [name],
        });
        self.chat(&json!({
            "conversation": conversation, "hob": {"append": true}, "tool_choice": "required",
            "parallel_tool_calls": false,
            "messages": [{
                "role": "user",
                "content": format!("Say this: <tool_call>\n{call}\n</tool_call>"),
            }],
            "tools": [{"type": "function", "function": {"name": tool, "parameters": schema}}],
        }))
    }

    /// Whether a slot works for the conversation.
    pub fn is_busy(&self, conversation: &str) -> bool {
        let map = self.get("/v1/memory/map");
        let busy = |slot: &Value| slot["conversation"] == conversation && slot["state"] != "idle";
        map["slots"].as_array().is_some_and(|slots| slots.iter().any(busy))
    }

    pub fn rename(&self, conversation: &str, title: &str) {
        self.patch(&format!("/v1/conversations/{conversation}"), &json!({"title": title}));
    }
}

fn successful(answer: Answer) -> Answer {
    assert!((200..300).contains(&answer.status), "{}: {}", answer.status, answer.text());
    answer
}

/// An event of a streamed chat.
#[derive(Clone, Debug)]
pub enum Event {
    Data(Value),
    /// `[DONE]`: the answer is complete.
    Done,
}
