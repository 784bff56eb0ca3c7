//! Runs the built `hob` in a temporary home directory.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A temporary home directory. `hob` runs in it with a clean environment.
pub struct Home(TempDir);

#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn hob(&self, words: &[&str]) -> Ran {
        self.run(words, &[], "")
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hob"));
        command
            .args(words)
            .env_clear()
            .env("HOME", self.0.path())
            .env("HOB_TEST_FREE_BYTES", (1_u64 << 40).to_string())
            .env("HOB_DATA_DIR", self.path("data"))
            .env("OLLAMA_MODELS", self.path("ollama"));
        command
    }

    pub fn run(&self, words: &[&str], env: &[(&str, &str)], input: &str) -> Ran {
        let mut command = self.command(words);
        command
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The write fails when `hob` exits without reading its input.
        let _ = Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes());
        Ran::of(child.wait_with_output().unwrap())
    }
}

impl Ran {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    pub fn json(self) -> serde_json::Value {
        let out = self.ok();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    /// Asserts the exit code, and one line on standard error that contains each of `words`.
    pub fn fails(self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.err.lines().count(), 1, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "{word:?} is missing: {self:?}");
        }
    }
}
