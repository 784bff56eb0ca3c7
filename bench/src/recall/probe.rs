//! One session on one engine: turn by turn, as hobd would, and then its probes.
//!
//! The right value is forced by a grammar behind the beginning of the answer. The model's own greedy
//! answer has the value exactly if each forced token is the likeliest one; its log-probabilities are the
//! loss of the right answer.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use hob_runtime::grammar::Grammar;
use hob_runtime::{
    BackReason, Engine, Logprobs, Model, Retention, TurnError, TurnEvent, TurnReport, TurnRequest,
    Way,
};
use hob_slots::format::SegmentRef;
use hob_slots::{ConversationId, Layer, Token};

use super::sessions::{Message, Probe, Session};
use crate::turns::{status, wait_for};

/// The likeliest next tokens that are compared.
const TOP: usize = 10;

/// A token of an answer has at least one byte.
const MAX_ANSWER: usize = 32;

/// All vectors are made if there was no new one for so long.
const QUIET: Duration = Duration::from_millis(1_000);

/// What came of a probe.
pub struct Outcome {
    /// Length of the prompt.
    pub tokens: usize,
    /// The model's own answer is right.
    pub is_right: bool,
    /// Negative log-likelihood of the right value, in nats.
    pub loss: f64,
    /// The value had all its cells when the answer began.
    pub is_resident: bool,
    /// Why a block with a part of the value came back for the question, if one did.
    pub came_back: Option<BackReason>,
    /// For each forced token: it, and the likeliest ones.
    steps: Vec<(Token, Vec<Token>)>,
}

impl Outcome {
    /// The part of the likeliest next tokens that both have, as far as they forced equal tokens.
    pub fn overlap(&self, other: &Self) -> f64 {
        let mut parts = Vec::new();
        for ((token, top), (others, others_top)) in self.steps.iter().zip(&other.steps) {
            let both = top.iter().filter(|token| others_top.contains(token)).count();
            parts.push(both as f64 / TOP as f64);
            if token != others {
                break;
            }
        }
        parts.iter().sum::<f64>() / parts.len().max(1) as f64
    }
}

/// The engine refused the budget.
pub struct Refused;

/// A conversation as it grows.
struct Talk<'e> {
    engine: &'e Engine,
    conversation: ConversationId,
    budget: Option<usize>,
    tokens: Vec<Token>,
    segments: Vec<SegmentRef>,
    messages: Vec<Range<usize>>,
    embeds: bool,
}

/// What a turn brought.
struct Answer {
    report: TurnReport,
    steps: Vec<Logprobs>,
    back: Vec<(Range<usize>, BackReason)>,
}

/// Runs the session, and forgets it. The outcomes are those of its probes. `embeds`: the engine makes vectors
/// of what was said, for which the user's first question waits.
///
/// # Errors
/// A turn that failed for another reason than its budget.
pub fn run(
    engine: &Engine,
    session: &Session,
    budget: Option<usize>,
    embeds: bool,
) -> Result<Result<Vec<Outcome>, Refused>> {
    let conversation = ConversationId::new("recall").expect("a short name");
    let mut talk = Talk {
        engine,
        conversation: conversation.clone(),
        budget,
        tokens: Vec::new(),
        segments: Vec::new(),
        messages: Vec::new(),
        embeds,
    };
    let outcomes = talk.session(session);
    wait_for(engine.forget(conversation))?;
    match outcomes {
        Ok(outcomes) => Ok(Ok(outcomes)),
        Err(TurnError::BudgetTooSmall(_)) => Ok(Err(Refused)),
        Err(error) => bail!(error),
    }
}

