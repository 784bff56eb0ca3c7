//! One turn of `hob chat` or `hob ask`: sends the messages and prints the answer as it streams in.

use std::io::Write;

use hob_api::Turn;
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{count, plain};

/// Flags of `chat` and `ask` that shape the answer.
#[derive(clap::Args)]
pub struct Shape {
    /// Generate at most this many tokens
    #[arg(long, value_name = "TOKENS")]
    max_tokens: Option<u32>,

    /// Randomness of the answer, from 0 to 2; 0 always picks the most likely token
    #[arg(long, value_name = "NUMBER", default_value_t = 0.3)]
    temperature: f64,
}

pub struct Question<'a> {
    /// Those that the daemon does not know yet.
    pub messages: Vec<Value>,
    /// The conversation that they continue.
    pub conversation: Option<&'a str>,
    /// Leave out the oldest messages if not all fit into the context.
    pub newest: bool,
    /// Neither text nor KV may reach the disk.
    pub private: bool,
    pub shape: &'a Shape,
}

#[derive(Default)]
pub struct Answer {
    pub text: String,
    pub reasoning: String,
    pub finish_reason: Option<String>,
    /// Token counts in OpenAI's shape.
    pub usage: Value,
    /// The daemon's report of the turn, see [`Turn`].
    pub hob: Value,
}

impl Answer {
    /// The document that `--json` prints.
    pub fn to_json(&self) -> Value {
        let reasoning = Some(&self.reasoning).filter(|text| !text.is_empty());
        json!({
            "answer": self.text,
            "reasoning": reasoning,
            "finish_reason": self.finish_reason,
            "usage": self.usage,
            "hob": self.hob,
        })
    }
}

/// Sends the question and, without `--json`, prints the answer while it streams in.
pub fn ask(
    client: &Client,
    question: &Question<'_>,
    context: &mut Context,
) -> Result<Answer, Failure> {
    let mut answer = Answer::default();
    let mut thinking = false;
    for chunk in client.chat(&body(question))? {
        let mut chunk = chunk?;
        let choice = chunk.choices.drain(..).next().unwrap_or_default();
        let reasoning = choice.delta.reasoning_content.unwrap_or_default();
        let text = choice.delta.content.unwrap_or_default();
        if !context.json && !reasoning.is_empty() {
            thinking = true;
            let dimmed = context.dim(&plain(&reasoning));
            write!(context.out, "{dimmed}")?;
        }
        if !context.json && !text.is_empty() {
            if std::mem::take(&mut thinking) {
                writeln!(context.out, "\n")?;
            }
            write!(context.out, "{}", shown(&text, context.terminal.output))?;
        }
        context.out.flush()?;
        answer.reasoning.push_str(&reasoning);
        answer.text.push_str(&text);
        answer.finish_reason = choice.finish_reason.or(answer.finish_reason);
        replace(&mut answer.usage, chunk.usage);
        replace(&mut answer.hob, chunk.hob);
    }
    Ok(answer)
}

/// Where the prompt's tokens came from, as the line under an answer:
/// `84 ms to first token · 6,214 tokens from disk · 31 computed`. Tokens that were in cells already
/// are hot.
pub fn footer(hob: &Value) -> String {
    let turn: Turn = serde_json::from_value(hob.clone()).unwrap_or_default();
    let mut parts = Vec::new();
    if let Some(millis) = turn.ttft_ms {
        parts.push(format!("{millis:.0} ms to first token"));
    }
    let origins = turn.origins();
    let reused =
        [(origins.shared, "hot"), (origins.memory, "from memory"), (origins.disk, "from disk")];
    let mut unit = " tokens"; // Only behind the first count.
    for (tokens, origin) in reused {
        if tokens > 0 {
            parts.push(format!("{}{unit} {origin}", count(tokens as u64)));
            unit = "";
        }
    }
    if turn.tokens.is_some() {
        parts.push(format!("{}{unit} computed", count(origins.computed as u64)));
    }
    if turn.left_out > 0 {
        parts.push(format!("{} older messages left out", count(turn.left_out as u64)));
    }
    let explained = turn.explanation.map(|explanation| explanation.what);
    if let Some(reason) = explained.or(turn.miss) {
        parts.push(format!("because {}", plain(&reason)));
    }
    parts.join(" · ")
}

fn body(question: &Question<'_>) -> Value {
    let mut body = Map::new();
    body.insert("messages".into(), question.messages.clone().into());
    body.insert("stream".into(), true.into());
    body.insert("stream_options".into(), json!({"include_usage": true}));
    if let Some(conversation) = question.conversation {
        body.insert("conversation".into(), conversation.into());
        body.insert("hob".into(), extension(question.newest, question.private));
    }
    body.insert("temperature".into(), question.shape.temperature.into());
    if let Some(max_tokens) = question.shape.max_tokens {
        body.insert("max_tokens".into(), max_tokens.into());
    }
    body.into()
}

/// The `hob` object of a request that continues a conversation.
pub fn extension(newest: bool, private: bool) -> Value {
    let fields = [("append", true), ("newest", newest), ("private", private)];
    let asked = fields.into_iter().filter(|(_, asked)| *asked);
    asked.map(|(name, asked)| (name.to_owned(), asked.into())).collect::<Map<_, _>>().into()
}

/// A terminal gets the text without control characters, a file the text itself.
fn shown(text: &str, on_terminal: bool) -> String {
    if on_terminal { plain(text) } else { text.to_owned() }
}

fn replace(old: &mut Value, new: Value) {
    if !new.is_null() {
        *old = new;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_footer_says_where_the_tokens_came_from() {
        let tokens = json!({"shared": 0, "memory": 0, "disk": 6214, "computed": 31});
        let hob = json!({"tokens": tokens, "ttft_ms": 84.2, "miss": null});
        assert_eq!(footer(&hob), "84 ms to first token · 6,214 tokens from disk · 31 computed");
        let tokens = json!({"shared": 64, "memory": 100, "disk": 0, "computed": 1});
        assert_eq!(
            footer(&json!({"tokens": tokens, "ttft_ms": 3, "miss": "first message differs"})),
            "3 ms to first token · 64 tokens hot · 100 from memory · 1 computed · because first \
             message differs"
        );
        let tokens = json!({"shared": 64, "memory": 0, "disk": 0, "computed": 1});
        let ahead = json!({"memory": 0, "disk": 60, "computed": 0});
        assert_eq!(
            footer(&json!({"tokens": tokens, "ahead": ahead})),
            "4 tokens hot · 60 from disk · 1 computed"
        );
        let explanation = json!({"what": "a time or date in message 1"});
        assert_eq!(
            footer(&json!({"miss": "token 4 of 8", "explanation": explanation})),
            "because a time or date in message 1"
        );
        let tokens = json!({"computed": 9});
        let left_out = json!({"tokens": tokens, "left_out": 8});
        assert_eq!(footer(&left_out), "9 tokens computed · 8 older messages left out");
        let tokens = json!({"computed": 1000});
        assert_eq!(footer(&json!({"tokens": tokens})), "1,000 tokens computed");
        assert_eq!(footer(&Value::Null), "");
    }

    #[test]
    fn append_is_sent_with_a_conversation_only() {
        let messages = vec![json!({"role": "user", "content": "hi"})];
        let shape = &Shape { max_tokens: None, temperature: 0.0 };
        let question =
            Question { messages, conversation: None, newest: false, private: false, shape };
        assert!(body(&question).get("hob").is_none());
        let body = body(&Question { conversation: Some("c"), ..question });
        assert_eq!(body["hob"], json!({"append": true}));
        assert_eq!(body["conversation"], "c");
    }
}
