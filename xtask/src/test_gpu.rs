//! `cargo xtask test --gpu`: checks a build for a device, on the device.
//!
//! - The round trips of every family of models, KV that a build for the processor and this one
//!   write and read in turn, and a `hobd` with layers on the device.
//! - A process a test: where a driver ends one by a signal, the others run all the same. Such a test runs
//!   once more.
//! - A failed test fails the check, and so does one that a signal ended twice on a real device. Mesa's software
//!   device crashes by itself now and then: there the table says so, and half of the tests must have passed.
//! - Not among the checks of `test`: llama.cpp is compiled once more, with all that the device computes.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::command::{Failure, Line};
use crate::gpu::{CUDA_ARCHITECTURES, CUDA_COMPILER, Gpu};
use crate::need::Need;
use crate::{detect, setup};

const ON_PROCESSOR: &str = "cargo test --release --package hob-runtime --test devices";
const ON_DEVICE: &str = "cargo test --release --package hob-runtime --package hob-daemon --test devices \
                         --test families --no-run";
/// llama.cpp uses a software device only where a variable names it, by its index. LLVM 15 compiles the
/// programs of a first answer there for 170 s.
const SOFTWARE: [(&str, &str); 2] =
    [("GGML_VK_VISIBLE_DEVICES", "0"), ("HOB_TEST_PATIENCE_SECS", "900")];

/// A file of tests, built.
#[derive(Debug, PartialEq)]
struct Built {
    /// As in `hob-runtime devices`.
    name: String,
    program: PathBuf,
    /// The directory of its package, where cargo runs tests.
    directory: PathBuf,
}

/// How a process of one test ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ProcessEnd {
    Passed,
    Failed,
    /// By this signal.
    Signal(i32),
}

/// What a test that may have run twice says.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Passed,
    /// The second time. A signal ended the first run.
    PassedAgain,
    Failed,
    SignalTwice(i32),
}

struct Row {
    test: String,
    outcome: Outcome,
    took: Duration,
}

pub fn run(gpu: Gpu, yes: bool) -> Result<(), Failure> {
    let is_software = gpu == Gpu::Vulkan
        && !detect::gpu().render_node
        && std::env::var_os(SOFTWARE[0].0).is_none();
    let software = is_software.then_some(SOFTWARE);
    if is_software {
        println!("gpu: no graphics card is here: the checks run on Mesa's software device");
        setup::ensure(&[Need::SoftwareVulkan], yes)?;
    }
    let exchange = exchange()?;
    let exchanged = |line: Line| line.env("HOB_TEST_EXCHANGE", exchange.clone());
    let on_device = |line: Line| {
        let line = exchanged(line).env("HOB_TEST_DEVICE", "1");
        let Some(software) = software else { return line };
        software.into_iter().fold(line, |line, (name, value)| line.env(name, value))
    };
    let begun = Instant::now();
    // Writes what the device reads.
    exchanged(Line::new(ON_PROCESSOR)).run()?;
    let feature = gpu.feature();
    let features = format!("hob-runtime/{feature},hob-daemon/{feature}");
    let build = Line::new(ON_DEVICE).args(["--features", &features]);
    let build = if gpu == Gpu::Cuda { for_cuda(build) } else { build };
    build.run()?;
    println!("--- built: {:.0} s", begun.elapsed().as_secs_f64());
    let mut rows = Vec::new();
    for built in built(&build.arg("--message-format=json").output()?) {
        let program = Line::new("").arg(built.program.display().to_string());
        for test in names(&program.clone().args(["--list", "--format", "terse"]).output()?) {
            let one = on_device(program.clone());
            let one = one.args(["--exact", &test, "--test-threads", "1", "--nocapture"]);
            let began = Instant::now();
            let outcome = outcome(&mut || ended_in(&built.directory, &one))?;
            let test = format!("{}: {test}", built.name);
            rows.push(Row { test, outcome, took: began.elapsed() });
        }
    }
    // Reads what the device wrote.
    let read =
        exchanged(Line::new(ON_PROCESSOR)).args(["--", "--nocapture", "another_build"]).run();
    println!("{}", table(&rows));
    println!("--- checked: {:.0} s", begun.elapsed().as_secs_f64());
    verdict(&rows, is_software)?;
    read
}

