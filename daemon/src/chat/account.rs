//! What an answer has cost: the counts of its turns, its times, and why tokens were computed again.
//!
//! - Counts are sums over all prompts of the request; times and the explanation are the first one's.
//! - Guesses are those of all choices in the answer, and those of the first one alone in its record: others may have
//!   ended before it.

use hob_api::Turn;
use hob_api::turn::{AheadTokens, Cells, DraftTokens, NoEviction, PromptTokens, Reanchored};
use hob_runtime::turn::{CellCounts, DraftCounts, FinishReason, Moved, TokenCounts, TurnReport};
use hob_slots::ConversationId;
use hob_slots::format::SegmentRef;

use super::away::Away;
use super::figures::is_context_full;
use super::moves::Moves;
use super::reanchor::Began;
use crate::conversations::transcript::AnswerRows;
use crate::explain::Explanation;
use crate::wire::answer::Usage;

/// Which of the conversation's messages the prompt has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extract {
    /// Older messages that it leaves out.
    pub left_out: usize,
    /// Older messages that stand in front of the question, because it asks for them.
    pub recalled: usize,
    /// Set where the prompt begins a new timeline.
    pub began: Option<Began>,
}

#[derive(Default)]
pub struct Account {
    /// `None`: the engine in this process answers, and the account is about its KV.
    upstream: Option<String>,
    pub usage: Usage,
    pub explanation: Option<Explanation>,
    /// During the first choice.
    moves: Moves,
    /// When the first choice has ended.
    away: Away,
    /// Cells of the first choice, once it has ended.
    pub cells: CellCounts,
    /// Drafts of the first choice, once it has ended.
    pub first_drafts: DraftCounts,
    report: TurnReport,
    /// Why no KV was moved although the profile says so.
    exact_because: Option<String>,
    /// The first choice ended because the context was full.
    context_full: bool,
    /// From the first token of the first choice to its last.
    generation_ms: Option<f64>,
    /// Tokens of the first choice, once it has ended.
    generated: usize,
}

impl Account {
    /// `segments`: of the first prompt. `upstream`: the URL of an engine at another address.
    /// `exact_because`: no KV is moved although the profile says so.
    pub fn of(
        segments: Vec<SegmentRef>,
        upstream: Option<String>,
        exact_because: Option<String>,
    ) -> Self {
        Self { upstream, moves: Moves::of(segments), exact_because, ..Self::default() }
    }

    /// Something has moved during the first choice.
    pub fn add_moved(&mut self, moved: Moved) {
        self.away.add(&moved);
        self.moves.add(moved);
    }

    /// The first choice begins.
    pub fn begin_first(&mut self, report: &mut TurnReport) {
        self.moves.add_earlier(std::mem::take(&mut report.moved_ahead));
        self.away.begin(report.away.clone());
    }

    /// Adds the report of a prompt.
    pub fn add_prompt(&mut self, report: TurnReport) {
        self.usage.prompt += report.tokens.prompt();
        self.usage.cached += report.tokens.cached();
        let before = self.report.tokens;
        let first = before == TokenCounts::default();
        let sum = TokenCounts {
            shared: before.shared + report.tokens.shared,
            memory: before.memory + report.tokens.memory,
            disk: before.disk + report.tokens.disk,
            away: before.away + report.tokens.away,
            moved: before.moved + report.tokens.moved,
            computed: before.computed + report.tokens.computed,
            repaired: before.repaired + report.tokens.repaired,
            lossy: before.lossy + report.tokens.lossy,
        };
        if first {
            self.report = report;
        }
        self.report.tokens = sum;
    }

    /// The first choice has ended. `max_tokens`: the request's limit of one answer.
    pub fn end_first(
        &mut self,
        reason: FinishReason,
        tokens: usize,
        generation_ms: f64,
        max_tokens: Option<usize>,
    ) {
        self.generation_ms = Some(generation_ms);
        self.generated = tokens;
        if reason == FinishReason::Length {
            self.context_full = is_context_full(tokens, max_tokens);
        }
    }

    pub fn is_context_full(&self) -> bool {
        self.context_full
    }

    /// What is stored with the first choice: [`Self::turn`] as if it were the only one.
    pub fn record(
        &self,
        conversation: Option<&ConversationId>,
        rows: Option<AnswerRows>,
        extract: Extract,
    ) -> Turn {
        let turn = self.turn(conversation, rows, extract);
        Turn { drafts: turn.drafts.map(|_| draft_tokens(self.first_drafts)), ..turn }
    }

