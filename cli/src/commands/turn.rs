//! One turn of `hob chat` or `hob ask`: sends the messages and prints the answer as it streams in.
//!
//! - A terminal gets rendered Markdown, and one line of progress until the answer begins.

use std::io::Write;
use std::time::{Duration, Instant};

use clap::builder::NonEmptyStringValueParser;
use hob_api::Turn;
use hob_api::turn::{Chunk, PromptTokens, Reanchored};
use serde_json::{Map, Value, json};

use super::stream::{self, StreamEnd};
use crate::client::{Client, path_segment};
use crate::context::Context;
use crate::failure::Failure;
use crate::names;
use crate::output::{Markdown, count, plain, seconds, shell_word, speed};
use crate::progress::Reading;
use crate::signals::Interrupt;

const PATH: &str = "/v1/chat/completions";

/// In place of a profile's name: no profile, not even the default one.
const NO_PROFILE: &str = "none";

/// A smaller saving is not worth a word.
const MIN_SAVED_MS: f64 = 1000.0;

/// Flags of `chat` and `ask` that shape the answer.
#[derive(clap::Args)]
pub struct Shape {
    /// Answer with this profile, which the app calls Instructions; `none` for no profile. Without
    /// it, with the profile `default`, if there is one
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    profile: Option<String>,

    /// Generate at most this many tokens
    #[arg(long, value_name = "TOKENS")]
    max_tokens: Option<u32>,

    /// Randomness of the answer, from 0 to 2; 0 always picks the most likely token. Without it, what
    /// the conversation, its profile or the model's file sets, or 1
    #[arg(long, value_name = "NUMBER")]
    temperature: Option<f64>,
}

impl Shape {
    /// Adds the profile to the body of a request.
    pub fn add_profile(&self, body: &mut Value) {
        if let Some(profile) = &self.profile {
            body["hob"]["profile"] = profile.as_str().into();
        }
    }

    /// The profile in the query of an address. `before`: `?`, or `&` behind other fields.
    pub fn profile_query(&self, before: char) -> String {
        let field = |profile: &String| format!("{before}profile={}", path_segment(profile));
        self.profile.as_ref().map(field).unwrap_or_default()
    }

    /// The flag with a space before it, as a command has it; may be empty.
    pub fn profile_flag(&self) -> String {
        let flag = |profile: &String| format!(" --profile {}", shell_word(profile));
        self.profile.as_ref().map(flag).unwrap_or_default()
    }

    /// Asks the daemon for the profile.
    ///
    /// # Errors
    /// When it has none of that name.
    pub fn check_profile(&self, context: &Context) -> Result<(), Failure> {
        let Some(profile) = self.profile.as_ref().filter(|name| *name != NO_PROFILE) else {
            return Ok(());
        };
        let path = format!("/v1/profiles/{}", path_segment(profile));
        Client::find(context)?.get::<Value>(&path).map(drop)
    }
}

pub struct Question<'a> {
    pub messages: Vec<Value>,
    /// The conversation that they continue: the daemon knows the messages in front of them.
    pub conversation: Option<&'a str>,
    /// Its instructions from now on; `None`: as before.
    pub instructions: Option<&'a str>,
    /// Leave out the oldest messages if not all fit into the context.
    pub newest: bool,
    /// Go on with the last answer; there are no messages then.
    pub continues: bool,
    /// Neither text nor KV may reach the disk.
    pub private: bool,
    pub shape: &'a Shape,
    /// What ends the answer early.
    pub interrupt: Option<&'a Interrupt>,
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
    /// Ctrl-C ended it.
    pub interrupted: bool,
    /// The daemon has accepted the request.
    pub accepted: bool,
    /// From the request to the first token.
    pub first: Option<Duration>,
    pub total: Duration,
}

