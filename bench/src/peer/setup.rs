//! What both sides are started with.

use std::path::PathBuf;
use std::time::Duration;

/// Where a field is `None`, each has its own default.
#[derive(Clone, Debug)]
pub struct Setup {
    pub model: PathBuf,
    /// Cells.
    pub context: usize,
    /// Compute threads.
    pub threads: usize,
    pub slots: Option<usize>,
    /// Both free the weights after this idle time.
    pub unload_after: Option<Duration>,
    /// llama-server may save slots; hobd always does.
    pub saves: bool,
    /// Tokens of the shortest text that llama-server moves; `None`: it moves none.
    pub cache_reuse: Option<usize>,
    /// hobd guesses tokens, as by default.
    pub drafts: bool,
}

impl Setup {
    pub fn slots(&self, slots: usize) -> Self {
        Self { slots: Some(slots), ..self.clone() }
    }

    pub fn unload_after(&self, after: Duration) -> Self {
        Self { unload_after: Some(after), ..self.clone() }
    }

    pub fn hobd_flags(&self) -> Vec<String> {
        let mut flags = vec!["--model".to_owned(), self.model.display().to_string()];
        let mut with = |flag: &str, value: String| flags.extend([flag.to_owned(), value]);
        with("--ctx", self.context.to_string());
        with("--threads", self.threads.to_string());
        if let Some(slots) = self.slots {
            with("--slots", slots.to_string());
        }
        if let Some(after) = self.unload_after {
            with("--unload-after", format!("{}s", after.as_secs()));
        }
        if !self.drafts {
            with("--draft", "off".to_owned());
        }
        flags
    }
}
