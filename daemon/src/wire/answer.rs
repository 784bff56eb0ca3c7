//! Answers and the chunks of a stream, in OpenAI's shape.
//!
//! - `hob` is a field of the answer, or of the last chunk of a stream.
//! - The logarithm of zero is -9999, as in OpenAI's API: JSON has no infinity.

use hob_runtime::turn::{DraftCounts, Logprobs, TokenLogprob};
use serde_json::{Map, Value, json};

const LOG_OF_ZERO: f32 = -9999.0;

/// The fields that every object of one answer repeats.
#[derive(Clone, Debug)]
pub struct Head {
    pub id: String,
    /// Seconds since 1970.
    pub created: u64,
    pub model: String,
    pub fingerprint: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt, counted once for all choices.
    pub prompt: usize,
    /// Tokens of the prompt that were reused.
    pub cached: usize,
    pub completion: usize,
    /// Generated tokens between think marks.
    pub reasoning: usize,
    /// Guessed tokens. OpenAI calls them predictions; those that were wrong are not in `completion`.
    pub drafts: DraftCounts,
}

/// OpenAI's `finish_reason` of a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndReason {
    /// The model ended it, or a stop text or a stop token of the request did.
    #[default]
    Stop,
    /// The limit of tokens, or the end of the context.
    Length,
    ToolCalls,
    /// Only an engine at another address has a filter.
    ContentFilter,
}

impl EndReason {
    /// `None`: OpenAI has no such word. An engine at another address and an imported message may have any.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::Stop, Self::Length, Self::ToolCalls, Self::ContentFilter];
        all.into_iter().find(|reason| reason.as_str() == word)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
        }
    }
}

impl Usage {
    /// OpenAI's `usage`.
    pub fn to_json(self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {
                "reasoning_tokens": self.reasoning,
                "accepted_prediction_tokens": self.drafts.accepted,
                "rejected_prediction_tokens": self.drafts.drafted - self.drafts.accepted,
            },
        })
    }
}

impl Head {
    /// `object`: `chat.completion` or `text_completion`.
    pub fn whole(&self, object: &str, choices: Vec<Value>, usage: Usage, hob: Value) -> Value {
        let mut answer = self.common_fields(object, choices);
        answer.insert("usage".into(), usage.to_json());
        answer.insert("hob".into(), hob);
        Value::Object(answer)
    }

    /// `object`: `chat.completion.chunk` or `text_completion`. If the client asked for the usage, it
    /// is null in all chunks but the last.
    pub fn chunk(&self, object: &str, choices: Vec<Value>, with_usage: bool) -> Map<String, Value> {
        let mut chunk = self.common_fields(object, choices);
        if with_usage {
            chunk.insert("usage".into(), Value::Null);
        }
        chunk
    }

    fn common_fields(&self, object: &str, choices: Vec<Value>) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("id".into(), self.id.as_str().into());
        fields.insert("object".into(), object.into());
        fields.insert("created".into(), self.created.into());
        fields.insert("model".into(), self.model.as_str().into());
        fields.insert("system_fingerprint".into(), self.fingerprint.as_str().into());
        fields.insert("choices".into(), choices.into());
        fields
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

/// The tokens of a piece of an answer without those in front of its `text`, such as marks of reasoning. The text is
/// the last that the tokens write.
pub fn of_text<'t>(text: &str, tokens: &'t [Logprobs]) -> &'t [Logprobs] {
    let bytes = tokens.iter().flat_map(|token| token.chosen.bytes.iter().copied());
    let bytes: Vec<u8> = bytes.collect();
    let begin = bytes.windows(text.len().max(1)).rposition(|part| part == text.as_bytes());
    // The first bytes of the text may be in a token of an earlier piece: then no token stands in front of it.
    let Some(begin) = begin else { return tokens };
    let mut end = 0;
    let in_front = tokens.iter().take_while(|token| {
        end += token.chosen.bytes.len();
        end <= begin
    });
    &tokens[in_front.count()..]
}

fn chat_logprob(token: &TokenLogprob) -> Value {
    json!({
        "token": String::from_utf8_lossy(&token.bytes),
        "logprob": finite(token.logprob),
        "bytes": token.bytes,
    })
}

