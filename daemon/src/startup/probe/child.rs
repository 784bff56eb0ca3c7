//! The child: limits itself, loads the file as a daemon does, tries it, and says how that went.

use std::ffi::OsStr;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use hob_runtime::backend::LoadError;
use hob_runtime::backend::llama::{Adapter, GpuLayers, LlamaModel, LlamaOptions, Placement};
use hob_runtime::probe::{Defect, Stage, probe, probe_adapter};
use serde::{Deserialize, Serialize};

use crate::limits::Limits;
use crate::startup::log_filter;

/// The first of the child's two arguments; the second is a [`Job`].
pub const FLAG: &str = "--probe-model";

const MIN_CPU_SECS: u64 = 60;
/// Bytes of the file that allow the child one more second of processor time.
const BYTES_PER_CPU_SECOND: u64 = 10 << 20;
/// What a model takes besides its file.
const MIN_ADDRESS_BYTES: u64 = 2 << 30;
/// A thread's stack and heap.
const THREAD_BYTES: u64 = 96 << 20;

/// What the child tries, as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    /// The first file.
    pub path: PathBuf,
    /// Size of all files.
    pub file_bytes: u64,
    pub threads: usize,
    pub cache_type_k: String,
    pub cache_type_v: String,
    /// Tries the MTP heads too.
    pub mtp: bool,
    /// Files and factors.
    pub adapters: Vec<(PathBuf, f32)>,
    /// Tries this adapter of requests instead of the model.
    pub adapter: Option<PathBuf>,
}

/// A line of the child's standard output, as JSON. The last one counts.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    Begins(Stage),
    Usable,
    Refused { reason: String, of_file: bool },
}

impl Job {
    fn limits(&self) -> Limits {
        let threads = thread::available_parallelism().map_or(1, usize::from).max(self.threads);
        // Mapped once, and once more where llama.cpp stores weights in another order.
        let file = self.file_bytes.saturating_mul(3);
        Limits {
            cpu_secs: Some(MIN_CPU_SECS + self.file_bytes / BYTES_PER_CPU_SECOND),
            address_bytes: MIN_ADDRESS_BYTES
                .saturating_add(file)
                .saturating_add(THREAD_BYTES * threads as u64),
        }
    }
}

/// In such a child: tries the file and returns the exit code.
pub fn child() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().as_deref() != Some(OsStr::new(FLAG)) {
        return None;
    }
    let job = arguments.next().and_then(|job| serde_json::from_str(job.to_str()?).ok());
    let Some(job) = job else { return Some(ExitCode::FAILURE) };
    prepare(&job);
    // On a thread with a stack like those on which a daemon tokenizes and computes.
    let tried = thread::spawn(move || attempt(&job)).join();
    Some(tried.map_or(ExitCode::FAILURE, |line| {
        write_line(&line);
        ExitCode::SUCCESS
    }))
}

fn prepare(job: &Job) {
    job.limits().apply_as_child();
    // The last line is the reason: llama.cpp's own error, or what a panic says.
    if let Ok(filter) = log_filter("error") {
        let log = tracing_subscriber::fmt().with_env_filter(filter).without_time();
        let log = log.with_target(false).with_level(false).with_ansi(false);
        log.with_writer(std::io::stderr).init();
    }
}

fn attempt(job: &Job) -> Line {
    write_line(&Line::Begins(Stage::Loading));
    let options = LlamaOptions {
        threads: job.threads,
        cache_type_k: job.cache_type_k.clone(),
        cache_type_v: job.cache_type_v.clone(),
        // The file is tried, not the device, which is hidden from this process.
        placement: Placement { layers: GpuLayers::Count(0), ..Placement::default() },
        adapters: job
            .adapters
            .iter()
            .cloned()
            .map(|(path, scale)| Adapter { path, scale })
            .collect(),
        mtp: job.mtp,
        ..LlamaOptions::default()
    };
    let loaded = LlamaModel::load_telling(&job.path, options, &mut |_| ControlFlow::Continue(()));
    let model = match loaded {
        Ok(model) => model,
        Err(LoadError::Model { reason, .. }) => return Line::Refused { reason, of_file: true },
        Err(error @ LoadError::Adapter { .. }) => {
            return Line::Refused { reason: error.to_string(), of_file: true };
        }
        Err(error) => return Line::Refused { reason: error.to_string(), of_file: false },
    };
    let mut begin = |stage| write_line(&Line::Begins(stage));
    let tried = match &job.adapter {
        Some(path) => probe_adapter(&model, path, &mut begin),
        None => probe(&model, &mut begin),
    };
    match tried {
        Ok(()) => Line::Usable,
        Err(defect) => {
            let is_of_machine = matches!(defect, Defect::Context(LoadError::Context { .. }));
            let of_file = !is_of_machine;
            Line::Refused { reason: defect.to_string(), of_file }
        }
    }
}

/// Each line is flushed: the process may end with the next call.
fn write_line(line: &Line) {
    let mut out = std::io::stdout().lock();
    let json = serde_json::to_string(line).expect("a line is JSON");
    writeln!(out, "{json}").and_then(|()| out.flush()).ok();
}
