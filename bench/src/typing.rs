//! The time from Enter to the first token of a message that was computed while it was typed.
//!
//! A hobd on the shape of Qwen2.5-0.5B, with a stored conversation. Each round types a question of
//! 60 tokens as the page does: after each finished word, every 300 ms at most, it sends the text so
//! far. Enter sends the chat; the measured time is that of the whole answer of one token, over
//! HTTP. Beside it, in the same round: the same question sent without typing ahead, and llama.cpp
//! alone, which decodes as many tokens over a cache of the same length.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hob_runtime::Model;
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use serde_json::{Value, json};

use crate::bars::{BarFlags, is_above};
use crate::hobd::Hobd;
use crate::measure::median_ms;
use crate::raw::Raw;
use crate::turns::Words;

#[derive(clap::Args)]
pub struct Options {
    /// Tokens of the question.
    #[arg(long, default_value_t = 60)]
    question: usize,
    /// Tokens of the conversation before it, about.
    #[arg(long, default_value_t = 512)]
    history: usize,
    /// Typing speed, in words of five letters and a space a minute.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    words_per_minute: u32,
    /// Rounds; each figure is the median of as many samples.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    #[command(flatten)]
    bars: BarFlags,
}

/// Maximum factor against llama.cpp alone.
const BAR: f64 = 0.35;

/// The page sends at most one request in this time.
const EVERY: Duration = Duration::from_millis(300);

/// Words of a usual length.
const VOCABULARY: [&str; 24] = [
    "please", "remember", "the", "number", "of", "my", "locker", "until", "we", "meet", "again",
    "in", "front", "of", "a", "small", "green", "house", "beside", "river", "and", "tell", "me",
    "when",
];

#[derive(Default)]
struct Samples {
    /// llama.cpp alone.
    limit: Vec<Duration>,
    /// The question, sent without typing ahead.
    sent: Vec<Duration>,
    typed: Vec<Duration>,
    /// Tokens that were computed after Enter.
    computed: Vec<u64>,
}

pub fn run(options: &Options) -> Result<()> {
    let model_path = crate::model_path()?;
    let directory = tempfile::tempdir()?;
    let arguments = ["--model".as_ref(), model_path.as_os_str(), "--voice-command".as_ref()];
    let mut hobd = Hobd::start(directory.path(), arguments.into_iter().chain(["off".as_ref()]))?;
    hobd.wait_until_ready()?;
    let model: Arc<dyn Model> = Arc::new(LlamaModel::load(&model_path, LlamaOptions::default())?);
    let raw = Raw::start(model.clone());
    let mut tokens = Words::new(model.vocabulary().len());
    let mut talk = Talk { hobd: &hobd, position: 0, prompt_tokens: 0 };
    let history = talk.text(options.history)?;
    talk.say("a", &history)?;
    talk.say("b", &history)?;
    raw.measure(talk.prompt_tokens, tokens.next(options.question))?; // Unmeasured: fills the cache.

    let mut samples = Samples::default();
    for _ in 0..options.rounds {
        let question = talk.text(options.question)?;
        let limit = raw.measure(talk.prompt_tokens, tokens.next(options.question))?;
        samples.limit.push(limit);
        // Another question: equal words would be shared with the typed one.
        let other = talk.text(options.question)?;
        samples.sent.push(talk.say("b", &other)?.took);
        type_ahead(&hobd, "a", &question, options.words_per_minute)?;
        let said = talk.say("a", &question)?;
        samples.typed.push(said.took);
        samples.computed.push(said.computed);
    }
    print(options, &samples)
}

/// A conversation with random words.
struct Talk<'a> {
    hobd: &'a Hobd,
    position: usize,
    /// Tokens of the last request's prompt.
    prompt_tokens: usize,
}

struct Answer {
    took: Duration,
    computed: u64,
}