/// `logprobs` of a completion choice. `offset`: where the text of the first token begins; behind it, that of the next
/// one.
pub fn completion_logprobs(tokens: &[Logprobs], offset: &mut TextOffset) -> Value {
    let (mut texts, mut chosen, mut tops, mut offsets) = (vec![], vec![], vec![], vec![]);
    for token in tokens {
        offsets.push(offset.add(&token.chosen.bytes));
        texts.push(String::from_utf8_lossy(&token.chosen.bytes));
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

/// Where the tokens of one choice begin in its text.
#[derive(Clone, Debug, Default)]
pub struct TextOffset {
    /// Whole characters so far.
    characters: usize,
    /// The beginning of a character.
    rest: Vec<u8>,
}

impl TextOffset {
    /// Where a token of these bytes begins, in characters. One that continues a character begins where that does.
    fn add(&mut self, bytes: &[u8]) -> usize {
        let begin = self.characters;
        self.rest.extend_from_slice(bytes);
        let broken = self.rest.utf8_chunks().last().map_or(b"".as_slice(), |chunk| chunk.invalid());
        let is_begun = str::from_utf8(broken).is_err_and(|error| error.error_len().is_none());
        let whole = self.rest.len() - if is_begun { broken.len() } else { 0 };
        let rest = self.rest.split_off(whole);
        let complete = std::mem::replace(&mut self.rest, rest);
        self.characters += String::from_utf8_lossy(&complete).chars().count();
        begin
    }
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
    fn a_token_of_probability_zero_is_valid_json() {
        let tokens = [Logprobs {
            chosen: token(b"a", -0.5),
            top: vec![token(b"a", -0.5), token(&[0xff], f32::NEG_INFINITY)],
        }];
        let chat = chat_logprobs(&tokens);
        assert_eq!(chat["content"][0]["bytes"], json!([97]));
        assert_eq!(chat["content"][0]["top_logprobs"][1]["logprob"], json!(-9999.0));
        let completion = completion_logprobs(&tokens, &mut TextOffset::default());
        assert_eq!(completion["text_offset"], json!([0]));
        assert_eq!(completion["token_logprobs"], json!([-0.5]));
    }

    #[test]
    fn the_tokens_of_a_text_are_those_behind_the_marks_in_front_of_it() {
        let tokens = |pieces: &[&str]| -> Vec<Logprobs> {
            let of = |piece: &&str| Logprobs { chosen: token(piece.as_bytes(), 0.0), top: vec![] };
            pieces.iter().map(of).collect()
        };
        let cases: [(&str, &[&str], usize); 5] = [
            ("Yes", &["</think>", "\n\n", "Yes"], 2),
            ("t", &["</", "think", ">t"], 2),
            ("Yes, no", &["Yes", ",", " no"], 0),
            ("Yes", &["Yes", "<"], 0),
            ("é", &["<"], 0),
        ];
        for (text, pieces, in_front) in cases {
            let tokens = tokens(pieces);
            assert_eq!(of_text(text, &tokens), &tokens[in_front..], "{pieces:?}");
        }
        assert!(of_text("", &[]).is_empty());
    }

    #[test]
    fn a_character_of_several_tokens_counts_once_in_the_offsets_behind_it() {
        let pieces: [&[u8]; 7] = [b"a", b"\xf0\x9f", b"\x94", b"\xa5b", b"\xff", b"\xe2c", b"d"];
        let tokens = pieces.map(|bytes| Logprobs { chosen: token(bytes, 0.0), top: vec![] });
        let expected = [0, 1, 1, 1, 3, 4, 6]; // U+FFFD stands for what is no character.
        let whole = completion_logprobs(&tokens, &mut TextOffset::default());
        assert_eq!(whole["text_offset"], json!(expected));
        let mut offset = TextOffset::default();
        for (token, expected) in tokens.iter().zip(expected) {
            let piece = completion_logprobs(std::slice::from_ref(token), &mut offset);
            assert_eq!(piece["text_offset"], json!([expected]));
        }
    }
}
