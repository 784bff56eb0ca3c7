//! Progress, shown on a terminal only.

use std::io::{Write, stderr};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Deserialize;
use serde_json::Value;

use crate::context::{Context, Terminal};
use crate::output::{count, line};

/// A bar over bytes, on standard error.
pub fn bytes(total_bytes: u64, what: &str, on_terminal: bool) -> ProgressBar {
    let target =
        if on_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = "{msg} {wide_bar} {bytes}/{total_bytes} {eta}";
    let style = ProgressStyle::with_template(style).expect("the template is well-formed");
    let bar = ProgressBar::with_draw_target(Some(total_bytes), target).with_style(style);
    bar.with_message(what.to_owned())
}

/// How far a prompt is, as one line of standard error that is replaced.
pub struct Reading {
    on_terminal: bool,
    /// A longer line would wrap, and only its last row could be replaced.
    max_chars: usize,
    is_drawn: bool,
}

/// `hob.progress` of a chunk.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Report {
    phase: String,
    loaded_percent: Option<u8>,
    tokens_total: u64,
    tokens_ready: u64,
    seconds_left: Option<f64>,
}

impl Reading {
    pub fn of(context: &Context) -> Self {
        let Terminal { error, is_dumb, .. } = context.terminal;
        let max_chars = context.columns().map_or(usize::MAX, |columns| columns - 1);
        Self { on_terminal: error && !is_dumb && !context.json, max_chars, is_drawn: false }
    }

    /// Whether reports are worth asking for.
    pub fn is_shown(&self) -> bool {
        self.on_terminal
    }

    /// Replaces the line. `report`: null where the chunk has none.
    pub fn show(&mut self, report: &Value) {
        if !self.on_terminal || report.is_null() {
            return;
        }
        let report: Report = serde_json::from_value(report.clone()).unwrap_or_default();
        // An error: no terminal, no progress.
        let _ = write!(stderr(), "\r\x1b[2K{}", line(&report.line(), self.max_chars));
        let _ = stderr().flush();
        self.is_drawn = true;
    }

    /// Removes the line.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = write!(stderr(), "\r\x1b[2K");
        }
    }
}

impl Report {
    /// `Reading 1,204 of 3,784 tokens, 12 s left`
    fn line(&self) -> String {
        let Self { tokens_total, tokens_ready, .. } = self;
        let tokens = format!("{} of {} tokens", count(*tokens_ready), count(*tokens_total));
        let left = self.seconds_left.map_or(String::new(), |secs| match secs.ceil() as u64 {
            secs @ 0..120 => format!(", {secs} s left"),
            secs => format!(", {} min left", secs.div_ceil(60)),
        });
        match (self.phase.as_str(), self.loaded_percent) {
            ("waiting", _) => "Waiting for a free slot".to_owned(),
            ("loading", Some(percent)) => format!("Loading the model, {percent} %"),
            ("loading", None) => "Loading the model".to_owned(),
            ("restoring", _) => format!("Restoring {tokens}"),
            _ => format!("Reading {tokens}{left}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_is_one_line() {
        let line = |report: Value| serde_json::from_value::<Report>(report).unwrap().line();
        let mut report = json!({
            "phase": "reading", "tokens_total": 3784, "tokens_ready": 1204, "seconds_left": 11.2,
        });
        assert_eq!(line(report.clone()), "Reading 1,204 of 3,784 tokens, 12 s left");
        report["seconds_left"] = 200.into();
        assert_eq!(line(report.clone()), "Reading 1,204 of 3,784 tokens, 4 min left");
        report["seconds_left"] = Value::Null;
        report["phase"] = "restoring".into();
        assert_eq!(line(report), "Restoring 1,204 of 3,784 tokens");
        let loading = json!({"phase": "loading", "loaded_percent": 42});
        assert_eq!(line(loading), "Loading the model, 42 %");
    }
}
