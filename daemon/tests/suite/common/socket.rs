//! A client of the realtime WebSocket.

use std::net::TcpStream;

use hob_testkit::wait::PATIENCE;
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::StatusCode;
use tungstenite::{Error, Message, WebSocket};

use super::{TOKEN, World};

pub struct Client {
    pub socket: WebSocket<TcpStream>,
}

impl Client {
    /// Connects with these headers.
    pub fn with(world: &World, headers: &[(&'static str, String)]) -> Result<Self, StatusCode> {
        let url = format!("ws://{}/v1/realtime/events", world.address);
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(world.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(Self { socket }),
            Err(tungstenite::HandshakeError::Failure(Error::Http(answer))) => Err(answer.status()),
            Err(error) => panic!("{error}"),
        }
    }

    /// A client of `conversation`, at temperature 0.
    pub fn new(world: &World, conversation: &str) -> Self {
        let token = ("authorization", format!("Bearer {TOKEN}"));
        let mut client = Self::with(world, &[token]).unwrap();
        assert_eq!(client.next()["type"], "session.created");
        let session = json!({"conversation": conversation, "temperature": 0, "max_tokens": 8});
        client.send(json!({"type": "session.update", "session": session}));
        assert_eq!(client.next()["session"]["conversation"], conversation);
        client
    }

    pub fn send(&mut self, event: Value) {
        self.socket.send(Message::text(event.to_string())).unwrap();
    }

    pub fn partial(&mut self, text: &str) {
        let kind = "conversation.item.input_audio_transcription.delta";
        self.send(json!({"type": kind, "transcript": text}));
    }

    pub fn complete(&mut self, text: &str) {
        let kind = "conversation.item.input_audio_transcription.completed";
        self.send(json!({"type": kind, "transcript": text}));
    }

    pub fn next(&mut self) -> Value {
        next_message(&mut self.socket)
    }

    /// The events up to the first of this type.
    pub fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut events = Vec::new();
        while events.last().is_none_or(|last: &Value| last["type"] != kind) {
            events.push(self.next());
        }
        events
    }

    /// The events up to `response.done`.
    pub fn answer(&mut self) -> Vec<Value> {
        self.until("response.done")
    }
}

/// The next message that is a text: an object.
pub fn next_message(socket: &mut WebSocket<TcpStream>) -> Value {
    loop {
        if let Message::Text(text) = socket.read().unwrap() {
            return serde_json::from_str(&text).unwrap();
        }
    }
}

pub fn started() -> Value {
    json!({"type": "input_audio_buffer.speech_started"})
}

pub fn stopped() -> Value {
    json!({"type": "input_audio_buffer.speech_stopped"})
}
