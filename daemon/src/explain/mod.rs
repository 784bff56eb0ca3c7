//! Explains a prefix-cache miss: why a request computed tokens again, and what to do about it.
//!
//! - Pure: tokens and the engine's reason in, sentences out. A request that computes only new tokens
//!   has no explanation.
//! - Excerpts are from the conversation's own prompts.
//! - Every difference is explained, intended ones too.
//!
//! Reading order: `difference` (where the prompt leaves the saved timeline), `rules` (why), `tools`
//! and [`volatile`] (what the rules recognise; `volatile` also warns the author of a profile).

mod difference;
mod rules;
#[cfg(test)]
mod tests;
mod tools;
pub mod volatile;

use hob_api as api;
use hob_runtime::turn::TurnReport;
use hob_runtime::{MissReason, Vocabulary};
use hob_slots::format::SegmentRef;
use hob_slots::{Layer, Token};
use serde::Deserialize;
use serde_json::Value;

use difference::{Difference, segment_of};

/// The last tokens of an answer may not have been computed when the next request arrives.
const MAX_UNCOMPUTED: usize = 2;

/// The engine's text for a missing file.
const NOT_THERE: &str = "it is not on disk";

/// The prompt that is explained.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    pub prompt: Vec<Token>,
    pub segments: Vec<SegmentRef>,
    /// Length of the prefix that the prompt shares with the conversation's last timeline.
    pub remembered: usize,
    /// The messages before the last ones are those of a stored branch: the request appends to it.
    pub is_appended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A time or a date changed.
    Clock,
    /// A number or an id changed.
    ChangingId,
    ToolsReordered,
    ToolsChanged,
    /// Messages are missing.
    HistoryTrimmed,
    /// Messages were inserted before others.
    MessageInserted,
    /// The template omits the reasoning of earlier answers.
    ReasoningLeftOut,
    /// The text is the same, and was cut into other tokens.
    CutOtherwise,
    InstructionsChanged,
    /// Another text before the messages.
    ContextChanged,
    /// Another message of the user or of a tool.
    MessageEdited,
    /// Another answer than the generated one.
    AnotherAnswer,
    /// Any other difference.
    Differs,
    /// The conversation's KV was computed with other adapters.
    OtherAdapters,
    /// The saved KV belongs to another model or other options.
    OtherFingerprint,
    /// The file was deleted.
    Gone,
    /// The file is damaged.
    Unusable,
    NotKept,
}

impl Reason {
    /// The word in answers and metrics.
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
            Self::OtherAdapters => "other_adapters",
            Self::OtherFingerprint => "other_fingerprint",
            Self::Gone => "gone",
            Self::Unusable => "unusable",
            Self::NotKept => "not_kept",
        }
    }
}

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

    /// The template wrote the tools into a message, so the segment is labelled as that message.
    fn in_tools(self) -> Self {
        Self { in_tools: true, ..self }
    }
}

/// Excerpts around the first token that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Texts {
    /// The end of the common prefix.
    pub before: String,
    /// The saved timeline from there on.
    pub saved: String,
    /// The prompt from there on.
    pub new: String,
}

/// Why a request computed tokens again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub reason: Reason,
    /// The first token that was not reused.
    pub at: usize,
    /// The layer and the key of its segment.
    pub segment: Option<(Layer, String)>,
    /// `Some` if the prompt differs from the saved timeline.
    pub texts: Option<Texts>,
    /// The cause, in a sentence.
    pub what: String,
    pub remedy: String,
}