impl Talk<'_> {
    fn session(&mut self, session: &Session) -> Result<Vec<Outcome>, TurnError> {
        for message in &session.messages {
            self.push(message);
            if matches!(message.layer, Layer::User | Layer::Tool) {
                self.turn("", 0, None)?;
            }
        }
        if self.embeds {
            self.await_vectors();
        }
        session.probes.iter().map(|probe| self.probe(probe)).collect()
    }

    /// A person types for longer than this takes.
    fn await_vectors(&self) {
        let embedded = || status(self.engine).counters.embedded;
        let mut before = embedded();
        loop {
            std::thread::sleep(QUIET);
            let now = embedded();
            if now == before {
                return;
            }
            before = now;
        }
    }

    fn probe(&mut self, probe: &Probe) -> Result<Outcome, TurnError> {
        let needle = self.place_of(probe);
        self.push(&Message { layer: Layer::User, text: probe.question.clone() });
        let forced = format!(" {}", probe.value);
        let grammar = Grammar::lark(format!("start: {}", serde_json::Value::from(forced.clone())));
        let answer = self.turn(&probe.begins, MAX_ANSWER, Some(Arc::new(grammar)))?;
        let told = format!("{}{forced}.", probe.begins);
        self.push(&Message { layer: Layer::Assistant, text: told });

        let mut bytes = 0;
        let steps = answer.steps.into_iter().take_while(|step| {
            let is_value = bytes < forced.len(); // What follows is the end of the answer.
            bytes += step.chosen.bytes.len();
            is_value
        });
        let steps: Vec<Logprobs> = steps.collect();
        let is_likeliest = |step: &Logprobs| {
            step.top.first().is_some_and(|first| first.token == step.chosen.token)
        };
        let meets = |range: &Range<usize>| range.start < needle.end && needle.start < range.end;
        Ok(Outcome {
            tokens: answer.report.tokens.prompt(),
            is_right: !steps.is_empty() && steps.iter().all(is_likeliest),
            loss: -steps.iter().map(|step| f64::from(step.chosen.logprob)).sum::<f64>(),
            is_resident: !answer.report.away.iter().any(meets),
            came_back: answer.back.iter().find(|(range, _)| meets(range)).map(|(_, why)| *why),
            steps: steps
                .iter()
                .map(|step| (step.chosen.token, step.top.iter().map(|it| it.token).collect()))
                .collect(),
        })
    }

    fn push(&mut self, message: &Message) {
        let role = match message.layer {
            Layer::Identity => "system",
            Layer::Assistant => "assistant",
            _ => "user", // A tool's result is one in ChatML.
        };
        let text = format!("<|im_start|>{role}\n{}<|im_end|>\n", message.text);
        let start = self.tokens.len();
        self.tokens.extend(self.model().tokenize(&text, false, true));
        self.messages.push(start..self.tokens.len());
        let end = u32::try_from(self.tokens.len()).expect("a short conversation");
        let key = format!("message {}", self.messages.len());
        self.segments.push(SegmentRef::new(end, message.layer, key));
    }

    fn model(&self) -> &Arc<dyn Model> {
        self.engine.model()
    }

    /// The tokens that tell the value.
    fn place_of(&self, probe: &Probe) -> Range<usize> {
        let message = self.messages[probe.told_in].clone();
        let vocabulary = self.model().vocabulary();
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for &token in &self.tokens[message.clone()] {
            bytes.extend(vocabulary.piece(token).iter().copied());
            ends.push(bytes.len());
        }
        let value = probe.value.as_bytes();
        let at = bytes.windows(value.len()).position(|window| window == value);
        let at = at.expect("the message tells the value");
        let first = ends.partition_point(|&end| end <= at);
        let last = ends.partition_point(|&end| end < at + value.len());
        message.start + first..message.start + last + 1
    }

    /// A turn whose answer begins with `begins`.
    fn turn(
        &self,
        begins: &str,
        max_tokens: usize,
        grammar: Option<Arc<Grammar>>,
    ) -> Result<Answer, TurnError> {
        let mut prompt = self.tokens.clone();
        let opening = format!("<|im_start|>assistant\n{begins}");
        prompt.extend(self.model().tokenize(&opening, false, true));
        let keep = Retention { segments: self.segments.clone(), ..Retention::default() };
        let mut turn = self.engine.submit(TurnRequest {
            budget: self.budget,
            logprobs: grammar.is_some().then_some(TOP),
            grammar,
            keep,
            ..TurnRequest::answer(Some(self.conversation.clone()), prompt, max_tokens)
        })?;
        let mut answer =
            Answer { report: TurnReport::default(), steps: Vec::new(), back: Vec::new() };
        while let Some(event) = turn.next_blocking() {
            match event {
                TurnEvent::Progress(_) => {}
                TurnEvent::Started(report) => answer.report = report,
                TurnEvent::Moved(moved) => {
                    if let Way::Back(why) = moved.way {
                        answer.back.push((moved.range, why));
                    }
                }
                TurnEvent::Token { logprobs, .. } => answer.steps.extend(logprobs),
                TurnEvent::Finished { .. } => return Ok(answer),
                TurnEvent::Failed(error) => return Err(error),
            }
        }
        Err(TurnError::Stopped)
    }
}
