//! A browser, driven through WebDriver.
//!
//! - [`Browser::open`] takes any WebDriver command and its capabilities; most checks use
//!   [`Browser::chromium`].
//! - Calls block, so that a check reads from top to bottom. Each has a bound.

use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fantoccini::error::CmdError;
use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use hob_testkit::Process;
use hob_testkit::wait;

use crate::tools;

/// A command that takes longer means a browser that hangs.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// The error message of a command that failed.
#[derive(Debug)]
pub struct Refused(String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The window and the preferences of the user.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// `prefers-color-scheme`.
    pub dark: bool,
    /// `prefers-reduced-motion`.
    pub still: bool,
    /// `Accept-Language`.
    pub language: &'static str,
}

impl Default for Look {
    fn default() -> Self {
        Self { width: 1280, height: 800, dark: false, still: false, language: "en" }
    }
}

/// A browser with one window and a profile of its own. Dropping it ends the browser.
#[derive(Debug)]
pub struct Browser {
    runtime: Runtime,
    client: Client,
    driver: Process,
    has_pictures: bool,
    home: TempDir,
}

impl Browser {
    /// Headless Chromium.
    pub fn chromium(look: Look) -> Self {
        let home = tempfile::tempdir().expect("there is room for temporary files");
        let mut arguments = vec![
            "--headless=new".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            "--force-color-profile=srgb".to_owned(),
            "--use-fake-device-for-media-stream".to_owned(),
            "--use-fake-ui-for-media-stream".to_owned(),
            format!("--lang={}", look.language),
            format!("--window-size={},{}", look.width, look.height),
            format!("--user-data-dir={}", home.path().join("profile").display()),
        ];
        arguments.push("about:blank".to_owned()); // Not the page for new tabs.
        if rustix::process::getuid().is_root() {
            arguments.push("--no-sandbox".to_owned());
        }
        let capabilities = json!({
            "goog:chromeOptions": {
                "binary": tools::CHROMIUM.find(),
                "args": arguments,
                "prefs": {
                    "intl.accept_languages": look.language,
                    "download.default_directory": home.path().join("downloads"),
                },
            },
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "unhandledPromptBehavior": "ignore", // A check must see an unexpected dialogue.
        });
        let mut command = Command::new(tools::CHROMEDRIVER.find());
        command.env("HOME", home.path());
        let browser = Self::open(command, &capabilities, home);
        browser.cdp(
            "Browser.setDownloadBehavior",
            &json!({"behavior": "allow", "downloadPath": browser.downloads()}),
        );
        browser.show(look);
        browser
    }

    /// Starts the driver on a free port and opens a browser.
    pub fn open(mut driver: Command, capabilities: &Value, home: TempDir) -> Self {
        let port = free_port();
        driver.arg(format!("--port={port}"));
        driver.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
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
        Self { runtime, client, driver: running, has_pictures: true, home }
    }

    /// For a driver that hangs on a screenshot.
    pub fn without_pictures(mut self) -> Self {
        self.has_pictures = false;
        self
    }

    /// Applies `look` from now on.
    pub fn show(&self, look: Look) {
        let value = |flag, on: &str, off: &str| if flag { on } else { off }.to_owned();
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            &json!({
                "width": look.width, "height": look.height, "deviceScaleFactor": 1, "mobile": false,
            }),
        );
        self.cdp(
            "Emulation.setEmulatedMedia",
            &json!({"features": [
                {"name": "prefers-color-scheme", "value": value(look.dark, "dark", "light")},
                {
                    "name": "prefers-reduced-motion",
                    "value": value(look.still, "reduce", "no-preference"),
                },
            ]}),
        );
    }

    /// Opens an address and waits until it is loaded.
    pub fn go(&self, address: &str) {
        self.block_on(async { self.client.goto(address).await }).expect("the address opens");
    }

    /// Runs the body of a function and returns its result.
    pub fn run(&self, script: &str, arguments: &[Value]) -> Result<Value, Refused> {
        self.block_on(async { self.client.execute(script, arguments.to_vec()).await })
    }

    /// The same for a function that passes the result to its last argument, a callback.
    pub fn run_async(&self, script: &str, arguments: &[Value]) -> Result<Value, Refused> {
        self.block_on(async { self.client.execute_async(script, arguments.to_vec()).await })
    }

    /// A WebDriver command of the session: a `POST` with a body, else a `GET`.
    pub fn command(&self, path: &str, body: Option<Value>) -> Result<Value, Refused> {
        let command = Raw { path: path.to_owned(), body };
        self.block_on(async { self.client.issue_cmd(command).await })
    }

    /// A command of Chromium's developer tools.
    pub fn cdp(&self, name: &str, parameters: &Value) -> Value {
        let body = json!({"cmd": name, "params": parameters});
        let answer = self.command("goog/cdp/execute", Some(body));
        answer.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// A screenshot, as PNG.
    pub fn picture(&self) -> Result<Vec<u8>, Refused> {
        if !self.has_pictures {
            return Err(Refused("this driver takes no screenshots".to_owned()));
        }
        let answer = self.command("screenshot", None)?;
        Ok(BASE64.decode(answer.as_str().unwrap_or_default()).expect("screenshots are base64"))
    }

    /// The log entries since the last call. `kind`: `browser` or `performance`.
    pub fn log(&self, kind: &str) -> Vec<Value> {
        let answer = self.command("se/log", Some(json!({"type": kind})));
        answer.ok().and_then(|log| log.as_array().cloned()).unwrap_or_default()
    }

    /// The directory of downloads.
    pub fn downloads(&self) -> std::path::PathBuf {
        let downloads = self.home.path().join("downloads");
        std::fs::create_dir_all(&downloads).expect("the directory can be written");
        downloads
    }

    fn block_on<T>(&self, call: impl Future<Output = Result<T, CmdError>>) -> Result<T, Refused> {
        self.runtime.block_on(async {
            match tokio::time::timeout(COMMAND_TIMEOUT, call).await {
                Ok(answer) => answer.map_err(|error| Refused(error.to_string())),
                Err(_) => panic!("the browser did not answer within {COMMAND_TIMEOUT:?}"),
            }
        })
    }
}

impl Drop for Browser {
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

/// A free port. Drivers cannot choose one themselves.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    listener.local_addr().expect("it is bound").port()
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
