//! A model file is tried in a child process before this process loads it for the first time.
//!
//! - llama.cpp checks few of a file's fields: a wrong one aborts the process while it loads the file,
//!   tokenizes or computes. Of a child with limits of time, processor time and memory, that is one
//!   error with a reason.
//! - What was found is remembered by the file's content: a file that passed costs nothing at the next
//!   start, and one that ended its child is refused without another. What the machine may be to blame
//!   for (time, memory, a signal from outside) is not remembered.
//! - A file that fails with its MTP head is tried without it: the model is served then, and its head guesses nothing.
//! - The bundled model is not tried.

mod child;
mod reason;

use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hob_config::Settings;
use hob_models::{ContentHash, ModelError, ModelFile, ProbeCache};
use hob_runtime::backend::LoadError;
use hob_runtime::probe::Stage;
use sha2::{Digest, Sha256};

pub use child::child;

use super::model_file::tries_mtp;
use super::{Report, Step};
use crate::limits;
use child::{Job, Line};

/// How often a report is asked whether to go on.
const LOOK: Duration = Duration::from_millis(5);

/// Limit for a file without content; [`BYTES_PER_SECOND`] adds to it.
const MIN_TIME: Duration = Duration::from_secs(60);

/// Slow disks and slow processors do more.
const BYTES_PER_SECOND: u64 = 20 << 20;

/// From this size on, a file's few tokens are worth more than one thread.
const MANY_BYTES: u64 = 1 << 30;

/// Hides all devices from CUDA, ROCm and Vulkan. llama.cpp asks each device that it sees for its memory, and ends
/// the process where the driver does not answer: CUDA's needs more address space than the child may have.
const NO_DEVICES: [(&str, &str); 3] = [
    ("CUDA_VISIBLE_DEVICES", "-1"),
    ("HIP_VISIBLE_DEVICES", "-1"),
    ("GGML_VK_VISIBLE_DEVICES", ""),
];

/// What a probe found.
#[derive(Debug, PartialEq, Eq)]
enum ProbeResult {
    Usable,
    /// For a reason in the file.
    Refused(String),
    /// For a reason that may be gone at the next try.
    Failed(String),
}

/// Tries the file, unless it is known. Returns why its MTP head cannot be used, if only that fails.
///
/// # Errors
/// [`ModelError::Refused`] for a file that cannot be used; [`LoadError::Interrupted`] when `report`
/// breaks.
pub(super) fn check(
    settings: &Settings,
    cache: &ProbeCache,
    file: &ModelFile,
    content: ContentHash,
    report: &mut Report<'_>,
) -> Result<Option<String>> {
    let refused = |reason| ModelError::Refused { path: file.path.clone(), reason };
    if let Some(found) = cache.get(content) {
        found.map_err(refused)?;
        return Ok(cache.get(of_head(content)).and_then(Result::err));
    }
    let mut found = probed(settings, file, tries_mtp(settings), report)?;
    let mut with_head = ProbeResult::Usable;
    if found != ProbeResult::Usable && tries_mtp(settings) && file.summary.n_layer_mtp > 0 {
        with_head = std::mem::replace(&mut found, probed(settings, file, false, report)?);
    }
    let (no_head, is_known) = match with_head {
        ProbeResult::Usable => (None, true),
        ProbeResult::Refused(reason) => (Some(reason), true),
        ProbeResult::Failed(reason) => (Some(reason), false),
    };
    let found = match found {
        ProbeResult::Usable => Ok(()),
        ProbeResult::Refused(reason) => Err(reason),
        ProbeResult::Failed(reason) => return Err(refused(reason).into()),
    };
    if is_known {
        // The head first: of a file that is known as usable, the head is loaded unless it is known too.
        let head = no_head.clone().map(|reason| (of_head(content), Err(reason)));
        for (content, found) in head.into_iter().chain([(content, found.clone())]) {
            if let Err(error) = cache.put(content, &found) {
                tracing::warn!(%error, "the probe is not remembered");
                break;
            }
        }
    }
    found.map_err(refused)?;
    Ok(no_head)
}

/// Names the MTP head of the file with this content.
fn of_head(content: ContentHash) -> ContentHash {
    let mut hash = Sha256::new_with_prefix(content.0);
    hash.update(b"MTP");
    ContentHash(hash.finalize().into())
}

