//! A browser, driven through WebDriver.
//!
//! - [`Browser::open`] takes any WebDriver command and its capabilities; most checks use
//!   [`Browser::chromium`].
//! - Calls block, so that a check reads from top to bottom. Each has a bound.

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::chromium::{self, Kind};
pub use crate::session::Refused;
use crate::session::Session;

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

/// A browser with one window, and no data. Dropping it ends the browser, or clears it for another check.
#[derive(Debug)]
pub struct Browser {
    /// `None`: it is being dropped.
    session: Option<Session>,
    /// `None` for a browser that is no Chromium.
    kind: Option<Kind>,
    has_pictures: bool,
    downloads: TempDir,
}

impl Browser {
    /// Headless Chromium.
    pub fn chromium(look: Look) -> Self {
        Self::of_kind(Kind { language: look.language, logs_requests: false }, look)
    }

    /// Chromium whose log of the kind `performance` has the requests of its page.
    pub fn that_logs_requests() -> Self {
        let look = Look::default();
        Self::of_kind(Kind { language: look.language, logs_requests: true }, look)
    }

    fn of_kind(kind: Kind, look: Look) -> Self {
        let browser = Self::new(chromium::take(kind), Some(kind));
        browser.cdp(
            "Browser.setDownloadBehavior",
            &json!({"behavior": "allow", "downloadPath": browser.downloads()}),
        );
        browser.show(look);
        browser
    }

    /// Starts the driver on a free port and opens a browser. `home` goes with it.
    pub fn open(driver: Command, capabilities: &Value, home: TempDir) -> Self {
        Self::new(Session::open(driver, capabilities, home), None)
    }

    fn new(session: Session, kind: Option<Kind>) -> Self {
        let downloads = tempfile::tempdir().expect("there is room for temporary files");
        Self { session: Some(session), kind, has_pictures: true, downloads }
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
        let gone = self.session().wait(|client| async move { client.goto(address).await });
        gone.expect("the address opens");
    }

    /// Runs the body of a function and returns its result.
    pub fn run(&self, script: &str, arguments: &[Value]) -> Result<Value, Refused> {
        let arguments = arguments.to_vec();
        self.session().wait(|client| async move { client.execute(script, arguments).await })
    }

    /// The same for a function that passes the result to its last argument, a callback.
    pub fn run_async(&self, script: &str, arguments: &[Value]) -> Result<Value, Refused> {
        let arguments = arguments.to_vec();
        self.session().wait(|client| async move { client.execute_async(script, arguments).await })
    }

    /// A WebDriver command of the session: a `POST` with a body, else a `GET`.
    pub fn command(&self, path: &str, body: Option<Value>) -> Result<Value, Refused> {
        self.session().command(path, body)
    }

    /// A command of Chromium's developer tools.
    pub fn cdp(&self, name: &str, parameters: &Value) -> Value {
        let answer = self.session().cdp(name, parameters);
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
    pub fn downloads(&self) -> &Path {
        self.downloads.path()
    }

    fn session(&self) -> &Session {
        self.session.as_ref().expect("only the drop takes it")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let session = self.session.take().expect("only the drop takes it");
        match self.kind {
            Some(kind) if !std::thread::panicking() => chromium::give_back(kind, session),
            _ => drop(session),
        }
    }
}
