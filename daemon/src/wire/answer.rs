//! What goes back: whole answers and the chunks of a stream, in OpenAI's shape.
//!
//! - `hob` rides in the answer, or in the last chunk of a stream.
//! - A logarithm of zero is written as -9999, as OpenAI's does: JSON has no infinity.

use hob_runtime::turn::{Logprobs, TokenLogprob};
use serde_json::{Map, Value, json};

const LOG_OF_ZERO: f32 = -9999.0;

/// What every object of one answer repeats.
#[derive(Clone, Debug)]
pub struct Head {
    /// The answer's id.
    pub id: String,
    /// Seconds since 1970.
    pub created: u64,
    /// The model's name.
    pub model: String,
    /// The model's fingerprint.
    pub fingerprint: String,
}

/// Tokens of one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of the prompt; once, however many answers there are.
    pub prompt: usize,
    /// Of the prompt, not computed.
    pub cached: usize,
    /// Generated.
    pub completion: usize,
    /// Generated between think marks.
    pub reasoning: usize,
}

impl Usage {
    /// OpenAI's `usage`.
    pub fn to_json(self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning},
        })
    }
}

impl Head {
    /// A whole answer: `object` is `chat.completion` or `text_completion`.
    pub fn whole(&self, object: &str, choices: Vec<Value>, usage: Usage, hob: Value) -> Value {
        let mut answer = self.begin(object, choices);
        answer.insert("usage".into(), usage.to_json());
        answer.insert("hob".into(), hob);
        Value::Object(answer)
    }

    /// A chunk: `object` is `chat.completion.chunk` or `text_completion`. `usage` is there, and
    /// null in all chunks but the last, when the client asked for it.
    pub fn chunk(&self, object: &str, choices: Vec<Value>, with_usage: bool) -> Map<String, Value> {
        let mut chunk = self.begin(object, choices);
        if with_usage {
            chunk.insert("usage".into(), Value::Null);
        }
        chunk
    }

    fn begin(&self, object: &str, choices: Vec<Value>) -> Map<String, Value> {
        let mut begin = Map::new();
        begin.insert("id".into(), self.id.as_str().into());
        begin.insert("object".into(), object.into());
        begin.insert("created".into(), self.created.into());
        begin.insert("model".into(), self.model.as_str().into());
        begin.insert("system_fingerprint".into(), self.fingerprint.as_str().into());
        begin.insert("choices".into(), choices.into());
        begin
    }
}

/// `logprobs` of a chat choice.
pub fn chat_logprobs(tokens: &[Logprobs]) -> Value {
    let content: Vec<Value> = tokens
        .iter()
        .map(|token| {
            let mut entry = chat_logprob(&token.chosen);
            entry["top_logprobs"] = token.top.iter().map(chat_logprob).collect();
            entry
        })
        .collect();
    json!({"content": content, "refusal": null})
}

fn chat_logprob(token: &TokenLogprob) -> Value {
    json!({
        "token": String::from_utf8_lossy(&token.bytes),
        "logprob": finite(token.logprob),
        "bytes": token.bytes,
    })
}

/// `logprobs` of a completion choice; `offset` is where the first token's text begins.
pub fn completion_logprobs(tokens: &[Logprobs], mut offset: usize) -> Value {
    let (mut texts, mut chosen, mut tops, mut offsets) = (vec![], vec![], vec![], vec![]);
    for token in tokens {
        let text = String::from_utf8_lossy(&token.chosen.bytes);
        offsets.push(offset);
        offset += text.chars().count();
        texts.push(text);
        chosen.push(finite(token.chosen.logprob));
        let top = token.top.iter().map(|top| {
            (String::from_utf8_lossy(&top.bytes).into_owned(), json!(finite(top.logprob)))
        });
        tops.push(top.collect::<Map<_, _>>());
    }
    json!({
        "tokens": texts, "token_logprobs": chosen, "top_logprobs": tops, "text_offset": offsets,
    })
}

fn finite(logprob: f32) -> f32 {
    if logprob.is_finite() { logprob } else { LOG_OF_ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hob_slots::Token;

    fn token(bytes: &[u8], logprob: f32) -> TokenLogprob {
        TokenLogprob { token: Token(0), bytes: bytes.to_vec(), logprob }
    }

    #[test]
    fn a_token_of_no_probability_is_still_json() {
        let tokens = [Logprobs {
            chosen: token(b"a", -0.5),
            top: vec![token(b"a", -0.5), token(&[0xff], f32::NEG_INFINITY)],
        }];
        let chat = chat_logprobs(&tokens);
        assert_eq!(chat["content"][0]["bytes"], json!([97]));
        assert_eq!(chat["content"][0]["top_logprobs"][1]["logprob"], json!(-9999.0));
        let completion = completion_logprobs(&tokens, 4);
        assert_eq!(completion["text_offset"], json!([4]));
        assert_eq!(completion["token_logprobs"], json!([-0.5]));
    }
}
