//! Lines of standard input: with an editor at a terminal, as they come otherwise.
//!
//! - The editor has readline's keys; it reports the line after each key. Alt+Enter, a `\` at the end
//!   of the line and a paste make messages of several lines. Only a `\` in front of Enter is removed: a
//!   paste is text.
//! - The history is a file that only its user can read; without a file it lasts as long as the run.
//! - Ctrl-C drops the line, Ctrl-D at an empty one ends the input.

use std::io::{self, BufRead, StdinLock};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustyline::completion::{Completer, FilenameCompleter};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{
    Cmd, CompletionType, ConditionalEventHandler, Config, Editor, Event, EventContext,
    EventHandler, Helper, KeyCode, KeyEvent, Modifiers, RepeatCount,
};

use crate::context::Terminal;

const HISTORY_LINES: usize = 1_000;

/// Gets the line after each key.
pub type OnKey = Box<dyn Fn(&str)>;

pub enum Input {
    Edited(Box<Edited>),
    Plain(StdinLock<'static>),
}

pub struct Edited {
    editor: Editor<Keys, FileHistory>,
    /// `None`: nothing of this run is written.
    history: Option<PathBuf>,
    completed: Completed,
    continued: Continued,
    /// The terminal is dumb: the editor reads whole lines, and sees no key.
    has_no_keys: bool,
}

/// What Tab completes.
#[derive(Clone)]
pub struct Completed {
    /// At the beginning of a line.
    pub words: &'static [&'static str],
    /// Words at the beginning of a line, with a space, behind which a path stands.
    pub before_paths: &'static [&'static str],
    /// What `~` stands for in such a path.
    pub home: PathBuf,
}

/// What [`Input::next`] reads.
pub enum Line {
    Text(String),
    /// Ctrl-C dropped it.
    Dropped,
    End,
}

impl Input {
    /// An editor where standard input and output are a terminal, unless the output is `json`.
    /// `history`: the file of earlier lines.
    pub fn new(
        terminal: Terminal,
        json: bool,
        history: Option<PathBuf>,
        completed: Completed,
    ) -> Self {
        let plain = || Self::Plain(io::stdin().lock());
        if !terminal.input || !terminal.output || json {
            return plain();
        }
        let config =
            Config::builder().completion_type(CompletionType::List).max_history_size(HISTORY_LINES);
        let Ok(config) = config.map(|config| config.build()) else { return plain() };
        let lines = FileHistory::with_config(&config);
        let Ok(mut editor) = Editor::with_history(config, lines) else { return plain() };
        editor.bind_sequence(
            KeyEvent(KeyCode::Enter, Modifiers::ALT),
            EventHandler::Simple(Cmd::Newline),
        );
        let continued = Continued::default();
        // While an answer streams, the terminal makes Ctrl-J of Enter.
        for enter in [KeyEvent(KeyCode::Enter, Modifiers::NONE), KeyEvent::ctrl('J')] {
            let handler = EventHandler::Conditional(Box::new(continued.clone()));
            editor.bind_sequence(enter, handler);
        }
        if let Some(path) = &history {
            let _ = editor.load_history(path); // An error: there is none yet.
        }
        let has_no_keys = terminal.is_dumb;
        Self::Edited(Box::new(Edited { editor, history, completed, continued, has_no_keys }))
    }

    pub fn is_edited(&self) -> bool {
        matches!(self, Self::Edited(_))
    }

    /// The next line. `prompt` and `on_key` are used by the editor only.
    ///
    /// # Errors
    /// When standard input cannot be read.
    pub fn next(&mut self, prompt: &str, on_key: Option<OnKey>) -> io::Result<Line> {
        match self {
            Self::Plain(input) => plain_line(input),
            Self::Edited(edited) => edited.next(prompt, on_key),
        }
    }
}

/// The next line without its end. Bytes that are not UTF-8 are replaced.
fn plain_line(input: &mut impl BufRead) -> io::Result<Line> {
    let mut bytes = Vec::new();
    if input.read_until(b'\n', &mut bytes)? == 0 {
        return Ok(Line::End);
    }
    let text = String::from_utf8_lossy(&bytes);
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(Line::Text(line.strip_suffix('\r').unwrap_or(line).to_owned()))
}

