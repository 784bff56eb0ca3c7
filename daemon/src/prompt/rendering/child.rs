//! The child: limits itself, compiles one template, and renders it until its input is closed.

use std::ffi::OsStr;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{io, thread};

use hob_runtime::template::{ChatTemplate, RenderInput};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{RenderError, Reply, Source, frames};
use crate::limits::Limits;

/// The child's only argument.
pub(super) const FLAG: &str = "--render-templates";

/// Maximum time for one prompt. The slowest template of llama.cpp's collection takes milliseconds.
pub(super) const MAX_TIME: Duration = Duration::from_secs(10);
/// Address space, without that of the program and its libraries.
pub(super) const MEMORY_BYTES: u64 = 1 << 30;
/// Stack of the thread that compiles and renders. Terms nest as deep as a template wants.
pub(super) const STACK_BYTES: usize = 64 << 20;

/// Exit code of a child that took longer than [`MAX_TIME`].
pub(super) const TIMED_OUT: u8 = 4;

#[derive(Debug, Deserialize)]
struct Input {
    messages: Vec<Value>,
    tools: Option<Vec<Value>>,
    add_generation_prompt: bool,
    extra: Map<String, Value>,
}

/// In such a child: renders until its input is closed, and returns the exit code.
pub fn child() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().as_deref() != Some(OsStr::new(FLAG)) {
        return None;
    }
    Limits { cpu_secs: None, address_bytes: MEMORY_BYTES }.apply_as_server();
    Some(serve().unwrap_or(ExitCode::FAILURE))
}

/// This thread reads, writes and looks at the clock; another one renders.
fn serve() -> io::Result<ExitCode> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let source: Source = frames::read(&mut input)?;
    let (inputs, rendered) = renderer(source)?;
    loop {
        let reply = match rendered.recv_timeout(MAX_TIME) {
            Ok(reply) => reply,
            Err(RecvTimeoutError::Timeout) => return Ok(ExitCode::from(TIMED_OUT)),
            Err(RecvTimeoutError::Disconnected) => return Ok(ExitCode::FAILURE), // It panicked.
        };
        frames::write(&mut output, &reply)?;
        match frames::read(&mut input) {
            Ok(next) => inputs.send(next).ok(),
            Err(_) => return Ok(ExitCode::SUCCESS), // The parent wants no more.
        };
    }
}

/// Answers the source first, and then each input.
fn renderer(source: Source) -> io::Result<(mpsc::Sender<Input>, mpsc::Receiver<Reply>)> {
    let (inputs, inbox) = mpsc::channel::<Input>();
    let (replies, rendered) = mpsc::channel();
    thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        let Source { text, bos, eos } = source;
        let template = match ChatTemplate::new(&text, &bos, &eos) {
            Ok(template) => template,
            Err(error) => return replies.send(Err(error.into())).ok(),
        };
        replies.send(Ok(String::new())).ok()?;
        for Input { messages, tools, add_generation_prompt, extra } in inbox {
            let input = RenderInput {
                messages: &messages,
                tools: tools.as_deref(),
                add_generation_prompt,
                extra: &extra,
            };
            replies.send(template.render(&input).map_err(RenderError::from)).ok()?;
        }
        Some(())
    })?;
    Ok((inputs, rendered))
}
