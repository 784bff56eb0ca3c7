//! A browser, driven through WebDriver.
//!
//! - Any driver will do: [`Browser::open`] takes the command that starts one, and what to ask it
//!   for. [`Browser::chromium`] is the one that most checks use.
//! - Calls block: a check reads from top to bottom. Each has a bound.

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

/// No single command takes longer, unless the browser hangs.
const COMMAND: Duration = Duration::from_secs(60);

/// A command that the browser did not follow, in its own words.
#[derive(Debug)]
pub struct Refused(String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// How the page is shown.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Whether the system asks for dark colours.
    pub dark: bool,
    /// Whether the system asks for little motion.
    pub still: bool,
    /// The language that the browser asks for.
    pub language: &'static str,
}

impl Default for Look {
    fn default() -> Self {
        Self { width: 1280, height: 800, dark: false, still: false, language: "en" }
    }
}

/// A browser with one window. It ends with this value, and its profile with it.
#[derive(Debug)]
pub struct Browser {
    runtime: Runtime,
    client: Client,
    driver: Process,
    has_pictures: bool,
    home: TempDir,
}

impl Browser {
    /// A headless Chromium.
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
        arguments.push("about:blank".to_owned()); // Not its own page for new windows.
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
            "unhandledPromptBehavior": "ignore", // A dialogue is a finding.
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

    /// Starts the driver, which is told its port, and asks it for a browser.
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

    /// The same, for a driver that never answers who asks for a picture.
    pub fn without_pictures(mut self) -> Self {
        self.has_pictures = false;
        self
    }

    /// Shows the page as `look` says, from now on.
    pub fn show(&self, look: Look) {
        let value = |yes, wanted: &str, other: &str| if yes { wanted } else { other }.to_owned();
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

    /// What the body of a function returns; `arguments` are its arguments.
    pub fn run(&self, script: &str, arguments: &[Value]) -> Result<Value, Refused> {
        self.block_on(async { self.client.execute(script, arguments.to_vec()).await })
    }

    /// The same for a function that calls its last argument with the result.
    pub fn run_async(&self, script: &str, arguments: &[Value]) -> Result<Value, Refused> {
        self.block_on(async { self.client.execute_async(script, arguments.to_vec()).await })
    }

    /// A command of the driver that belongs to the session. A body makes it a `POST`.
    pub fn command(&self, path: &str, body: Option<Value>) -> Result<Value, Refused> {
        let command = Raw { path: path.to_owned(), body };
        self.block_on(async { self.client.issue_cmd(command).await })
    }

    /// A command of Chromium's developer tools.
    ///
    /// # Panics
    /// Where it is refused.
    pub fn cdp(&self, name: &str, parameters: &Value) -> Value {
        let body = json!({"cmd": name, "params": parameters});
        let answer = self.command("goog/cdp/execute", Some(body));
        answer.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// A picture of what is seen, as PNG.
    pub fn picture(&self) -> Result<Vec<u8>, Refused> {
        if !self.has_pictures {
            return Err(Refused("this driver makes no pictures".to_owned()));
        }
        let answer = self.command("screenshot", None)?;
        Ok(BASE64.decode(answer.as_str().unwrap_or_default()).expect("pictures are base64"))
    }

    /// What the browser has logged since it was last asked: `browser` or `performance`.
    pub fn log(&self, kind: &str) -> Vec<Value> {
        let answer = self.command("se/log", Some(json!({"type": kind})));
        answer.ok().and_then(|log| log.as_array().cloned()).unwrap_or_default()
    }

    /// Where files go that the page saves.
    pub fn downloads(&self) -> std::path::PathBuf {
        let downloads = self.home.path().join("downloads");
        std::fs::create_dir_all(&downloads).expect("the directory can be written");
        downloads
    }

    fn block_on<T>(&self, call: impl Future<Output = Result<T, CmdError>>) -> Result<T, Refused> {
        self.runtime.block_on(async {
            match tokio::time::timeout(COMMAND, call).await {
                Ok(answer) => answer.map_err(|error| Refused(error.to_string())),
                Err(_) => panic!("the browser did not answer within {COMMAND:?}"),
            }
        })
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser writes its profile while it ends; errors: it hangs, and is killed.
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

/// A port that nobody has right now. Drivers take no other way to be told.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    listener.local_addr().expect("it is bound").port()
}

/// A command that the library has no words for.
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