impl Talk<'_> {
    /// Words of this many tokens together, or one more.
    fn text(&mut self, tokens: usize) -> Result<String> {
        let mut text = String::new();
        while self.hobd.count_tokens(&text)? < tokens {
            self.position = self.position * 31 % 8191 + 7;
            if !text.is_empty() {
                text.push(' ');
            }
            text += VOCABULARY[self.position % VOCABULARY.len()];
        }
        Ok(text)
    }

    /// One message, answered by one token.
    fn say(&mut self, conversation: &str, text: &str) -> Result<Answer> {
        let body = json!({
            "conversation": conversation, "hob": {"append": true}, "max_tokens": 1,
            "temperature": 0, "messages": [{"role": "user", "content": text}],
        });
        let answer = self.hobd.call("POST", "/v1/chat/completions", &body)?;
        let said: Value = serde_json::from_str(&answer.body)?;
        let number = |value: &Value| value.as_u64().with_context(|| format!("in {said}"));
        self.prompt_tokens = usize::try_from(number(&said["usage"]["prompt_tokens"])?)?;
        let computed = number(&said["hob"]["tokens"]["computed"])?;
        std::thread::sleep(Duration::from_millis(200)); // The writer finishes.
        Ok(Answer { took: answer.took, computed })
    }
}

/// Types `text` letter by letter.
fn type_ahead(hobd: &Hobd, conversation: &str, text: &str, words_per_minute: u32) -> Result<()> {
    let letter = Duration::from_secs(60) / (words_per_minute * 6);
    let path = format!("/v1/conversations/{conversation}/typing");
    let (mut sent, mut wanted) = (0, 0);
    let mut sent_at: Option<Instant> = None;
    for (at, typed) in text.char_indices() {
        std::thread::sleep(letter);
        if typed == ' ' {
            wanted = at + 1;
        }
        let may_send = sent_at.is_none_or(|at| at.elapsed() >= EVERY);
        if wanted > sent && may_send {
            let answer = hobd.post(&path, &json!({"text": &text[..wanted]}))?;
            ensure!(answer["ahead"] == true, "nothing is computed ahead: {answer}");
            (sent, sent_at) = (wanted, Some(Instant::now()));
        }
    }
    Ok(())
}

fn print(options: &Options, samples: &Samples) -> Result<()> {
    let (limit, sent) = (median_ms(&samples.limit), median_ms(&samples.sent));
    let typed = median_ms(&samples.typed);
    let factor = typed / limit;
    let mut computed = samples.computed.clone();
    computed.sort_unstable();
    println!(
        "A question of {} tokens in a conversation, typed at {} words a minute; shape of \
         Qwen2.5-0.5B (Q8_0,\nrandom weights); over HTTP; medians of {} rounds, interleaved.\n",
        options.question, options.words_per_minute, options.rounds
    );
    println!("| | ms | x llama.cpp alone | bar |");
    println!("|---|---:|---:|---:|");
    println!("| llama.cpp alone decodes the question | {limit:.1} | 1.00 | |");
    println!("| sent without typing ahead: first token | {sent:.1} | {:.2} | |", sent / limit);
    println!("| typed ahead: first token after Enter | {typed:.1} | {factor:.2} | {BAR:.2} |");
    if let Some(middle) = computed.get(computed.len() / 2) {
        println!("\nAfter Enter {middle} tokens were computed, in the middle.");
    }
    let missed = is_above(factor, BAR).then(|| format!("{factor:.2} x llama.cpp alone"));
    options.bars.check(missed.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::options;

    #[test]
    fn without_a_round_the_bar_is_missed() {
        let options: Options = options(&["--rounds", "0"]).expect("figures of no round are NaN");
        let error = print(&options, &Samples::default()).expect_err("nothing is measured");
        assert!(error.to_string().contains("missed"), "{error}");
    }

    #[test]
    fn a_speed_of_no_word_a_minute_is_refused() {
        let of_speed = |words| options::<Options>(&["--words-per-minute", words]);
        assert!(of_speed("0").is_err() && of_speed("1").is_ok());
    }
}