/// What a child found of the file, with its MTP head or without.
fn probed(
    settings: &Settings,
    file: &ModelFile,
    mtp: bool,
    report: &mut Report<'_>,
) -> Result<ProbeResult> {
    let began = Instant::now();
    let trial = Trial { path: &file.path, bytes: file.size_bytes, mtp, adapter: None };
    let found = try_file(settings, &trial, report)?;
    let took_ms = began.elapsed().as_millis() as u64;
    tracing::info!(path = %file.path.display(), took_ms, mtp, ?found, "the model file was probed");
    Ok(found)
}

/// Tries an adapter of requests on the model in `files`, unless it is known. `mtp`: that model's MTP head is loaded.
/// `content`: of the adapter and of all that decides what is found.
///
/// # Errors
/// The reason why it cannot be used.
pub(super) fn check_adapter(
    settings: &Settings,
    cache: &ProbeCache,
    files: &[PathBuf],
    mtp: bool,
    adapter: &Path,
    content: ContentHash,
) -> Result<(), String> {
    if let Some(found) = cache.get(content) {
        return found;
    }
    let files_and_adapter = files.iter().map(PathBuf::as_path).chain([adapter]);
    let bytes = files_and_adapter.filter_map(|path| Some(path.metadata().ok()?.len())).sum();
    let path = files.first().ok_or("the model has no file")?;
    let trial = Trial { path, bytes, mtp, adapter: Some(adapter) };
    let found = try_file(settings, &trial, &mut |_| ControlFlow::Continue(()));
    let found = match found.map_err(|error| error.to_string())? {
        ProbeResult::Usable => Ok(()),
        ProbeResult::Refused(reason) => Err(reason),
        ProbeResult::Failed(reason) => return Err(reason),
    };
    tracing::info!(path = %adapter.display(), ?found, "the adapter was probed");
    if let Err(error) = cache.put(content, &found) {
        tracing::warn!(%error, "the probe is not remembered");
    }
    found
}

/// A file for a child to load.
struct Trial<'t> {
    /// The model's first file.
    path: &'t Path,
    /// Size of all files.
    bytes: u64,
    /// With its MTP head, if it has one.
    mtp: bool,
    /// The adapter of a request that is tried, if any.
    adapter: Option<&'t Path>,
}

fn try_file(settings: &Settings, file: &Trial<'_>, report: &mut Report<'_>) -> Result<ProbeResult> {
    let job = Job {
        path: file.path.to_owned(),
        file_bytes: file.bytes,
        // Threads wait for each other after every operation: on a busy machine, one computes the few
        // tokens several times faster than two do.
        threads: if file.bytes < MANY_BYTES { 1 } else { settings.threads as usize },
        cache_type_k: settings.cache_type_k.to_string(),
        cache_type_v: settings.cache_type_v.to_string(),
        mtp: file.mtp,
        adapters: settings.lora.iter().map(|it| (it.path.clone(), it.scale)).collect(),
        adapter: file.adapter.map(Path::to_owned),
    };
    let mut command = limits::command().context("cannot find this program again")?;
    command.arg(child::FLAG).arg(serde_json::to_string(&job)?);
    command.envs(NO_DEVICES);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().context("cannot start the process that probes the model")?;
    let lines = reader(process.stdout.take().expect("it is piped"));
    let errors = reader(process.stderr.take().expect("it is piped"));
    let limit = MIN_TIME + Duration::from_secs(file.bytes / BYTES_PER_SECOND);
    let status = wait(&mut process, limit, || report(Step::Loading { percent: 0 }).is_break());
    let (lines, errors) = (joined(lines), joined(errors));
    Ok(match status? {
        End::Interrupted => {
            return Err(LoadError::Interrupted { path: file.path.display().to_string() }.into());
        }
        End::TimedOut => ProbeResult::Failed(format!(
            "llama.cpp had not ended after {} s while it {}",
            limit.as_secs(),
            stage(&lines)
        )),
        End::Ended(status) => result_of(status, &lines, &errors),
    })
}

enum End {
    Ended(ExitStatus),
    TimedOut,
    Interrupted,
}

/// Waits for the end of `process`, and kills it after `limit` or when it `is_interrupted`.
fn wait(
    process: &mut Child,
    limit: Duration,
    mut is_interrupted: impl FnMut() -> bool,
) -> std::io::Result<End> {
    let began = Instant::now();
    let end = loop {
        if let Some(status) = process.try_wait()? {
            return Ok(End::Ended(status));
        }
        if is_interrupted() {
            break End::Interrupted;
        }
        if began.elapsed() > limit {
            break End::TimedOut;
        }
        thread::sleep(LOOK);
    };
    process.kill().ok(); // An error: it has just ended.
    process.wait()?;
    Ok(end)
}

