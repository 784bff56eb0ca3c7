//! Renders a model's chat template in a child process.
//!
//! - The template is a program that came with the model file. `ChatTemplate` bounds its steps and its output; it
//!   bounds neither the memory of a text that the template doubles nor the stack of nested terms. The child
//!   limits its own memory, stack and time: where it ends, the parent answers the one request with the reason,
//!   and starts another child for the next one.
//! - The child compiles the template once and waits for messages, so that a turn costs two copies over
//!   a pipe (`cargo xtask bench template`).

mod child;
mod frames;

use std::io;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use hob_runtime::template::{RenderInput, TemplateError};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use child::child;

use crate::limits;

/// What is compiled, once a child.
#[derive(Debug, Serialize, Deserialize)]
struct Source {
    text: String,
    bos: String,
    eos: String,
}

/// What is rendered: the fields of [`RenderInput`].
#[derive(Debug, Serialize)]
struct Input<'a> {
    messages: &'a [Value],
    tools: Option<&'a [Value]>,
    add_generation_prompt: bool,
    extra: &'a Map<String, Value>,
}

/// What the child answers: to the source nothing, to an input the prompt; else why not.
type Reply = Result<String, RenderError>;

/// Why a template writes no prompt.
#[derive(Debug, Serialize, Deserialize)]
pub struct RenderError {
    /// In words.
    pub reason: String,
    /// The template took all that it may take, and each form of the messages may cost as much again.
    pub exceeds_limit: bool,
}

impl From<TemplateError> for RenderError {
    fn from(error: TemplateError) -> Self {
        let exceeds_limit = matches!(error, TemplateError::Endless | TemplateError::TooLong);
        Self { reason: error.to_string(), exceeds_limit }
    }
}

/// A chat template whose child is running.
pub struct ChildTemplate {
    source: Source,
    /// `None` after a child has ended.
    running: Mutex<Option<Running>>,
}

impl ChildTemplate {
    /// `bos` and `eos`: the written forms of these tokens.
    ///
    /// # Errors
    /// Why the template cannot be compiled, in words.
    pub fn new(text: &str, bos: &str, eos: &str) -> Result<Self, String> {
        let source = Source { text: text.to_owned(), bos: bos.to_owned(), eos: eos.to_owned() };
        let running = Running::start(&source)?;
        Ok(Self { source, running: Mutex::new(Some(running)) })
    }

    /// The prompt.
    ///
    /// # Errors
    /// Why the template cannot render it.
    pub fn render(&self, input: &RenderInput<'_>) -> Result<String, RenderError> {
        let &RenderInput { messages, tools, add_generation_prompt, extra } = input;
        let input = Input { messages, tools, add_generation_prompt, extra };
        let mut running = self.running.lock();
        let ended = |reason| RenderError { reason, exceeds_limit: true };
        let mut is_first = true;
        loop {
            let mut process = match running.take() {
                Some(process) => process,
                None => Running::start(&self.source).map_err(ended)?,
            };
            match process.ask(&input) {
                Ok(reply) => {
                    *running = Some(process);
                    return reply;
                }
                Err(error) => {
                    let end = process.end(&error);
                    // The system ends children first where memory is short.
                    if end.is_outside && is_first {
                        is_first = false;
                        continue;
                    }
                    return Err(ended(end.reason));
                }
            }
        }
    }

    pub fn supports_tools(&self) -> bool {
        self.source.text.contains("tools")
    }
}

struct Running {
    process: OwnedChild,
    input: ChildStdin,
    output: ChildStdout,
}

/// A child that ends, and leaves no dead process, when this is dropped.
struct OwnedChild(Child);

impl Drop for OwnedChild {
    fn drop(&mut self) {
        // Errors: it has ended and was waited for.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// How a child ended.
struct End {
    reason: String,
    /// The template may not be to blame.
    is_outside: bool,
}

impl Running {
    fn start(source: &Source) -> Result<Self, String> {
        let failed = |error: io::Error| format!("its process cannot be started: {error}");
        let mut command = Command::new(limits::program().map_err(failed)?);
        command.arg(child::FLAG);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = OwnedChild(command.spawn().map_err(failed)?);
        let input = process.0.stdin.take().expect("it is piped");
        let output = process.0.stdout.take().expect("it is piped");
        let mut running = Self { process, input, output };
        match running.ask(source) {
            Ok(reply) => reply.map(|_| running).map_err(|error| error.reason),
            Err(error) => Err(running.end(&error).reason),
        }
    }

    /// # Errors
    /// When the child has ended, or ends instead of an answer.
    fn ask(&mut self, question: &impl Serialize) -> io::Result<Reply> {
        frames::write(&mut self.input, question)?;
        frames::read(&mut self.output)
    }

    fn end(mut self, error: &io::Error) -> End {
        // A child whose pipes are closed ends by itself, with the status that tells why.
        let is_ending =
            matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe);
        if !is_ending {
            self.process.0.kill().ok();
        }
        let Self { process: mut child, input, .. } = self;
        drop(input);
        match child.0.wait() {
            Ok(status) => end_of(status),
            Err(error) => End { reason: error.to_string(), is_outside: false },
        }
    }
}

fn end_of(status: ExitStatus) -> End {
    if status.code() == Some(child::TIMED_OUT.into()) {
        let reason = format!("it was not rendered after {} s", child::MAX_TIME.as_secs());
        return End { reason, is_outside: false };
    }
    let (cause, is_outside) = limits::cause(status);
    let (memory, stack) = (child::MEMORY_BYTES >> 20, child::STACK_BYTES >> 20);
    let reason = format!(
        "the process that renders it ended ({cause}): it has {memory} MiB of memory and {stack} MiB of \
         stack"
    );
    End { reason, is_outside }
}
