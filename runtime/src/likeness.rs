//! How much an answer over moved KV differs from the exact one.
//!
//! - The exact answer's tokens are given to the other side one by one; what is compared is its distribution for
//!   the next token. So one token that differs does not make all that follow it differ.
//! - A distribution is its [`LIKELIEST`] tokens. A token that the other side does not list among its own has the
//!   probability of that one's last token there, so a divergence is not overstated.
//! - No clock, no llama.cpp: two kinds of turns on an engine.

use std::collections::BTreeMap;

use hob_slots::content::Repair;
use hob_slots::{ConversationId, Token};

use crate::engine::Engine;
use crate::turn::{Logprobs, Retention, Reuse, TokenCounts, TurnError, TurnEvent, TurnRequest};

/// Likeliest tokens of a distribution that are compared.
pub const LIKELIEST: usize = 64;

/// An answer, with the distribution of each of its tokens.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Tokens of the prompt, by origin.
    pub tokens: TokenCounts,
    pub text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
struct Step {
    token: Token,
    logprobs: BTreeMap<Token, f64>,
}

/// Answers beside the exact ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Likeness {
    pub answers: usize,
    /// Tokens of the exact answers.
    pub compared: usize,
    /// Positions at which both sides have the same likeliest token.
    pub agreeing: usize,
    /// Sum of the divergences (Kullback-Leibler, from the exact side), in nats.
    pub divergence: f64,
    /// Sum of the answers' F1, each from 0 to 1.
    pub f1: f64,
    /// Tokens of the prompts, by origin.
    pub tokens: TokenCounts,
}

impl Likeness {
    pub fn add(&mut self, other: &Self) {
        self.answers += other.answers;
        self.compared += other.compared;
        self.agreeing += other.agreeing;
        self.divergence += other.divergence;
        self.f1 += other.f1;
        let (tokens, others) = (&mut self.tokens, &other.tokens);
        tokens.shared += others.shared;
        tokens.memory += others.memory;
        tokens.disk += others.disk;
        tokens.away += others.away;
        tokens.moved += others.moved;
        tokens.computed += others.computed;
        tokens.repaired += others.repaired;
        tokens.lossy += others.lossy;
    }

    /// The part of the tokens on which both sides agree; 1 without any.
    pub fn agreement(&self) -> f64 {
        part(self.agreeing as f64, self.compared, 1.0)
    }

    /// Per token.
    pub fn mean_divergence(&self) -> f64 {
        part(self.divergence, self.compared, 0.0)
    }

    /// Per answer.
    pub fn mean_f1(&self) -> f64 {
        part(self.f1, self.answers, 1.0)
    }
}

fn part(sum: f64, count: usize, of_none: f64) -> f64 {
    if count == 0 { of_none } else { sum / count as f64 }
}

impl Measured {
    /// Runs a turn to the end of its answer.
    ///
    /// # Errors
    /// Those of the turn.
    pub async fn ask(engine: &Engine, request: TurnRequest) -> Result<Self, TurnError> {
        let asked = TurnRequest { logprobs: Some(LIKELIEST), ..request };
        let mut turn = engine.submit(asked)?;
        let mut answer = Self::default();
        while let Some(event) = turn.next().await {
            match event {
                TurnEvent::Started(report) => answer.tokens = report.tokens,
                TurnEvent::Token { token, text, logprobs } => {
                    answer.text.push_str(&text);
                    answer.steps.extend(logprobs.map(|logprobs| Step::of(token, &logprobs)));
                }
                TurnEvent::Progress(_) | TurnEvent::Moved(_) => {}
                TurnEvent::Finished { text, .. } => {
                    answer.text.push_str(&text);
                    return Ok(answer);
                }
                TurnEvent::Failed(error) => return Err(error),
            }
        }
        Err(TurnError::Stopped)
    }

    /// The exact answer of an anonymous turn, computed cold. None of its KV stays.
    ///
    /// # Errors
    /// Those of the turn.
    pub async fn exactly(engine: &Engine, request: &TurnRequest) -> Result<Self, TurnError> {
        let keep = Retention { in_memory: Some(true), ..request.keep.clone() };
        let exact = TurnRequest {
            conversation: None,
            cold: true,
            reuse: Reuse::Exact,
            reanchored: false,
            keep,
            ..request.clone()
        };
        Self::ask(engine, exact).await
    }

    /// Compares this exact answer of `request` with the one over moved KV, in `conversation`, which nothing else
    /// uses and which is forgotten after.
    ///
    /// # Errors
    /// Those of its turns.
    pub async fn beside_moved(
        &self,
        engine: &Engine,
        request: &TurnRequest,
        conversation: ConversationId,
        repair: Repair,
    ) -> Result<Likeness, TurnError> {
        let keep = Retention { in_memory: Some(true), ..request.keep.clone() };
        let moved = TurnRequest {
            conversation: Some(conversation.clone()),
            reuse: Reuse::Repaired(repair),
            keep,
            ..request.clone()
        };
        let compared = self.compare(engine, &moved).await;
        engine.forget(conversation).await?;
        compared.map(|(likeness, _)| likeness)
    }