impl Edited {
    fn next(&mut self, prompt: &str, on_key: Option<OnKey>) -> io::Result<Line> {
        self.editor.set_helper(Some(Keys { on_key, completed: self.completed.clone() }));
        let line = self.editor.readline(prompt);
        self.editor.set_helper(None);
        let continued = self.continued.take();
        match line {
            Ok(line) => {
                let line = if self.has_no_keys {
                    line.replace("\\\n", "\n")
                } else {
                    without_continuations(line, &continued)
                };
                let _ = self.editor.add_history_entry(&line); // An error: it is in memory.
                self.save();
                Ok(Line::Text(line))
            }
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(ReadlineError::Interrupted) => Ok(Line::Dropped),
            Err(ReadlineError::Io(error)) => Err(error),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Appends the line to the file; where it cannot be written, only the run has a history.
    fn save(&mut self) {
        if let Some(path) = &self.history {
            let _ = self.editor.append_history(path);
        }
    }
}

/// The line at each Enter behind a `\` at its end, which begins another line of the message.
#[derive(Clone, Default)]
struct Continued(Arc<Mutex<Vec<String>>>);

impl Continued {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ConditionalEventHandler for Continued {
    fn handle(
        &self,
        _: &Event,
        _: RepeatCount,
        _: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        let line = context.line();
        let is_behind = context.pos() == line.len() && line.ends_with('\\');
        is_behind.then(|| {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
            Cmd::Newline
        })
    }
}

/// Removes the `\` at the end of each line that Enter has continued, and no other.
fn without_continuations(mut line: String, continued: &[String]) -> String {
    // A later one has the earlier ones in it.
    for before in continued.iter().rev() {
        if line.strip_prefix(before.as_str()).is_some_and(|rest| rest.starts_with('\n')) {
            line.remove(before.len() - 1);
        }
    }
    line
}

/// Reports the line where the editor asks for a hint: after each key.
pub struct Keys {
    on_key: Option<OnKey>,
    completed: Completed,
}

impl Hinter for Keys {
    type Hint = String;

    fn hint(&self, line: &str, _: usize, _: &rustyline::Context<'_>) -> Option<String> {
        if let Some(on_key) = &self.on_key {
            on_key(line);
        }
        None
    }
}

/// The paths that begin with `begun`, which stands at `start` in the line; `home` in place of a leading `~`.
fn paths(start: usize, begun: &str, home: &Path) -> rustyline::Result<(usize, Vec<String>)> {
    let whole = match begun.strip_prefix("~/") {
        Some(below) => format!("{}/{below}", home.display()),
        None => begun.to_owned(),
    };
    let (at, found) = FilenameCompleter::new().complete_path(&whole, whole.len())?;
    let found = found.into_iter().map(|pair| format!("{}{}", &whole[..at], pair.replacement));
    Ok((start, found.collect()))
}

impl Completer for Keys {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let begun = &line[..at];
        let Completed { words, before_paths, home } = &self.completed;
        if let Some(command) = before_paths.iter().find(|command| begun.starts_with(**command)) {
            return paths(command.len(), &begun[command.len()..], home);
        }
        let words = words.iter().filter(|word| !begun.is_empty() && word.starts_with(begun));
        Ok((0, words.map(|word| format!("{word} ")).collect()))
    }
}

impl Validator for Keys {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let goes_on = context.input().ends_with('\\');
        Ok(if goes_on { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Highlighter for Keys {}
impl Helper for Keys {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_without_its_end_and_whatever_its_bytes_are() {
        let mut input = &b"one\r\n\ncaf\xe9\nlast"[..];
        let mut next = || match plain_line(&mut input).unwrap() {
            Line::Text(text) => Some(text),
            Line::Dropped | Line::End => None,
        };
        for line in ["one", "", "caf\u{fffd}", "last"] {
            assert_eq!(next().as_deref(), Some(line));
        }
        assert_eq!(next(), None);
    }
}
