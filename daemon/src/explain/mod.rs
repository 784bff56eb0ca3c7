//! "Why did it miss?": what a request computed although it was computed before, and what to do.
//!
//! - Pure: tokens and the engine's own reason in, words out. A request that computes only what is
//!   new explains nothing.
//! - The texts are the conversation's own; nothing of another one is shown.
//! - An explanation is cheap and is given for every difference, also for one that was meant.
//!
//! Reading order: `difference` (where two timelines part), `rules` (why), `moment` and `tools` (what
//! the rules recognise); and before anything was asked, `volatile` (what will make them differ).

mod difference;
mod rules;
#[cfg(test)]
mod tests;
mod tools;
pub mod volatile;

use hob_runtime::turn::TurnReport;
use hob_runtime::{MissReason, Vocabulary};
use hob_slots::format::SegmentRef;
use hob_slots::{Layer, Token};
use serde::Deserialize;
use serde_json::{Value, json};

use difference::{Difference, segment_of};

/// Tokens at the end of an answer that may not be computed yet when the next request comes.
const END_OF_ANSWER: usize = 2;

/// How the engine tells that a file is not there.
const NOT_THERE: &str = "it is not on disk";

/// What a request asked for, as far as an explanation needs it.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The prompt.
    pub prompt: Vec<Token>,
    /// Which part of it each token belongs to.
    pub segments: Vec<SegmentRef>,
    /// Tokens of it that this model has computed for the conversation, as the transcript knows.
    pub remembered: usize,
}

/// Why something was computed again, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A time or a date.
    Clock,
    /// A number or an id.
    ChangingId,
    /// The same tools in another order.
    ToolsReordered,
    /// Other tools.
    ToolsChanged,
    /// Messages are missing.
    HistoryTrimmed,
    /// Messages were put in front of others.
    MessageInserted,
    /// The template leaves the reasoning of earlier answers out.
    ReasoningLeftOut,
    /// The same text in other tokens.
    CutOtherwise,
    /// Other instructions.
    InstructionsChanged,
    /// Something else in front of the messages.
    ContextChanged,
    /// Another message of the user or of a tool.
    MessageEdited,
    /// Another answer than the one that was given.
    AnotherAnswer,
    /// Something else.
    Differs,
    /// It is kept for another model, or for other options.
    OtherFingerprint,
    /// Its file is not there any more.
    Gone,
    /// Its file is there and of no use.
    Unusable,
    /// It was never saved.
    NotKept,
}

impl Reason {
    /// The word in answers and for counting.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::ChangingId => "changing_id",
            Self::ToolsReordered => "tools_reordered",
            Self::ToolsChanged => "tools_changed",
            Self::HistoryTrimmed => "history_trimmed",
            Self::MessageInserted => "message_inserted",
            Self::ReasoningLeftOut => "reasoning_left_out",
            Self::CutOtherwise => "cut_otherwise",
            Self::InstructionsChanged => "instructions_changed",
            Self::ContextChanged => "context_changed",
            Self::MessageEdited => "message_edited",
            Self::AnotherAnswer => "another_answer",
            Self::Differs => "differs",
            Self::OtherFingerprint => "other_fingerprint",
            Self::Gone => "gone",
            Self::Unusable => "unusable",
            Self::NotKept => "not_kept",
        }
    }
}

/// What a rule found.
#[derive(Debug)]
struct Finding {
    reason: Reason,
    what: String,
    remedy: String,
    in_tools: bool,
}

impl Finding {
    fn new(reason: Reason, what: String, remedy: &str) -> Self {
        Self { reason, what, remedy: remedy.to_owned(), in_tools: false }
    }

    /// The segment's own label is the message's that the template wrote the tools into.
    fn in_tools(self) -> Self {
        Self { in_tools: true, ..self }
    }
}

/// The texts on both sides of the first token that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Texts {
    /// What both say before it.
    pub before: String,
    /// How it goes on in what was kept.
    pub kept: String,
    /// How it goes on in the prompt.
    pub new: String,
}