/// Reads what a child writes to its end, so that the child never waits; the last lines stay.
fn reader(output: impl Read + Send + 'static) -> JoinHandle<Vec<String>> {
    const MAX_LINE_BYTES: u64 = 4096;
    const MAX_LINES: usize = 16;
    thread::spawn(move || {
        let (mut output, mut lines) = (BufReader::new(output), Vec::new());
        loop {
            let mut line = Vec::new();
            match output.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return lines,
                Ok(_) => lines.push(String::from_utf8_lossy(&line).trim().to_owned()),
            }
            if lines.len() > MAX_LINES {
                lines.remove(0);
            }
        }
    })
}

fn joined(reader: JoinHandle<Vec<String>>) -> Vec<String> {
    reader.join().unwrap_or_default()
}

fn result_of(status: ExitStatus, lines: &[String], errors: &[String]) -> ProbeResult {
    let said = lines.last().and_then(|line| serde_json::from_str(line).ok());
    match said {
        Some(Line::Usable) if status.success() => ProbeResult::Usable,
        Some(Line::Refused { reason, of_file }) if status.success() => {
            let reason = match reason::last(errors) {
                Some(line) => format!("{reason} ({line})"),
                None => reason,
            };
            if of_file { ProbeResult::Refused(reason) } else { ProbeResult::Failed(reason) }
        }
        _ => {
            let (cause, is_outside) = limits::cause(status);
            let detail = reason::last(errors).map_or(String::new(), |line| format!(": {line}"));
            let reason = format!("llama.cpp ended while it {} ({cause}{detail})", stage(lines));
            if is_outside { ProbeResult::Failed(reason) } else { ProbeResult::Refused(reason) }
        }
    }
}

/// What a child did last.
fn stage(lines: &[String]) -> Stage {
    let begun = lines.iter().rev().find_map(|line| match serde_json::from_str(line).ok()? {
        Line::Begins(stage) => Some(stage),
        _ => None,
    });
    begun.unwrap_or(Stage::Loading)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    const ABORTED: i32 = 6;
    const KILLED: i32 = 9;
    const OUT_OF_PROCESSOR_TIME: i32 = 24;

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|&line| line.to_owned()).collect()
    }

    #[test]
    fn the_end_of_a_child_is_a_reason_that_names_signal_stage_and_last_words() {
        let said = lines(&[r#"{"begins":"loading"}"#, r#"{"begins":"computing"}"#]);
        let errors = lines(&["a.cpp:7: GGML_ASSERT(eps >= 0.0f) failed", ""]);
        let aborted = result_of(ExitStatus::from_raw(ABORTED), &said, &errors);
        let expected = "llama.cpp ended while it computed a few tokens with it (signal 6: \
                        GGML_ASSERT(eps >= 0.0f) failed)";
        assert_eq!(aborted, ProbeResult::Refused(expected.to_owned()));
        let silent = result_of(ExitStatus::from_raw(ABORTED), &[], &[]);
        let expected = "llama.cpp ended while it loaded the file (signal 6)";
        assert_eq!(silent, ProbeResult::Refused(expected.to_owned()));
    }

    #[test]
    fn a_child_that_the_system_killed_or_that_had_no_time_left_may_be_tried_again() {
        assert!(matches!(
            result_of(ExitStatus::from_raw(KILLED), &[], &[]),
            ProbeResult::Failed(_)
        ));
        let slow = result_of(ExitStatus::from_raw(OUT_OF_PROCESSOR_TIME), &[], &[]);
        let expected = "llama.cpp ended while it loaded the file (out of processor time)";
        assert_eq!(slow, ProbeResult::Failed(expected.to_owned()));
    }

    #[test]
    fn a_child_that_is_not_done_after_its_time_is_killed() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let end = wait(&mut child, Duration::from_millis(20), || false).unwrap();
        assert!(matches!(end, End::TimedOut) && child.try_wait().unwrap().is_some());
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let end = wait(&mut child, Duration::from_secs(600), || true).unwrap();
        assert!(matches!(end, End::Interrupted) && child.try_wait().unwrap().is_some());
    }

    #[test]
    fn the_last_words_of_a_child_stay_however_much_it_writes() {
        let text = "x\n".repeat(100_000) + &"y".repeat(10_000) + "\nlast\n";
        let lines = joined(reader(std::io::Cursor::new(text)));
        assert_eq!(lines.last().map(String::as_str), Some("last"));
        assert!(lines.len() < 20);
    }
}