impl Answer {
    /// Adds a chunk, and prints it.
    fn add(
        &mut self,
        mut chunk: Chunk,
        begun: Instant,
        printer: &mut Printer<'_>,
        progress: &mut Reading,
    ) -> Result<(), Failure> {
        self.accepted = true;
        progress.show(&chunk.hob["progress"]);
        let choice = chunk.choices.drain(..).next().unwrap_or_default();
        let reasoning = choice.delta.reasoning_content.unwrap_or_default();
        let text = choice.delta.content.unwrap_or_default();
        if !reasoning.is_empty() || !text.is_empty() {
            self.first.get_or_insert_with(|| begun.elapsed());
            progress.clear();
        }
        printer.print(&reasoning, &text)?;
        self.reasoning.push_str(&reasoning);
        self.text.push_str(&text);
        self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
        replace(&mut self.usage, chunk.usage);
        replace(&mut self.hob, chunk.hob);
        Ok(())
    }

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

/// The id that a name means. At a terminal, a title or a beginning means the conversation that has
/// it; a script names ids, and a new one starts a conversation.
pub fn named(name: &str, context: &Context) -> Result<String, Failure> {
    if !context.terminal.input {
        return Ok(name.to_owned());
    }
    // A daemon that cannot list them knows none.
    let known = names::of_daemon(&Client::find(context)?).unwrap_or_default();
    Ok(names::find(&known, name)?.map_or(name, |known| known.id.as_str()).to_owned())
}

/// Sends the question and, without `--json`, prints the answer while it streams in. After a failure, `answer` has
/// what came before it.
pub fn ask(
    client: &Client,
    question: &Question<'_>,
    answer: &mut Answer,
    context: &mut Context,
) -> Result<(), Failure> {
    let mut body = body(question);
    let mut reading = Reading::of(context);
    if reading.is_shown() {
        body["return_progress"] = true.into();
    }
    let begun = Instant::now();
    let mut printer = Printer::new(context);
    let ended = stream::follow(client, PATH, Some(&body), question.interrupt, |chunk: Chunk| {
        answer.add(chunk, begun, &mut printer, &mut reading)
    });
    reading.clear();
    answer.total = begun.elapsed();
    let shown = printer.end(ended.is_err());
    answer.interrupted = ended? == StreamEnd::Interrupted;
    shown
}

/// Prints the answer on standard output; nothing for `--json`.
struct Printer<'a> {
    context: &'a mut Context,
    /// A part of the answer is shown.
    has_begun: bool,
    is_thinking: bool,
    /// For a terminal with colours.
    markdown: Option<Markdown>,
}

impl<'a> Printer<'a> {
    fn new(context: &'a mut Context) -> Self {
        let is_rendered = context.terminal.output && context.terminal.colour;
        let markdown = is_rendered.then(|| Markdown::new(context.columns()));
        Self { context, has_begun: false, is_thinking: false, markdown }
    }

    fn print(&mut self, reasoning: &str, text: &str) -> Result<(), Failure> {
        let Self { context, has_begun, is_thinking, markdown } = self;
        if context.json {
            return Ok(());
        }
        *has_begun |= !reasoning.is_empty() || !text.is_empty();
        if !reasoning.is_empty() {
            *is_thinking = true;
            let dimmed = context.dim(&plain(reasoning));
            write!(context.out, "{dimmed}")?;
        }
        if !text.is_empty() {
            if std::mem::take(is_thinking) {
                writeln!(context.out, "\n")?;
            }
            let shown = match markdown {
                Some(markdown) => markdown.push(&plain(text)),
                // A file gets the text itself.
                None if context.terminal.output => plain(text),
                None => text.to_owned(),
            };
            write!(context.out, "{shown}")?;
        }
        Ok(context.out.flush()?)
    }

    /// Prints what Markdown holds back. `fails`: the message of a failure follows, on a line of its own.
    fn end(&mut self, fails: bool) -> Result<(), Failure> {
        let Self { context, has_begun, markdown, .. } = self;
        if let Some(markdown) = markdown {
            write!(context.out, "{}", markdown.end())?;
        }
        if fails && *has_begun && context.terminal.output {
            writeln!(context.out)?;
        }
        Ok(context.out.flush()?)
    }
}

