//! A WebDriver session: a driver, the browser that it started, and a directory of theirs.

use std::process::{Command, Stdio};
use std::time::Duration;

use fantoccini::error::CmdError;
use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use hob_testkit::{Process, free_port, wait};

/// A command that takes longer means a browser that hangs.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// The error message of a command that failed.
#[derive(Debug)]
pub struct Refused(pub(crate) String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Dropping it ends driver and browser, and removes the directory.
#[derive(Debug)]
pub(crate) struct Session {
    runtime: Runtime,
    client: Client,
    driver: Process,
    _home: TempDir,
}

impl Session {
    /// Starts the driver on a free port and opens a browser.
    pub(crate) fn open(mut driver: Command, capabilities: &Value, home: TempDir) -> Self {
        let port = free_port(); // Drivers cannot choose one themselves.
        driver.arg(format!("--port={port}")).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = Process::start(&mut driver);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads can be started");
        let Value::Object(capabilities) = capabilities.clone() else {
            panic!("capabilities are an object")
        };
        wait::until("the driver listens", || {
            assert!(running.is_running(), "{driver:?} ended at once");
            std::net::TcpStream::connect(("127.0.0.1", port)).ok()
        });
        let client = runtime.block_on(connect(port, capabilities));
        Self { runtime, client, driver: running, _home: home }
    }

    /// Waits for the answer to a command; panics after [`COMMAND_TIMEOUT`].
    pub(crate) fn wait<T, F>(&self, call: impl FnOnce(Client) -> F) -> Result<T, Refused>
    where
        F: Future<Output = Result<T, CmdError>>,
    {
        self.runtime.block_on(async {
            match tokio::time::timeout(COMMAND_TIMEOUT, call(self.client.clone())).await {
                Ok(answer) => answer.map_err(|error| Refused(error.to_string())),
                Err(_) => panic!("the browser did not answer within {COMMAND_TIMEOUT:?}"),
            }
        })
    }

    /// A WebDriver command of the session: a `POST` with a body, else a `GET`.
    pub(crate) fn command(&self, path: &str, body: Option<Value>) -> Result<Value, Refused> {
        let command = Raw { path: path.to_owned(), body };
        self.wait(|client| async move { client.issue_cmd(command).await })
    }

    /// A command of Chromium's developer tools.
    pub(crate) fn cdp(&self, name: &str, parameters: &Value) -> Result<Value, Refused> {
        let body = serde_json::json!({"cmd": name, "params": parameters});
        self.command("goog/cdp/execute", Some(body))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The browser saves its profile while it ends. An error: it hangs, and is killed.
        let closing = self.client.clone().close();
        let patience = Duration::from_secs(5);
        self.runtime.block_on(async { tokio::time::timeout(patience, closing).await }).ok();
        self.driver.kill();
    }
}

async fn connect(port: u16, capabilities: Capabilities) -> Client {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = ClientBuilder::new(connector)
        .capabilities(capabilities)
        .connect(&format!("http://127.0.0.1:{port}"))
        .await;
    client.unwrap_or_else(|error| panic!("the driver cannot start its browser: {error}"))
}

/// A command that fantoccini does not know.
#[derive(Debug)]
struct Raw {
    path: String,
    body: Option<Value>,
}

impl WebDriverCompatibleCommand for Raw {
    fn endpoint(
        &self,
        base: &url::Url,
        session: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        match &self.body {
            Some(body) => (http::Method::POST, Some(body.to_string())),
            None => (http::Method::GET, None),
        }
    }
}
