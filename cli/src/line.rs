//! Lines of standard input: with an editor at a terminal, as they come otherwise.
//!
//! - The editor has a history of this run and the keys of readline; it reports the line after each
//!   key.
//! - Ctrl-C and Ctrl-D at the prompt end the input.

use std::io::{self, BufRead, Lines, StdinLock};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Editor, Helper};

use crate::context::Terminal;

/// Gets the line after each key.
pub type OnKey = Box<dyn Fn(&str)>;

pub enum Input {
    Edited(Box<Editor<Keys, MemHistory>>),
    Plain(Lines<StdinLock<'static>>),
}

impl Input {
    /// An editor where standard input and output are a terminal, unless the output is `json`.
    pub fn new(terminal: Terminal, json: bool) -> Self {
        let config = Config::builder().auto_add_history(true).build();
        let history = MemHistory::with_config(&config);
        match Editor::with_history(config, history) {
            Ok(mut editor) if terminal.input && terminal.output && !json => {
                editor.set_helper(Some(Keys(None)));
                Self::Edited(Box::new(editor))
            }
            _ => Self::Plain(io::stdin().lock().lines()),
        }
    }

    pub fn is_edited(&self) -> bool {
        matches!(self, Self::Edited(_))
    }

    /// The next line; `None` at the end. `prompt` and `on_key` are used by the editor only.
    ///
    /// # Errors
    /// When standard input cannot be read.
    pub fn next(&mut self, prompt: &str, on_key: Option<OnKey>) -> io::Result<Option<String>> {
        let editor = match self {
            Self::Plain(lines) => return lines.next().transpose(),
            Self::Edited(editor) => editor,
        };
        editor.set_helper(Some(Keys(on_key)));
        let line = editor.readline(prompt);
        editor.set_helper(Some(Keys(None)));
        match line {
            Ok(line) => Ok(Some(line)),
            Err(ReadlineError::Eof | ReadlineError::Interrupted) => Ok(None),
            Err(ReadlineError::Io(error)) => Err(error),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

/// Reports the line where the editor asks for a hint: after each key.
pub struct Keys(Option<OnKey>);

impl Hinter for Keys {
    type Hint = String;

    fn hint(&self, line: &str, _: usize, _: &rustyline::Context<'_>) -> Option<String> {
        if let Some(on_key) = &self.0 {
            on_key(line);
        }
        None
    }
}

impl Completer for Keys {
    type Candidate = String;
}

impl Highlighter for Keys {}
impl Validator for Keys {}
impl Helper for Keys {}