/// The line under an answer, as in the app:
/// `0.4 s · 24 tok/s · 1,502 of 1,517 tokens remembered · saved 31 s`.
pub fn footer(hob: &Value) -> String {
    let turn: Turn = serde_json::from_value(hob.clone()).unwrap_or_default();
    let mut parts = Vec::new();
    if turn.cold {
        parts.push("cold".to_owned());
    }
    parts.extend(turn.ttft_ms.map(seconds));
    parts.extend(turn.tokens_per_second.map(speed));
    if turn.tokens.is_some() {
        let PromptTokens { shared, memory, disk, away, moved, computed, .. } = turn.origins();
        let remembered = shared + memory + disk + away + moved;
        let all = count((remembered + computed) as u64);
        parts.push(match remembered {
            0 => format!("{all} tokens read"),
            _ => format!("{} of {all} tokens remembered", count(remembered as u64)),
        });
    }
    let moved = turn.tokens.map_or(0, |tokens| tokens.moved);
    if moved > 0 {
        parts.push(format!("{} of them moved from another place", count(moved as u64)));
    }
    let lossy = turn.tokens.map_or(0, |tokens| tokens.lossy);
    if lossy > 0 {
        parts.push(format!("{} of them from rounded KV", count(lossy as u64)));
    }
    let immovable = turn.immovable.map(|why| format!("nothing is moved: {}", plain(&why)));
    parts.extend(immovable);
    let saved = turn.saved_ms.filter(|saved_ms| *saved_ms >= MIN_SAVED_MS);
    parts.extend(saved.map(|saved_ms| format!("saved {}", seconds(saved_ms))));
    let back = turn.moved.iter().filter(|moved| &*moved.way == "back");
    let back: Vec<usize> = back.map(|moved| moved.tokens).collect();
    if !back.is_empty() {
        let tokens = count(back.iter().sum::<usize>() as u64);
        parts.push(match back.len() {
            1 => format!("1 part brought back, {tokens} tokens"),
            parts => format!("{parts} parts brought back, {tokens} tokens"),
        });
    }
    let budget = turn.cells.filter(|_| !turn.context_full).and_then(|cells| cells.no_eviction);
    parts.extend(budget.map(|why| format!("its budget does not count: {}", plain(&why.what))));
    if let Some(Reanchored { kept, left, .. }) = turn.reanchored {
        let [kept, left] = [kept, left].map(|messages| count(messages as u64));
        parts.push(format!("goes on with its newest {kept} messages, {left} older ones left out"));
    } else if turn.left_out > 0 {
        parts.push(format!("{} older messages left out", count(turn.left_out as u64)));
    }
    match turn.recalled {
        0 => {}
        1 => parts.push("1 older message brought back".to_owned()),
        recalled => parts.push(format!("{} older messages brought back", count(recalled as u64))),
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
    let mut hob = json!({});
    if let Some(conversation) = question.conversation {
        body.insert("conversation".into(), conversation.into());
        hob = extension(question.newest, question.private);
        if let Some(instructions) = question.instructions {
            hob["instructions"] = instructions.into();
        }
    }
    if question.continues {
        hob["continue"] = true.into();
    }
    if let Some(temperature) = question.shape.temperature {
        body.insert("temperature".into(), temperature.into());
    }
    if hob != json!({}) {
        body.insert("hob".into(), hob);
    }
    if let Some(max_tokens) = question.shape.max_tokens {
        body.insert("max_tokens".into(), max_tokens.into());
    }
    let mut body = Value::from(body);
    question.shape.add_profile(&mut body);
    body
}

/// The `hob` object of a request that continues a conversation.
pub fn extension(newest: bool, private: bool) -> Value {
    let fields = [("append", true), ("newest", newest), ("private", private)];
    let asked = fields.into_iter().filter(|(_, asked)| *asked);
    asked.map(|(name, asked)| (name.to_owned(), asked.into())).collect::<Map<_, _>>().into()
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
    fn the_footer_says_when_the_answer_began_how_fast_it_came_and_what_was_remembered() {
        let tokens = json!({"shared": 0, "memory": 0, "disk": 6214, "computed": 31});
        let hob = json!({"tokens": tokens, "ttft_ms": 84.2, "miss": null,
            "tokens_per_second": 23.7, "saved_ms": 31_200});
        assert_eq!(
            footer(&hob),
            "84 ms · 24 tok/s · 6,214 of 6,245 tokens remembered · saved 31 s"
        );
        let tokens = json!({"shared": 64, "memory": 100, "disk": 0, "computed": 1});
        assert_eq!(
            footer(&json!({"tokens": tokens, "ttft_ms": 420, "miss": "first message differs"})),
            "0.4 s · 164 of 165 tokens remembered · because first message differs"
        );
        // What was computed while the user typed is no memory.
        let tokens = json!({"shared": 64, "memory": 0, "disk": 0, "computed": 1});
        let ahead = json!({"memory": 0, "disk": 50, "computed": 10});
        let ahead = json!({"tokens": tokens, "ahead": ahead, "saved_ms": 900});
        assert_eq!(footer(&ahead), "54 of 65 tokens remembered");
        let explanation = json!({"what": "a time or date in message 1"});
        assert_eq!(
            footer(&json!({"miss": "token 4 of 8", "explanation": explanation})),
            "because a time or date in message 1"
        );
        let tokens = json!({"computed": 9});
        let left_out = json!({"tokens": tokens, "left_out": 8, "cold": true});
        assert_eq!(footer(&left_out), "cold · 9 tokens read · 8 older messages left out");
        let reanchored = json!({"kept": 9, "left": 1200});
        let told = json!({"tokens": tokens, "left_out": 1200, "reanchored": reanchored});
        let expected =
            "9 tokens read · goes on with its newest 9 messages, 1,200 older ones left out";
        assert_eq!(footer(&told), expected);
        let told = json!({"tokens": tokens, "left_out": 1198, "recalled": 2});
        let expected =
            "9 tokens read · 1,198 older messages left out · 2 older messages brought back";
        assert_eq!(footer(&told), expected);
        let cells = json!({"no_eviction": {"what": "the setting `eviction` is off"}});
        let budget = json!({"tokens": {"computed": 9}, "cells": cells});
        let told = "9 tokens read · its budget does not count: the setting `eviction` is off";
        assert_eq!(footer(&budget), told);
        assert_eq!(footer(&Value::Null), "");
    }

    #[test]
    fn append_and_instructions_are_sent_with_a_conversation_only() {
        let messages = vec![json!({"role": "user", "content": "hi"})];
        let shape = &Shape { profile: None, max_tokens: None, temperature: Some(0.0) };
        let question = Question {
            messages,
            conversation: None,
            instructions: Some("Be brief."),
            newest: false,
            continues: false,
            private: false,
            shape,
            interrupt: None,
        };
        assert!(body(&question).get("hob").is_none());
        let body = body(&Question { conversation: Some("c"), ..question });
        assert_eq!(body["hob"], json!({"append": true, "instructions": "Be brief."}));
        assert_eq!(body["conversation"], "c");
    }

    #[test]
    fn a_profile_is_named_with_and_without_a_conversation() {
        let shape =
            Shape { profile: Some("night & day".to_owned()), max_tokens: None, temperature: None };
        let question = |conversation| Question {
            messages: Vec::new(),
            conversation,
            instructions: None,
            newest: false,
            continues: false,
            private: false,
            shape: &shape,
            interrupt: None,
        };
        assert_eq!(body(&question(None))["hob"], json!({"profile": "night & day"}));
        let continued = json!({"append": true, "profile": "night & day"});
        assert_eq!(body(&question(Some("c")))["hob"], continued);
        assert_eq!(shape.profile_query('?'), "?profile=night%20%26%20day");
        assert_eq!(shape.profile_flag(), " --profile 'night & day'");
        let unnamed = Shape { profile: None, ..shape };
        assert_eq!(unnamed.profile_query('&') + &unnamed.profile_flag(), "");
    }
}
