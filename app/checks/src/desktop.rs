//! A desktop without a screen, and the app in it.
//!
//! - WebKitGTK's driver starts the app on a screen and a bus of its own, as Tauri documents it. The
//!   desktop of the user who runs the checks stays untouched.
//! - The app is the one that was built beside the checks; `HOB_CHECKS_APP` names another one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bus::Bus;
use crate::screen::{Area, Screen};
use crate::tools::{self, Tool};
use crate::{Browser, Page};
use hob_testkit::Process;
use hob_testkit::wait;

const DRIVER: Tool = Tool { names: &["WebKitWebDriver"], package: "webkit2gtk-driver" };

/// The title of the window.
const TITLE: &str = "Hob";

/// For an app that ends by itself.
const RUN_TIMEOUT: Duration = Duration::from_secs(120);

/// A screen, a bus and a home directory.
#[derive(Debug)]
pub struct Desktop {
    pub bus: Bus,
    screen: Screen,
    model: String,
    data_dir: PathBuf,
    slots_dir: PathBuf,
    home: TempDir,
}

impl Desktop {
    /// The app has directories of its own and runs the fake model.
    pub fn open() -> Self {
        let mut desktop = Self::beside(Path::new(""));
        desktop.data_dir = desktop.home.path().join("data");
        desktop.slots_dir = desktop.home.path().join("slots");
        desktop
    }

    /// The app uses the directories below `hobd`, those of a running hobd.
    pub fn beside(hobd: &Path) -> Self {
        let home = tempfile::tempdir().expect("there is room for temporary files");
        let (screen, bus) = (Screen::on(home.path()), Bus::start(home.path()));
        let (data_dir, slots_dir) = (hobd.join("data"), hobd.join("slots"));
        Self { bus, screen, model: "fake".to_owned(), data_dir, slots_dir, home }
    }

    /// With a real model: `bundled`, or a file.
    pub fn with_model(self, model: &str) -> Self {
        Self { model: model.to_owned(), ..self }
    }

    /// The home directory of the app's user.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Starts the app and drives its window.
    pub fn app(&self) -> Page {
        self.app_with(&[])
    }

    /// The same with more arguments.
    pub fn app_with(&self, arguments: &[&str]) -> Page {
        let own = self.arguments();
        let all: Vec<&str> =
            own.iter().map(String::as_str).chain(arguments.iter().copied()).collect();
        let capabilities = json!({
            "webkitgtk:browserOptions": {"binary": tools::app(), "args": all},
        });
        let mut driver = self.session(&DRIVER.find());
        driver.env("TAURI_WEBVIEW_AUTOMATION", "true");
        let scratch = tempfile::tempdir().expect("there is room for temporary files");
        Page::of(Browser::open(driver, &capabilities, scratch).without_pictures())
    }

    /// Starts the app without a driver.
    pub fn start(&self, arguments: &[&str]) -> Process {
        let file =
            |name| File::create(self.home().join(name)).expect("the directory can be written");
        let mut app = self.session(&tools::app());
        app.args(self.arguments()).args(arguments);
        Process::start(app.stdout(file("out")).stderr(file("err")))
    }

    /// Runs the app without a driver to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut app = self.start(arguments);
        let status = wait::attempt(RUN_TIMEOUT, || app.exit_status().ok_or(()));
        let [stdout, stderr] =
            ["out", "err"].map(|name| fs::read(self.home().join(name)).expect("it is there"));
        match status {
            Ok(status) => Output { status, stdout, stderr },
            Err(()) => panic!("the app does not end: {}", String::from_utf8_lossy(&stderr)),
        }
    }

    /// The announcement of the daemon in the app's data directory.
    pub fn announced(&self) -> Option<Value> {
        let text = fs::read_to_string(self.data_dir.join("hobd.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Ends the app as its menu does.
    pub fn quit(&self, window: Page) {
        // Delayed: the driver needs the app for the result of the script.
        window.script("setTimeout(() => window.__TAURI__.core.invoke('quit'), 100)");
        self.ended();
    }

    /// Waits until the app has ended: it removes its announcement last, after saving.
    pub fn ended(&self) {
        wait::until("the app has ended", || self.announced().is_none().then_some(()));
    }

    /// Waits until the window shows.
    pub fn shows_window(&self) {
        wait::until("the window shows", || self.has_window().then_some(()));
    }

    /// Waits until no window shows.
    pub fn hides_window(&self) {
        wait::until("the window is hidden", || (!self.has_window()).then_some(()));
    }

    pub fn has_window(&self) -> bool {
        self.screen.shows(TITLE)
    }

    /// Waits until the window has this position and size.
    pub fn has_window_at(&self, area: Area) {
        let is_there = || (self.screen.area(TITLE) == Some(area)).then_some(());
        wait::until(&format!("the window is at {area:?}"), is_there);
    }

    /// Moves and resizes the window.
    pub fn arrange_window(&self, area: Area) {
        self.shows_window();
        self.screen.arrange(TITLE, area);
    }

    /// Closes the window as its close button does.
    pub fn close_window(&self) {
        self.shows_window();
        self.screen.close(TITLE);
    }

    /// Gives the window the keyboard focus.
    pub fn focus_window(&self) {
        self.shows_window();
        self.screen.focus(TITLE);
    }

    /// Takes the keyboard focus away from the window.
    pub fn look_away(&self) {
        self.screen.focus("nothing");
    }

    /// Saves a screenshot in `target/checks/` and returns its number of colours.
    pub fn save_picture(&self, name: &str) -> usize {
        self.screen.save_picture(name)
    }

    fn arguments(&self) -> Vec<String> {
        let (data_dir, slots_dir) = (self.data_dir.display(), self.slots_dir.display());
        let words = ["--model", &self.model, "--listen", "127.0.0.1:0", "--voice-command", "off"];
        let places = [format!("--data-dir={data_dir}"), format!("--slots-dir={slots_dir}")];
        words.into_iter().map(str::to_owned).chain(places).collect()
    }

    /// A program in the environment of this desktop.
    fn session(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let home = self.home.path();
        command.env_clear().stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", home).env("XDG_RUNTIME_DIR", home).env("LANG", "C.UTF-8");
        command.env("DISPLAY", self.screen.display());
        command.env("DBUS_SESSION_BUS_ADDRESS", self.bus.address());
        for name in [
            "NO_AT_BRIDGE",
            "WEBKIT_DISABLE_DMABUF_RENDERER",
            "WEBKIT_DISABLE_COMPOSITING_MODE",
            "LIBGL_ALWAYS_SOFTWARE",
        ] {
            command.env(name, "1");
        }
        command
    }
}