fn for_cuda(build: Line) -> Line {
    let found = [
        (CUDA_ARCHITECTURES, detect::cuda_architectures()),
        (CUDA_COMPILER, detect::cuda_compiler()),
    ];
    let found = found.into_iter().filter_map(|(name, value)| Some((name, value?)));
    found.fold(build, |build, (name, value)| build.env(name, value))
}

/// Runs the test once more where a signal ended it.
fn outcome(run: &mut dyn FnMut() -> Result<ProcessEnd, Failure>) -> Result<Outcome, Failure> {
    Ok(match run()? {
        ProcessEnd::Passed => Outcome::Passed,
        ProcessEnd::Failed => Outcome::Failed,
        ProcessEnd::Signal(_) => match run()? {
            ProcessEnd::Passed => Outcome::PassedAgain,
            ProcessEnd::Failed => Outcome::Failed,
            ProcessEnd::Signal(signal) => Outcome::SignalTwice(signal),
        },
    })
}

fn ended_in(directory: &Path, line: &Line) -> Result<ProcessEnd, Failure> {
    println!("$ {line}");
    let status = line.command().current_dir(directory).status();
    Ok(ended(status.map_err(|error| line.not_started(&error))?))
}

fn ended(status: ExitStatus) -> ProcessEnd {
    match status.signal() {
        Some(signal) => ProcessEnd::Signal(signal),
        None if status.success() => ProcessEnd::Passed,
        None => ProcessEnd::Failed,
    }
}

/// The programs in cargo's messages.
fn built(messages: &str) -> Vec<Built> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let built = messages.filter_map(|message| {
        let is_test = message["profile"]["test"] == true;
        let program = message["executable"].as_str().filter(|_| is_test)?;
        let manifest = Path::new(message["manifest_path"].as_str()?);
        let directory = manifest.parent()?;
        // A package's directory is its name without `hob-`.
        let package = directory.file_name()?.to_str()?;
        Some(Built {
            name: format!("hob-{package} {}", message["target"]["name"].as_str()?),
            program: program.into(),
            directory: directory.to_owned(),
        })
    });
    built.collect()
}

