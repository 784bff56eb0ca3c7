//! A hobd to measure, and requests to it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::http::{self, Answer};
use crate::measure::beside_us;

/// Maximum time until hobd serves requests.
const PATIENCE: Duration = Duration::from_secs(120);

/// Dropping it ends the process.
pub struct Hobd {
    process: Child,
    log: PathBuf,
    ready: PathBuf,
}

impl Hobd {
    /// Starts hobd over `directory` with these arguments.
    pub fn start(
        directory: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Self> {
        let (log, ready) = (directory.join("log"), directory.join("ready.json"));
        fs::remove_file(&ready).ok(); // Of a hobd before; mostly there is none.
        let mut command = Command::new(beside_us("hobd", "hob-daemon")?);
        command.env_clear().env("HOME", directory).arg("--data-dir").arg(directory.join("data"));
        command.args(["--listen", "127.0.0.1:0"]).arg("--ready-file").arg(&ready).args(arguments);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()); // For espeak-ng.
        let process = command.stdout(Stdio::null()).stderr(fs::File::create(&log)?).spawn();
        Ok(Self { process: process.context("cannot run hobd")?, log, ready })
    }

    /// Waits until it serves requests.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let began = Instant::now();
        while !self.ready.is_file() {
            let ended = self.process.try_wait()?.is_some();
            ensure!(!ended && began.elapsed() < PATIENCE, "hobd does not start:\n{}", self.log()?);
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    pub fn id(&self) -> String {
        self.process.id().to_string()
    }

    /// What it wrote on standard error.
    pub fn log(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.log)?)
    }

    /// One request, over a connection of its own. Refusals are errors.
    pub fn call(&self, method: &str, path: &str, body: &Value) -> Result<Answer> {
        self.send(method, path, body.to_string().as_bytes())
    }

    /// The answer of a `POST` of a file as JSON.
    pub fn upload(&self, path: &str, file: &[u8]) -> Result<Value> {
        let answer = self.send("POST", path, file)?;
        serde_json::from_str(&answer.body).with_context(|| format!("{path}: {}", answer.body))
    }

    /// Ends it with SIGTERM, and waits until it has saved everything.
    pub fn stop(mut self) -> Result<()> {
        let sent = Command::new("kill").arg(self.id()).status()?;
        ensure!(sent.success(), "cannot end hobd");
        self.process.wait()?;
        Ok(())
    }

    fn send(&self, method: &str, path: &str, body: &[u8]) -> Result<Answer> {
        let Access { address, token } = self.access()?;
        http::request(&address, method, path, Some(&token), body)
    }

    /// As its ready file announces it.
    pub fn access(&self) -> Result<Access> {
        let ready: Value = serde_json::from_slice(&fs::read(&self.ready)?)?;
        let text = |name: &str| ready[name].as_str().map(str::to_owned).context("the ready file");
        let token = fs::read_to_string(text("token_file")?)?.trim().to_owned();
        Ok(Access { address: text("address")?, token })
    }

    /// The answer of a `POST` as JSON.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let answer = self.call("POST", path, body)?;
        serde_json::from_str(&answer.body).with_context(|| format!("{path}: {}", answer.body))
    }

    pub fn count_tokens(&self, text: &str) -> Result<usize> {
        let answer = self.post("/tokenize", &json!({"content": text}))?;
        let Some(tokens) = answer["tokens"].as_array() else { bail!("no tokens: {answer}") };
        Ok(tokens.len())
    }
}

/// Where a hobd listens, and the token that it wants.
#[derive(Clone)]
pub struct Access {
    pub address: String,
    pub token: String,
}

impl Drop for Hobd {
    fn drop(&mut self) {
        let _ = self.process.kill(); // An error: it has ended already.
        let _ = self.process.wait();
    }
}