/// Why a request computed what was computed before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// In a word.
    pub reason: Reason,
    /// The first token that could not be taken up.
    pub at: usize,
    /// Where it lies: the layer, and the name among its kind.
    pub segment: Option<(Layer, String)>,
    /// Where the prompt says something else.
    pub texts: Option<Texts>,
    /// In a sentence.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

impl Explanation {
    /// The explanation of a turn; `None` when it computed only what is new.
    pub fn of(subject: &Subject, report: &TurnReport, vocabulary: &Vocabulary) -> Option<Self> {
        if report.cold {
            return None; // It was meant to compute everything.
        }
        let plain = |at: usize, finding: Finding| {
            let segment = segment_of(&subject.segments, at);
            let Finding { reason, what, remedy, .. } = finding;
            Self { reason, at, segment, texts: None, what, remedy }
        };
        Some(match &report.miss {
            Some(MissReason::Differs { at, saved: kept }) => {
                let Subject { prompt, segments, .. } = subject;
                Self::of_difference(*at, Difference::of(prompt, segments, *at, kept, vocabulary))
            }
            Some(MissReason::OtherFingerprint { fields, .. }) => {
                plain(0, other_fingerprint(fields))
            }
            Some(MissReason::Unusable { from, reason }) => plain(*from, unusable(reason)),
            Some(MissReason::NotSaved { from }) => plain(*from, not_kept()),
            None => {
                let cached = report.tokens.cached();
                let missing = report.tokens.computed > 1
                    && cached + END_OF_ANSWER < subject.remembered.min(subject.prompt.len());
                missing.then(|| plain(cached, gone()))?
            }
        })
    }

    fn of_difference(at: usize, difference: Difference) -> Self {
        let finding = rules::judge(&difference);
        let Difference { segment, before, kept_text, new_text, .. } = difference;
        let tools = |segment: Option<(Layer, String)>| match segment {
            Some((Layer::Identity, _)) | None => Some((Layer::Capabilities, "tools".to_owned())),
            other => other,
        };
        Self {
            reason: finding.reason,
            at,
            segment: if finding.in_tools { tools(segment) } else { segment },
            texts: Some(Texts { before, kept: kept_text, new: new_text }),
            what: finding.what,
            remedy: finding.remedy,
        }
    }

    /// As it goes to clients.
    pub fn to_json(&self) -> Value {
        let text = |side: fn(&Texts) -> &String| self.texts.as_ref().map(side);
        json!({
            "reason": self.reason.as_str(),
            "what": self.what,
            "remedy": self.remedy,
            "at": self.at,
            "segment": self.segment.as_ref().map(|(layer, key)| json!({"layer": layer, "key": key})),
            "before": text(|texts| &texts.before),
            "kept_text": text(|texts| &texts.kept),
            "new_text": text(|texts| &texts.new),
        })
    }
}

fn other_fingerprint(fields: &str) -> Finding {
    let what = format!("it is kept for another model or other options; what differs: {fields}");
    let remedy = "start hobd as it was started then; otherwise none is needed: it is computed once";
    Finding::new(Reason::OtherFingerprint, what, remedy)
}

fn unusable(reason: &str) -> Finding {
    if reason.contains(NOT_THERE) {
        return gone();
    }
    let what = format!("what was kept cannot be used: {reason}");
    let remedy = "none is needed: it is computed and kept anew; if it happens again, check the disk (`hob slots verify`)";
    Finding::new(Reason::Unusable, what, remedy)
}

fn gone() -> Finding {
    let what = "what was kept is not there any more: it expired, was evicted or removed".to_owned();
    let remedy = "keep it longer (`hob.ttl`, `hob slots class`), or give the disk more room (`slots_quota_bytes`)";
    Finding::new(Reason::Gone, what, remedy)
}

fn not_kept() -> Finding {
    let what = "it had not been saved when the daemon ended or its cells were needed".to_owned();
    let remedy = "stop hobd with SIGTERM, which saves everything; more context (`ctx`) makes room";
    Finding::new(Reason::NotKept, what, remedy)
}