    /// `conversation`: or the hint.
    pub fn turn(
        &self,
        conversation: Option<&ConversationId>,
        rows: Option<AnswerRows>,
        extract: Extract,
    ) -> Turn {
        let Extract { left_out, recalled, began } = extract;
        let (moved, repaired) = (self.report.tokens.moved, self.report.tokens.repaired);
        let reanchored =
            began.map(|Began { kept, left }| Reanchored { kept, left, moved, repaired });
        let of_any_engine = Turn {
            conversation: conversation.filter(|id| !id.is_hint()).cloned(),
            cache_key: conversation.and_then(|id| id.hint_key().map(str::to_owned)),
            message: rows.map(|rows| rows.answer),
            parent: rows.map(|rows| rows.parent),
            upstream: self.upstream.clone(),
            left_out,
            recalled,
            reanchored,
            context_full: self.context_full,
            ttft_ms: Some(to_micros(self.report.ttft_ms)),
            total_ms: self
                .generation_ms
                .map(|generation| to_micros(self.report.ttft_ms + generation)),
            tokens_per_second: self.tokens_per_second(),
            ..Turn::default()
        };
        match self.upstream {
            Some(_) => of_any_engine,
            None => self.with_kv(of_any_engine),
        }
    }

    /// Adds where the prompt's KV came from.
    fn with_kv(&self, turn: Turn) -> Turn {
        let report = &self.report;
        Turn {
            slot: report.slot.map(|slot| slot.0),
            cold: report.cold,
            tokens: Some(PromptTokens {
                shared: report.tokens.shared,
                memory: report.tokens.memory,
                disk: report.tokens.disk,
                away: report.tokens.away,
                moved: report.tokens.moved,
                computed: report.tokens.computed,
                repaired: report.tokens.repaired,
                lossy: report.tokens.lossy,
            }),
            immovable: self
                .exact_because
                .clone()
                .or_else(|| report.immovable.as_ref().map(ToString::to_string)),
            cells: self.cells(),
            moved: self.moves.to_api(),
            drafts: Some(draft_tokens(self.usage.drafts)),
            ahead: Some(AheadTokens {
                memory: report.ahead.memory,
                disk: report.ahead.disk,
                computed: report.ahead.computed,
            }),
            restore_ms: Some(to_micros(report.restore_ms)),
            saved_ms: saved_ms(report).map(to_micros),
            miss: report.miss.as_ref().map(ToString::to_string),
            explanation: self.explanation.as_ref().map(Explanation::to_api),
            ..turn
        }
    }

    fn cells(&self) -> Option<Cells> {
        let CellCounts { budget, peak, resident, no_eviction } = self.cells;
        let no_eviction = no_eviction.map(|why| NoEviction {
            reason: why.as_str().into(),
            what: why.to_string().into(),
            remedy: why.remedy().into(),
        });
        let away = self.away.to_api(self.moves.segments());
        (budget > 0).then_some(Cells { budget, peak, resident, away, no_eviction })
    }

    /// The speed of the first choice: the first token is sampled with the prompt.
    fn tokens_per_second(&self) -> Option<f64> {
        let seconds = self.generation_ms.filter(|&ms| ms > 0.0)? / 1e3;
        let further = self.generated.checked_sub(1).filter(|&further| further > 0)?;
        Some((further as f64 / seconds * 100.0).round() / 100.0)
    }
}

fn draft_tokens(counts: DraftCounts) -> DraftTokens {
    let DraftCounts { drafted, accepted, model_drafted, model_accepted, mtp_drafted, mtp_accepted } =
        counts;
    DraftTokens { drafted, accepted, model_drafted, model_accepted, mtp_drafted, mtp_accepted }
}

/// The time to compute the reused tokens at the measured speed of prefill.
fn saved_ms(report: &TurnReport) -> Option<f64> {
    let speed = report.prefill_tokens_per_second?;
    let reused = report.tokens.cached();
    (reused > 0).then(|| reused as f64 / speed * 1e3)
}

/// Milliseconds, rounded to the clock's microseconds.
fn to_micros(millis: f64) -> f64 {
    (millis * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_the_first_choice_has_its_own_guesses_and_the_answer_those_of_all() {
        let of = |drafted, accepted| DraftCounts { drafted, accepted, ..DraftCounts::default() };
        let mut account = Account::default();
        account.usage.drafts += of(7, 5); // Of a further choice, which ended first.
        account.usage.drafts += of(3, 2);
        account.first_drafts = of(3, 2);
        let none = Extract::default();
        let record = account.record(None, None, none).drafts;
        assert_eq!(record, Some(draft_tokens(of(3, 2))));
        assert_eq!(account.turn(None, None, none).drafts, Some(draft_tokens(of(10, 7))));
        let upstream = Account { upstream: Some("http://127.0.0.1:9".to_owned()), ..account };
        assert_eq!(upstream.record(None, None, none).drafts, None, "it counts none");
    }
}
