//! One turn with the daemon: the question goes out, the answer streams in. For `chat` and `ask`.

use std::io::Write;

use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{count, plain};

/// What shapes an answer: flags of `chat` and `ask`.
#[derive(clap::Args)]
pub struct Shape {
    /// The longest answer
    #[arg(long, value_name = "TOKENS")]
    max_tokens: Option<u32>,

    /// How much is left to chance, from 0 to 2; 0 always takes the likeliest word
    #[arg(long, value_name = "NUMBER", default_value_t = 0.3)]
    temperature: f64,
}

/// What is asked.
pub struct Question<'a> {
    /// The messages that are new.
    pub messages: Vec<Value>,
    /// The conversation that they continue.
    pub conversation: Option<&'a str>,
    /// What shapes the answer.
    pub shape: &'a Shape,
}

/// What came back.
#[derive(Default)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// What the model thought before it answered.
    pub reasoning: String,
    /// Why it ended.
    pub finish: Value,
    /// Tokens, as OpenAI counts them.
    pub usage: Value,
    /// Where the prompt's tokens came from.
    pub hob: Value,
}

impl Answer {
    /// The answer as one document.
    pub fn to_json(&self) -> Value {
        let reasoning = Some(&self.reasoning).filter(|text| !text.is_empty());
        json!({
            "answer": self.text,
            "reasoning": reasoning,
            "finish_reason": self.finish,
            "usage": self.usage,
            "hob": self.hob,
        })
    }
}

/// Asks, and writes the answer while it comes, unless results are JSON.
pub fn ask(
    client: &Client,
    question: &Question<'_>,
    context: &mut Context,
) -> Result<Answer, Failure> {
    let mut answer = Answer::default();
    let mut thinking = false;
    for chunk in client.stream("/v1/chat/completions", &body(question))? {
        let chunk = chunk?;
        let choice = &chunk["choices"][0];
        let reasoning = choice["delta"]["reasoning_content"].as_str().unwrap_or_default();
        let text = choice["delta"]["content"].as_str().unwrap_or_default();
        if !context.json && !reasoning.is_empty() {
            thinking = true;
            let quiet = context.dim(&plain(reasoning));
            write!(context.out, "{quiet}")?;
        }
        if !context.json && !text.is_empty() {
            if std::mem::take(&mut thinking) {
                writeln!(context.out, "\n")?;
            }
            write!(context.out, "{}", shown(text, context.terminal.output))?;
        }
        context.out.flush()?;
        answer.reasoning.push_str(reasoning);
        answer.text.push_str(text);
        keep(&mut answer.finish, &choice["finish_reason"]);
        keep(&mut answer.usage, &chunk["usage"]);
        keep(&mut answer.hob, &chunk["hob"]);
    }
    Ok(answer)
}

/// Where the tokens came from, as the line under an answer:
/// `84 ms to first token · 6,214 tokens from disk · 31 computed`. What the API calls shared is hot:
/// it never left the cache.
pub fn footer(hob: &Value) -> String {
    let mut parts = Vec::new();
    if let Some(millis) = hob["ttft_ms"].as_f64() {
        parts.push(format!("{millis:.0} ms to first token"));
    }
    // What came while somebody was about to ask is told by where it came from.
    let ahead = |name: &str| hob["ahead"][name].as_u64().unwrap_or(0);
    let all_ahead = ["memory", "disk", "computed"].map(ahead).iter().sum::<u64>();
    let tokens = |name: &str| {
        let told = hob["tokens"][name].as_u64().unwrap_or(0);
        if name == "shared" { told.saturating_sub(all_ahead) } else { told + ahead(name) }
    };
    let mut unit = " tokens"; // Said once, with the first count.
    for (name, place) in [("shared", "hot"), ("memory", "from memory"), ("disk", "from disk")] {
        if tokens(name) > 0 {
            parts.push(format!("{}{unit} {place}", count(tokens(name))));
            unit = "";
        }
    }
    if hob["tokens"].is_object() {
        parts.push(format!("{}{unit} computed", count(tokens("computed"))));
    }
    let told = hob["explanation"]["what"].as_str();
    if let Some(miss) = told.or_else(|| hob["miss"].as_str()) {
        parts.push(format!("because {}", plain(miss)));
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
        body.insert("hob".into(), json!({"append": true}));
    }
    body.insert("temperature".into(), question.shape.temperature.into());
    if let Some(max_tokens) = question.shape.max_tokens {
        body.insert("max_tokens".into(), max_tokens.into());
    }
    body.into()
}

/// A file gets the text as it is.
fn shown(text: &str, on_terminal: bool) -> String {
    if on_terminal { plain(text) } else { text.to_owned() }
}

fn keep(kept: &mut Value, new: &Value) {
    if !new.is_null() {
        *kept = new.clone();
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
        let tokens = json!({"computed": 1000});
        assert_eq!(footer(&json!({"tokens": tokens})), "1,000 tokens computed");
        assert_eq!(footer(&Value::Null), "");
    }

    #[test]
    fn only_a_conversation_is_appended_to() {
        let messages = vec![json!({"role": "user", "content": "hi"})];
        let shape = &Shape { max_tokens: None, temperature: 0.0 };
        let question = Question { messages, conversation: None, shape };
        assert!(body(&question).get("hob").is_none());
        let body = body(&Question { conversation: Some("c"), ..question });
        assert_eq!(body["hob"], json!({"append": true}));
        assert_eq!(body["conversation"], "c");
    }
}
