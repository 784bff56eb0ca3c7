//! llama-server, started as its users start it, and its answers.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Start;
use crate::http::{self, Answer};

/// Where `cargo xtask peer` builds it.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/peer/build/bin/llama-server");

/// Maximum time until it serves requests.
const PATIENCE: Duration = Duration::from_secs(120);

/// Dropping it ends the process.
pub struct LlamaServer {
    process: Child,
    address: String,
}

impl LlamaServer {
    /// With its own defaults but for the context and the threads, which are those of hobd.
    pub fn start(start: &Start) -> Result<Self> {
        ensure!(Path::new(PROGRAM).is_file(), "no llama-server: build it with `cargo xtask peer`");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let (context, threads) = (start.context.to_string(), start.threads.to_string());
        let mut command = Command::new(PROGRAM);
        command.arg("--model").arg(start.model).args(["--ctx-size", &context]);
        command.args(["--threads", &threads, "--host", "127.0.0.1", "--port", &port.to_string()]);
        let log = start.directory.join("llama-server.log");
        let process = command.stdout(Stdio::null()).stderr(fs::File::create(&log)?).spawn();
        let process = process.context("cannot run llama-server")?;
        let mut server = Self { process, address: format!("127.0.0.1:{port}") };
        let began = Instant::now();
        while !server.is_ready() {
            let ended = server.process.try_wait()?.is_some();
            let log = || fs::read_to_string(&log).unwrap_or_default();
            ensure!(!ended && began.elapsed() < PATIENCE, "llama-server fails:\n{}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    fn is_ready(&self) -> bool {
        TcpStream::connect(&self.address).is_ok()
            && http::request(&self.address, "GET", "/health", None, b"").is_ok()
    }

    pub fn post(&self, path: &str, body: &[u8]) -> Result<Answer> {
        http::request(&self.address, "POST", path, None, body)
    }
}

impl Drop for LlamaServer {
    fn drop(&mut self) {
        let _ = self.process.kill(); // An error: it has ended already.
        let _ = self.process.wait();
    }
}