/// The tests of a terse list.
fn names(list: &str) -> Vec<String> {
    list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.test.len()).max().unwrap_or(0);
    let line = |row: &Row| {
        let seconds = row.took.as_secs_f64();
        format!("{:width$}  {:>6.1} s  {}", row.test, seconds, description(row.outcome))
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn description(outcome: Outcome) -> String {
    match outcome {
        Outcome::Passed => "passed".to_owned(),
        Outcome::PassedAgain => "passed the second time, after a signal".to_owned(),
        Outcome::Failed => "failed".to_owned(),
        Outcome::SignalTwice(signal) => format!("ended by signal {signal} twice"),
    }
}

/// # Errors
/// Names what failed, and what a signal ended twice on a real device.
fn verdict(rows: &[Row], is_software: bool) -> Result<(), Failure> {
    if rows.is_empty() {
        return Err(Failure::new("no test was found", "see cargo's output above"));
    }
    let is_bad = |row: &&Row| match row.outcome {
        Outcome::Passed | Outcome::PassedAgain => false,
        Outcome::Failed => true,
        Outcome::SignalTwice(_) => !is_software,
    };
    let bad: Vec<&str> = rows.iter().filter(is_bad).map(|row| row.test.as_str()).collect();
    if bad.is_empty() {
        let is_passed = |row: &&Row| matches!(row.outcome, Outcome::Passed | Outcome::PassedAgain);
        let passed = rows.iter().filter(is_passed).count();
        if passed * 2 < rows.len() {
            let what = format!("Mesa ended all but {passed} of {} tests", rows.len());
            return Err(Failure::new(
                what,
                "update Mesa: 25.0 of Debian 12's backports ran all of them",
            ));
        }
        return Ok(());
    }
    let what = format!("{} of {} tests on the device: {}", bad.len(), rows.len(), bad.join(", "));
    Err(Failure::new(what, "see its output above; paste its command to repeat it"))
}

/// The path of an empty directory. Tests run in that of their package, so it is absolute.
fn exchange() -> Result<String, Failure> {
    let directory = Path::new("target/exchange");
    let failed = |error: std::io::Error| {
        Failure::new(format!("cannot empty {}: {error}", directory.display()), "remove it")
    };
    if directory.exists() {
        fs::remove_dir_all(directory).map_err(failed)?;
    }
    fs::create_dir_all(directory).map_err(failed)?;
    let path = fs::canonicalize(directory).map_err(failed)?;
    path.into_os_string()
        .into_string()
        .map_err(|_| Failure::new("the path of the project is not UTF-8", "move it to one that is"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_of(ends: &[ProcessEnd]) -> (Outcome, usize) {
        let mut runs = 0;
        let found = outcome(&mut || {
            runs += 1;
            Ok(ends[runs - 1])
        });
        (found.unwrap(), runs)
    }

    #[test]
    fn a_test_runs_once_more_after_a_signal_and_not_after_a_failure() {
        let crash = ProcessEnd::Signal(11);
        assert_eq!(outcome_of(&[ProcessEnd::Passed]), (Outcome::Passed, 1));
        assert_eq!(outcome_of(&[ProcessEnd::Failed, ProcessEnd::Passed]), (Outcome::Failed, 1));
        assert_eq!(outcome_of(&[crash, ProcessEnd::Passed]), (Outcome::PassedAgain, 2));
        assert_eq!(outcome_of(&[crash, ProcessEnd::Failed]), (Outcome::Failed, 2));
        assert_eq!(outcome_of(&[crash, ProcessEnd::Signal(6)]), (Outcome::SignalTwice(6), 2));
    }

    #[test]
    fn how_a_process_ended_is_told_apart() {
        let ended = |script: &str| {
            let line = Line::new("sh -c").arg(script);
            ended_in(Path::new("."), &line).unwrap()
        };
        assert_eq!(ended("exit 0"), ProcessEnd::Passed);
        assert_eq!(ended("exit 101"), ProcessEnd::Failed);
        assert_eq!(ended("kill -SEGV $$"), ProcessEnd::Signal(11));
    }

    fn row(test: &str, outcome: Outcome) -> Row {
        Row { test: test.to_owned(), outcome, took: Duration::from_millis(1500) }
    }

    #[test]
    fn two_signals_fail_the_check_on_a_real_device_only() {
        let crashed = [row("a", Outcome::Passed), row("b", Outcome::SignalTwice(11))];
        assert!(verdict(&crashed, true).is_ok());
        let failure = verdict(&crashed, false).unwrap_err().to_string();
        assert!(failure.contains("1 of 2 tests on the device: b"), "{failure}");
        let failed = [row("a", Outcome::PassedAgain), row("b", Outcome::Failed)];
        assert!(verdict(&failed, true).unwrap_err().to_string().contains(": b"));
        assert!(verdict(&failed[..1], false).is_ok());
        assert!(verdict(&[], true).is_err(), "a check of nothing");
        let mostly = [&crashed[0], &crashed[1], &crashed[1]];
        let mostly = mostly.map(|one| row(&one.test, one.outcome));
        let failure = verdict(&mostly, true).unwrap_err().to_string();
        assert!(failure.contains("all but 1 of 3"), "{failure}");
    }

    #[test]
    fn the_table_has_a_line_a_test() {
        let rows =
            [row("hob-runtime devices: a", Outcome::Passed), row("b", Outcome::SignalTwice(11))];
        let expected = "hob-runtime devices: a     1.5 s  passed\n\
                        b                          1.5 s  ended by signal 11 twice";
        assert_eq!(table(&rows), expected);
    }

    #[test]
    fn the_files_of_tests_are_those_of_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","manifest_path":"/p/daemon/Cargo.toml","target":{"name":"hobd"},"profile":{"test":false},"executable":"/t/hobd"}
{"reason":"compiler-artifact","manifest_path":"/p/runtime/Cargo.toml","target":{"name":"devices"},"profile":{"test":true},"executable":"/t/devices-1"}
{"reason":"compiler-artifact","manifest_path":"/p/runtime/Cargo.toml","target":{"name":"hob_runtime"},"profile":{"test":false},"executable":null}
{"reason":"build-finished","success":true}
a line of the compiler"#;
        let expected = Built {
            name: "hob-runtime devices".to_owned(),
            program: "/t/devices-1".into(),
            directory: "/p/runtime".into(),
        };
        assert_eq!(built(messages), [expected]);
    }

    #[test]
    fn tests_are_those_of_the_list_and_no_benchmarks() {
        assert_eq!(names("a::b: test\nc: test\nd: benchmark\n\n"), ["a::b", "c"]);
    }
}
