//! A desktop without a screen, and the app in it.
//!
//! - The app is started by WebKitGTK's driver, on a bus of its own, as Tauri's documents say; nothing of
//!   the desktop of whoever runs the checks is touched.
//! - That driver's own pictures need a graphics device. Here they come from the X server.
//! - The app is the one that was built beside the checks. `HOB_CHECKS_APP` names another one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use x11rb::connection::Connection;
use x11rb::protocol::xproto::{ConnectionExt, ImageFormat};

use crate::process::Running;
use crate::tools::{self, Tool};
use crate::{Browser, Page, wait};

/// The screen.
const XVFB: Tool = Tool { names: &["Xvfb"], package: "xvfb" };
/// The bus.
const BUS: Tool = Tool { names: &["dbus-run-session"], package: "dbus" };
/// What drives the window.
const DRIVER: Tool = Tool { names: &["WebKitWebDriver"], package: "webkit2gtk-driver" };

/// A screen, and a home for what runs on it.
#[derive(Debug)]
pub struct Desktop {
    _screen: Running,
    display: String,
    data_dir: PathBuf,
    slots_dir: PathBuf,
    home: TempDir,
}

impl Desktop {
    /// One whose app has its things for itself.
    pub fn open() -> Self {
        let mut desktop = Self::beside(Path::new(""));
        desktop.data_dir = desktop.home.path().join("data");
        desktop.slots_dir = desktop.home.path().join("slots");
        desktop
    }

    /// One whose app has its things where a hobd has its own.
    pub fn beside(hobds: &Path) -> Self {
        let home = tempfile::tempdir().expect("there is room for temporary files");
        let told = home.path().join("display");
        let number = File::create(&told).expect("the directory can be written");
        let mut screen = Running::start(
            Command::new(XVFB.find())
                .args(["-displayfd", "1", "-screen", "0", "1280x860x24", "-nolisten", "tcp"])
                .stdin(Stdio::null())
                .stdout(number)
                .stderr(Stdio::null()),
        );
        let display = wait::until("the screen is there", || {
            assert!(screen.lives(), "Xvfb ended at once");
            let number = fs::read_to_string(&told).ok()?;
            Some(format!(":{}", number.strip_suffix('\n')?))
        });
        let (data_dir, slots_dir) = (hobds.join("data"), hobds.join("slots"));
        Self { _screen: screen, display, data_dir, slots_dir, home }
    }

    /// Where the app's user lives.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Starts the app on the fake model, and drives its window.
    pub fn app(&self) -> Page {
        let capabilities = json!({
            "webkitgtk:browserOptions": {"binary": tools::app(), "args": self.arguments()},
        });
        let mut driver = self.session(&DRIVER.find());
        driver.env("TAURI_WEBVIEW_AUTOMATION", "true");
        let scratch = tempfile::tempdir().expect("there is room for temporary files");
        Page::of(Browser::open(driver, &capabilities, scratch).without_pictures())
    }

    /// Runs the app by itself, to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut app = self.session(&tools::app());
        app.args(self.arguments()).args(arguments);
        app.output().expect("the app can be started")
    }

    /// The daemon that has announced itself in the app's data directory.
    pub fn announced(&self) -> Option<Value> {
        let text = fs::read_to_string(self.data_dir.join("hobd.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Puts a picture of the screen into `target/checks/`, and says how many colours it has.
    pub fn save_picture(&self, name: &str) -> usize {
        let (connection, screen) =
            x11rb::connect(Some(&self.display)).expect("the screen is there");
        let screen = &connection.setup().roots[screen];
        let (width, height) = (screen.width_in_pixels, screen.height_in_pixels);
        let all = connection.get_image(ImageFormat::Z_PIXMAP, screen.root, 0, 0, width, height, !0);
        let image = all.expect("it is asked").reply().expect("it is seen");
        let pixels: Vec<[u8; 3]> =
            image.data.chunks_exact(4).map(|it| [it[2], it[1], it[0]]).collect();
        let path = tools::reports().join(format!("{name}.png"));
        let file = File::create(&path).expect("the target can be written");
        let mut picture = png::Encoder::new(file, width.into(), height.into());
        picture.set_color(png::ColorType::Rgb);
        let mut writer = picture.write_header().expect("the target can be written");
        writer.write_image_data(pixels.as_flattened()).expect("the target can be written");
        let mut colours = pixels;
        colours.sort_unstable();
        colours.dedup();
        colours.len()
    }

    fn arguments(&self) -> Vec<String> {
        let (data_dir, slots_dir) = (self.data_dir.display(), self.slots_dir.display());
        let words = ["--model", "fake", "--listen", "127.0.0.1:0", "--voice-command", "off"];
        let places = [format!("--data-dir={data_dir}"), format!("--slots-dir={slots_dir}")];
        words.into_iter().map(str::to_owned).chain(places).collect()
    }

    /// A program on a bus of its own, on this screen.
    fn session(&self, program: &Path) -> Command {
        let mut command = Command::new(BUS.find());
        let home = self.home.path();
        command.arg("--").arg(program).env_clear().stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", home).env("XDG_RUNTIME_DIR", home).env("DISPLAY", &self.display);
        command.env("LANG", "C.UTF-8");
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
