//! llama-server, started as its users start it.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::setup::Setup;
use crate::http::{self, Answer};

/// Where `cargo xtask peer` builds it.
pub const PROGRAM: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../target/peer/build/bin/llama-server");

/// The package that its source is from: hob-fetch writes its name.
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/peer/source/package");

/// Maximum time until it serves requests.
const PATIENCE: Duration = Duration::from_secs(120);

/// Dropping it ends the process.
pub struct LlamaServer {
    process: Child,
    pub address: String,
}

impl LlamaServer {
    /// With its own defaults but for what [`Setup`] says, which is the same for hobd.
    pub fn start(directory: &Path, setup: &Setup) -> Result<Self> {
        ensure!(Path::new(PROGRAM).is_file(), "no llama-server: build it with `cargo xtask peer`");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new(PROGRAM);
        command.arg("--model").arg(&setup.model).args(["--host", "127.0.0.1"]);
        command.args(["--port", &port.to_string()]);
        let mut with = |flag: &str, value: String| {
            command.args([flag, &value]);
        };
        with("--ctx-size", setup.context.to_string());
        with("--threads", setup.threads.to_string());
        if let Some(slots) = setup.slots {
            with("--parallel", slots.to_string());
        }
        if let Some(after) = setup.unload_after {
            with("--sleep-idle-seconds", after.as_secs().to_string());
        }
        if let Some(tokens) = setup.cache_reuse {
            with("--cache-reuse", tokens.to_string());
        }
        if setup.saves {
            let saved = saved(directory);
            fs::create_dir_all(&saved)?;
            command.arg("--slot-save-path").arg(saved);
        }
        let log = directory.join("llama-server.log");
        let process = command.stdout(Stdio::null()).stderr(fs::File::create(&log)?).spawn();
        let process = process.context("cannot run llama-server")?;
        let mut server = Self { process, address: format!("127.0.0.1:{port}") };
        let began = Instant::now();
        while !server.is_ready() {
            let ended = server.process.try_wait()?.is_some();
            let log = || fs::read_to_string(&log).unwrap_or_default();
            ensure!(!ended && began.elapsed() < PATIENCE, "llama-server fails:\n{}", log());
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    fn is_ready(&self) -> bool {
        TcpStream::connect(&self.address).is_ok()
            && http::request(&self.address, "GET", "/health", None, b"").is_ok()
    }

    pub fn id(&self) -> String {
        self.process.id().to_string()
    }

    pub fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        http::request(&self.address, "POST", path, None, body.to_string().as_bytes())
    }

    /// Whether it has dropped the weights.
    pub fn sleeps(&self) -> Result<bool> {
        let answer = http::request(&self.address, "GET", "/props", None, b"")?;
        let props: Value = serde_json::from_str(&answer.body).context("/props")?;
        Ok(props["is_sleeping"] == true)
    }
}

impl Drop for LlamaServer {
    fn drop(&mut self) {
        let _ = self.process.kill(); // An error: it has ended already.
        let _ = self.process.wait();
    }
}

/// Where it saves slots.
pub fn saved(directory: &Path) -> std::path::PathBuf {
    directory.join("llama-server-slots")
}

/// What it calls itself, and the package of its source.
pub fn version() -> Result<String> {
    ensure!(Path::new(PROGRAM).is_file(), "no llama-server: build it with `cargo xtask peer`");
    let output = Command::new(PROGRAM).arg("--version").output().context("llama-server")?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let own = text.lines().find(|line| line.starts_with("version")).unwrap_or("version unknown");
    let package = fs::read_to_string(PACKAGE).unwrap_or_default();
    let package = package.trim().trim_end_matches(".tar.gz");
    Ok(if package.is_empty() { own.to_owned() } else { format!("{own}, of {package}") })
}
