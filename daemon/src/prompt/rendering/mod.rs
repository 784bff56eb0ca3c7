//! Renders a model's chat template in a child process.
//!
//! - The template is a program that came with the model file. `ChatTemplate` bounds its steps and its output; it
//!   bounds neither the memory of a text that the template doubles nor the stack of nested terms. The child
//!   limits its own memory, stack and time: where it ends, the parent answers the one request with the reason,
//!   and starts another child for the next one.
//! - Where the system cannot start a child, or ends it, the template is not to blame: the parent tries once more, and
//!   then says that the same request may succeed later.
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

/// Longest reason, in characters. A template may refuse messages with a text as long as its memory.
const MAX_REASON: usize = 1000;

/// Why a template writes no prompt.
#[derive(Debug, Serialize, Deserialize)]
pub struct RenderError {
    /// In words.
    pub reason: String,
    pub cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The template refuses these messages. It may take them in another form.
    Messages,
    /// The template took all that it may take, and each form of the messages may cost as much again.
    Limit,
    /// The system did not start the child, or ended it: the same messages may be rendered later.
    System,
}

impl From<TemplateError> for RenderError {
    fn from(error: TemplateError) -> Self {
        let cause = match error {
            TemplateError::Endless | TemplateError::TooLong => Cause::Limit,
            TemplateError::Syntax(_) | TemplateError::Refused(_) | TemplateError::Failed(_) => {
                Cause::Messages
            }
        };
        let mut reason = error.to_string();
        if let Some((end, _)) = reason.char_indices().nth(MAX_REASON) {
            reason.truncate(end);
            reason.push('…');
        }
        Self { reason, cause }
    }
}

/// The command that starts a child.
type Starts = dyn Fn() -> io::Result<Command> + Send + Sync;

/// A chat template and the child that renders it.
pub struct ChildTemplate {
    starts: Box<Starts>,
    source: Source,
    /// `None` after a child has ended, and where the system has not started the first one.
    running: Mutex<Option<Running>>,
}

impl ChildTemplate {
    /// `bos` and `eos`: the written forms of these tokens. Where the system starts no child, the first prompt compiles
    /// the template.
    ///
    /// # Errors
    /// Why the template cannot be compiled, in words.
    pub fn new(text: &str, bos: &str, eos: &str) -> Result<Self, String> {
        let source = Source { text: text.to_owned(), bos: bos.to_owned(), eos: eos.to_owned() };
        Self::started_by(Box::new(command), source)
    }

    fn started_by(starts: Box<Starts>, source: Source) -> Result<Self, String> {
        let running = match Running::start(&starts, &source) {
            Ok(running) => Some(running),
            Err(End { reason, is_outside: true }) => {
                tracing::warn!(reason, "the first prompt compiles the chat template");
                None
            }
            Err(End { reason, .. }) => return Err(reason),
        };
        Ok(Self { starts, source, running: Mutex::new(running) })
    }

    /// The prompt.
    ///
    /// # Errors
    /// Why the template cannot render it.
    pub fn render(&self, input: &RenderInput<'_>) -> Result<String, RenderError> {
        let &RenderInput { messages, tools, add_generation_prompt, extra } = input;
        let input = Input { messages, tools, add_generation_prompt, extra };
        let mut running = self.running.lock();
        let mut is_first = true;
        loop {
            let started = match running.take() {
                Some(process) => Ok(process),
                None => Running::start(&self.starts, &self.source),
            };
            let asked = started.and_then(|mut process| match process.ask(&input) {
                Ok(reply) => Ok((process, reply)),
                Err(error) => Err(process.end(&error)),
            });
            match asked {
                Ok((process, reply)) => {
                    *running = Some(process);
                    return reply;
                }
                // The system ends children first where memory is short.
                Err(end) if end.is_outside && is_first => is_first = false,
                Err(end) => return Err(end.into()),
            }
        }
    }

    pub fn supports_tools(&self) -> bool {
        self.source.text.contains("tools")
    }
}

/// This program, as a child.
fn command() -> io::Result<Command> {
    let mut command = limits::command()?;
    command.arg(child::FLAG);
    Ok(command)
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
    /// The template is not to blame.
    is_outside: bool,
}

impl From<End> for RenderError {
    fn from(End { reason, is_outside }: End) -> Self {
        Self { reason, cause: if is_outside { Cause::System } else { Cause::Limit } }
    }
}

impl Running {
    fn start(starts: &Starts, source: &Source) -> Result<Self, End> {
        let failed = |error: io::Error| End {
            reason: format!("its process cannot be started: {error}"),
            is_outside: true,
        };
        let mut command = starts().map_err(failed)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = OwnedChild(command.spawn().map_err(failed)?);
        let input = process.0.stdin.take().expect("it is piped");
        let output = process.0.stdout.take().expect("it is piped");
        let mut running = Self { process, input, output };
        match running.ask(source) {
            Ok(Ok(_)) => Ok(running),
            Ok(Err(error)) => Err(End { reason: error.reason, is_outside: false }),
            Err(error) => Err(running.end(&error)),
        }
    }

    /// # Errors
    /// When the child has ended, or ends instead of an answer.
    fn ask(&mut self, question: &impl Serialize) -> io::Result<Reply> {
        frames::write(&mut self.input, question)?;
        frames::read(&mut self.output)
    }

    fn end(self, error: &io::Error) -> End {
        let Self { process: mut child, input, .. } = self;
        // A child whose pipes are closed ends by itself, with the status that tells why. Another one ends here.
        if !matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe) {
            return End { reason: error.to_string(), is_outside: false };
        }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A template of which the system ends the first `count` children. A later one compiles it, and writes `Hi`.
    fn ended_children(count: usize) -> ChildTemplate {
        let started = AtomicUsize::new(0);
        let starts = move || {
            let is_ended = started.fetch_add(1, Ordering::Relaxed) < count;
            let writes =
                r#"printf '\011\000\000\000{"Ok":""}\013\000\000\000{"Ok":"Hi"}'; cat >/dev/null"#;
            let mut command = Command::new("sh");
            command.args(["-c", if is_ended { "kill -9 $$" } else { writes }]);
            Ok(command)
        };
        let source = Source { text: String::new(), bos: String::new(), eos: String::new() };
        ChildTemplate::started_by(Box::new(starts), source).expect("the template is not to blame")
    }

    fn rendered(template: &ChildTemplate) -> Result<String, RenderError> {
        let extra = Map::new();
        template.render(&RenderInput {
            messages: &[],
            tools: None,
            add_generation_prompt: true,
            extra: &extra,
        })
    }

    #[test]
    fn a_reason_is_cut_however_much_a_template_writes() {
        let reason = |text: String| RenderError::from(TemplateError::Refused(text)).reason;
        assert_eq!(reason("no é".to_owned()), "no é");
        assert_eq!(reason("é".repeat(MAX_REASON)).chars().count(), MAX_REASON);
        assert_eq!(reason("é".repeat(1 << 20)), "é".repeat(MAX_REASON) + "…");
    }

    #[test]
    fn a_template_whose_first_child_the_system_ended_is_compiled_for_the_first_prompt() {
        assert_eq!(rendered(&ended_children(1)).unwrap(), "Hi");
    }

    #[test]
    fn after_two_children_that_the_system_ended_the_same_prompt_may_be_written_later() {
        let template = ended_children(3);
        assert_eq!(rendered(&template).unwrap_err().cause, Cause::System);
        assert_eq!(rendered(&template).unwrap(), "Hi");
    }
}