impl Explanation {
    /// `None` if the turn computed only new tokens.
    pub fn of(subject: &Subject, report: &TurnReport, vocabulary: &Vocabulary) -> Option<Self> {
        if report.cold {
            return None; // The request asked for a cold prefill.
        }
        let plain = |at: usize, finding: Finding| {
            let segment = segment_of(&subject.segments, at);
            let Finding { reason, what, remedy, .. } = finding;
            Self { reason, at, segment, texts: None, what, remedy }
        };
        Some(match &report.miss {
            Some(MissReason::Differs { at, saved }) => {
                let Subject { prompt, segments, is_appended, .. } = subject;
                let difference = Difference::of(prompt, segments, *at, saved, vocabulary);
                Self::of_difference(*at, difference, *is_appended)
            }
            Some(MissReason::OtherAdapters) => plain(report.tokens.cached(), other_adapters()),
            Some(MissReason::OtherFingerprint { fields, .. }) => {
                plain(0, other_fingerprint(fields))
            }
            Some(MissReason::Unusable { from, reason }) => plain(*from, unusable(reason)),
            Some(MissReason::NotSaved { from }) => plain(*from, not_saved()),
            None => {
                let cached = report.tokens.cached();
                let missing = report.tokens.computed > 1
                    && cached + MAX_UNCOMPUTED < subject.remembered.min(subject.prompt.len());
                missing.then(|| plain(cached, gone()))?
            }
        })
    }

    fn of_difference(at: usize, difference: Difference, is_appended: bool) -> Self {
        let finding = rules::judge(&difference, is_appended);
        let Difference { segment, before, saved_text, new_text, .. } = difference;
        let tools = |segment: Option<(Layer, String)>| match segment {
            Some((Layer::Identity, _)) | None => Some((Layer::Capabilities, "tools".to_owned())),
            other => other,
        };
        Self {
            reason: finding.reason,
            at,
            segment: if finding.in_tools { tools(segment) } else { segment },
            texts: Some(Texts { before, saved: saved_text, new: new_text }),
            what: finding.what,
            remedy: finding.remedy,
        }
    }

    pub fn to_api(&self) -> api::Explanation {
        let text = |side: fn(&Texts) -> &String| self.texts.as_ref().map(side).cloned();
        let segment = |(layer, key): &(Layer, String)| api::turn::Segment {
            layer: layer.as_str().to_owned(),
            key: key.clone(),
        };
        api::Explanation {
            reason: self.reason.as_str().to_owned(),
            what: self.what.clone(),
            remedy: self.remedy.clone(),
            at: Some(self.at),
            segment: self.segment.as_ref().map(segment),
            before: text(|texts| &texts.before),
            kept_text: text(|texts| &texts.saved),
            new_text: text(|texts| &texts.new),
        }
    }

    pub fn to_json(&self) -> Value {
        serde_json::to_value(self.to_api()).expect("texts and numbers are JSON")
    }
}

fn other_adapters() -> Finding {
    let what = "the turn before had other adapters (`lora`), whose KV is other KV".to_owned();
    let remedy = "send the same `lora` in each request of a conversation; KV of each set is kept";
    Finding::new(Reason::OtherAdapters, what, remedy)
}

fn other_fingerprint(fields: &str) -> Finding {
    let what =
        format!("its KV was saved by another model or with other options; what differs: {fields}");
    let remedy = "start hobd with the options of that time, or do nothing: it is computed once";
    Finding::new(Reason::OtherFingerprint, what, remedy)
}

fn unusable(reason: &str) -> Finding {
    if reason.contains(NOT_THERE) {
        return gone();
    }
    let what = format!("its saved KV cannot be used: {reason}");
    let remedy = "none is needed: it is computed and saved again; if this recurs, check the disk (`hob slots verify`)";
    Finding::new(Reason::Unusable, what, remedy)
}

fn gone() -> Finding {
    let what = "its saved KV is gone: it expired, was evicted or was removed".to_owned();
    let remedy = "keep it longer (`hob.ttl`, `hob slots class`), or allow more disk space (`slots_quota_bytes`)";
    Finding::new(Reason::Gone, what, remedy)
}

fn not_saved() -> Finding {
    let what =
        "its KV was not saved before the daemon ended or another conversation took its cells"
            .to_owned();
    let remedy =
        "stop hobd with SIGTERM, which saves all KV; a larger context (`ctx`) has more cells";
    Finding::new(Reason::NotKept, what, remedy)
}
