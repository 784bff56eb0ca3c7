//! The messages of the device bridge, as elizaOS's agent writes and reads them: `@elizaos/plugin-capacitor-bridge`
//! 2.0.0-beta.1 and `@elizaos/app-core` 2.0.0-alpha.537.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::error::ApiError;

/// Fields by which a request names its conversation or its hint. The agent sends none of them yet.
const KEYS: [&str; 6] =
    ["conversation", "eliza", "id_slot", "promptCacheKey", "prompt_cache_key", "providerOptions"];

/// A message of the agent.
#[derive(Debug, PartialEq)]
pub struct AgentMessage {
    /// Repeated in the answer; empty for a ping.
    pub id: String,
    pub request: Request,
}

#[derive(Debug, PartialEq)]
pub enum Request {
    Ping { at: Value },
    Load { path: String },
    Unload,
    Generate(Generate),
    Embed { input: String },
}

/// A prompt to answer.
#[derive(Debug, PartialEq)]
pub struct Generate {
    prompt: String,
    stop: Option<Value>,
    max_tokens: Option<u64>,
    temperature: Option<f64>,
    keys: Map<String, Value>,
}

impl AgentMessage {
    /// `None`: it is none of the messages that the agent sends.
    pub fn parse(text: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(text).ok()?;
        let string = |name: &str| message[name].as_str().map(str::to_owned);
        let request = match message["type"].as_str()? {
            "ping" => Request::Ping { at: message["at"].clone() },
            "load" => Request::Load { path: string("modelPath")? },
            "unload" => Request::Unload,
            "embed" => Request::Embed { input: string("input")? },
            "generate" => Request::Generate(Generate {
                prompt: string("prompt")?,
                stop: Some(message["stopSequences"].clone()).filter(Value::is_array),
                max_tokens: message["maxTokens"].as_u64(),
                temperature: message["temperature"].as_f64(),
                keys: KEYS
                    .iter()
                    .filter_map(|name| Some(((*name).to_owned(), message.get(name)?.clone())))
                    .collect(),
            }),
            _ => return None,
        };
        let is_ping = matches!(request, Request::Ping { .. });
        let id = string("correlationId").or_else(|| is_ping.then(String::new))?;
        Some(Self { id, request })
    }
}

impl Generate {
    /// The body of a chat. `default_tokens`: where the agent sets no limit.
    pub fn body(self, default_tokens: u64) -> Value {
        let mut body = self.keys;
        body.insert("messages".into(), json!([{"role": "user", "content": self.prompt}]));
        body.insert("max_tokens".into(), self.max_tokens.unwrap_or(default_tokens).into());
        if let Some(temperature) = self.temperature {
            body.insert("temperature".into(), temperature.into());
        }
        if let Some(stop) = self.stop {
            body.insert("stop".into(), stop);
        }
        body.into()
    }
}

/// The answer to a [`Request`] that is not a ping.
#[derive(Debug)]
pub enum Response {
    Loaded(Loaded),
    Unloaded,
    Generated { text: String, prompt_tokens: usize, output_tokens: usize, duration: Duration },
    Embedded { embedding: Vec<f32>, tokens: usize },
}

/// Weights that are in memory, under the agent's name of their file.
#[derive(Debug)]
pub struct Loaded {
    pub path: String,
}

pub fn pong(at: Value) -> Value {
    json!({"type": "pong", "at": at})
}

/// `kind`: the type of the answer, `loadResult` for `load`.
pub fn result(kind: &str, id: &str, response: Result<Response, ApiError>) -> Value {
    let mut message = json!({"type": kind, "correlationId": id, "ok": response.is_ok()});
    let fields = match response {
        Ok(Response::Loaded(Loaded { path })) => json!({"loadedPath": path}),
        Ok(Response::Unloaded) => json!({}),
        Ok(Response::Generated { text, prompt_tokens, output_tokens, duration }) => json!({
            "text": text,
            "promptTokens": prompt_tokens,
            "outputTokens": output_tokens,
            "durationMs": duration.as_millis() as u64,
        }),
        Ok(Response::Embedded { embedding, tokens }) => {
            json!({"embedding": embedding, "tokens": tokens})
        }
        Err(error) => json!({"error": error.message}),
    };
    if let (Some(message), Value::Object(fields)) = (message.as_object_mut(), fields) {
        message.extend(fields);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_the_message_of_a_chat() {
        let text = r#"{"type": "generate", "correlationId": "a", "prompt": "Hi", "stopSequences": ["x"],
            "maxTokens": 7, "temperature": 0.5, "promptCacheKey": "v5:room", "id_slot": 3}"#;
        let Some(AgentMessage { id, request: Request::Generate(generate) }) =
            AgentMessage::parse(text)
        else {
            panic!("it is a prompt")
        };
        assert_eq!(id, "a");
        let expected = json!({"id_slot": 3, "promptCacheKey": "v5:room",
            "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 7, "temperature": 0.5,
            "stop": ["x"]});
        assert_eq!(generate.body(9), expected);
    }

    #[test]
    fn other_messages_are_not_understood() {
        for text in [
            "",
            "[]",
            r#"{"type": "register"}"#,
            r#"{"type": "generate", "prompt": "Hi"}"#,
            r#"{"type": "embed", "correlationId": "a"}"#,
        ] {
            assert_eq!(AgentMessage::parse(text), None, "{text}");
        }
        assert!(AgentMessage::parse(r#"{"type": "ping", "at": 5}"#).is_some());
    }
}