    /// Asks `request`, whose prompt is that of this exact answer, in a conversation of its own, and compares.
    /// Returns also what it answers by itself.
    ///
    /// # Errors
    /// Those of its turns.
    pub async fn compare(
        &self,
        engine: &Engine,
        request: &TurnRequest,
    ) -> Result<(Likeness, Self), TurnError> {
        let own = Self::ask(engine, request.clone()).await?;
        let mut likeness = Likeness {
            answers: 1,
            f1: f1(&self.text, &own.text),
            tokens: own.tokens,
            ..Likeness::default()
        };
        let mut given = request.prompt.clone();
        let mut others = own.steps.iter();
        let mut is_alike = true; // While its own tokens are those that are given.
        for step in &self.steps {
            let computed;
            let other = if let Some(other) = others.next().filter(|_| is_alike) {
                other
            } else {
                let next = TurnRequest {
                    prompt: given.clone(),
                    max_tokens: 1,
                    cold: false,
                    ..request.clone()
                };
                computed = Self::ask(engine, next).await?;
                computed.steps.first().ok_or(TurnError::Stopped)?
            };
            is_alike &= other.token == step.token;
            likeness.compared += 1;
            likeness.agreeing += usize::from(step.likeliest() == other.likeliest());
            likeness.divergence += step.divergence(other);
            given.push(step.token);
        }
        Ok((likeness, own))
    }
}

impl Step {
    fn of(token: Token, logprobs: &Logprobs) -> Self {
        let top = logprobs.top.iter().map(|it| (it.token, f64::from(it.logprob)));
        Self { token, logprobs: top.collect() }
    }

    fn likeliest(&self) -> Option<Token> {
        let likeliest = self.logprobs.iter().max_by(|one, other| one.1.total_cmp(other.1));
        likeliest.map(|(token, _)| *token)
    }

    /// The divergence of `other` from this exact one.
    fn divergence(&self, other: &Self) -> f64 {
        let least = other.logprobs.values().copied().fold(0.0, f64::min);
        let of = |(token, exact): (&Token, &f64)| {
            let other = other.logprobs.get(token).copied().unwrap_or(least);
            exact.exp() * (exact - other)
        };
        self.logprobs.iter().map(of).sum::<f64>().max(0.0)
    }
}

/// The harmonic mean of the parts of the words of each text that the other one has: 1 for equal words.
fn f1(exact: &str, other: &str) -> f64 {
    let mut left: Vec<&str> = exact.split_whitespace().collect();
    let (words, others) = (left.len(), other.split_whitespace().count());
    if words == 0 || others == 0 {
        return if words == others { 1.0 } else { 0.0 };
    }
    let mut common = 0;
    for word in other.split_whitespace() {
        if let Some(at) = left.iter().position(|it| *it == word) {
            left.swap_remove(at);
            common += 1;
        }
    }
    2.0 * f64::from(common) / (words + others) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(logprobs: &[(i32, f64)]) -> Step {
        let logprobs: BTreeMap<_, _> =
            logprobs.iter().map(|(token, part)| (Token(*token), part.ln())).collect();
        Step { token: Token(0), logprobs }
    }

    #[test]
    fn a_divergence_is_none_of_equal_distributions_and_grows_with_the_difference() {
        let exact = step(&[(1, 0.7), (2, 0.2), (3, 0.1)]);
        assert_eq!(exact.divergence(&exact), 0.0);
        let near = exact.divergence(&step(&[(1, 0.6), (2, 0.3), (3, 0.1)]));
        let far = exact.divergence(&step(&[(1, 0.1), (2, 0.2), (3, 0.7)]));
        assert!(0.0 < near && near < far, "{near} {far}");
        // Neither lists what the other does.
        assert!(exact.divergence(&step(&[(4, 0.9), (5, 0.05)])) > near);
    }

    #[test]
    fn an_f1_counts_common_words() {
        assert_eq!(f1("your code is 48213.", "your code is 48213."), 1.0);
        assert_eq!(f1("one two three four", "four five six one"), 0.5);
        assert_eq!(f1("one one", "one"), 2.0 / 3.0);
        assert_eq!([f1("", ""), f1("", "one"), f1("one", "two")], [1.0, 0.0, 0.0]);
    }

    #[test]
    fn figures_are_means() {
        let one = Likeness {
            answers: 1,
            compared: 4,
            agreeing: 3,
            divergence: 0.4,
            f1: 0.5,
            ..Likeness::default()
        };
        let mut all = Likeness::default();
        assert_eq!((all.agreement(), all.mean_divergence(), all.mean_f1()), (1.0, 0.0, 1.0));
        all.add(&one);
        all.add(&Likeness { agreeing: 4, divergence: 0.0, f1: 1.0, ..one });
        assert_eq!((all.agreement(), all.mean_divergence(), all.mean_f1()), (0.875, 0.05, 0.75));
    }
}
