//! A virtual X screen and the windows on it.
//!
//! - No window manager runs: this file sends the requests of one.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use x11rb::connection::Connection;
use x11rb::protocol::xproto::{
    AtomEnum, ClientMessageEvent, ConfigureWindowAux, ConnectionExt, EventMask, ImageFormat,
    InputFocus, MapState, Window,
};
use x11rb::rust_connection::{ReplyError, RustConnection};

use crate::tools::{self, Tool};
use hob_testkit::Process;
use hob_testkit::wait;

const XVFB: Tool = Tool { names: &["Xvfb"], package: "xvfb" };

/// An Xvfb process. Dropping it ends the screen.
#[derive(Debug)]
pub struct Screen {
    _server: Process,
    display: String,
    connection: RustConnection,
    root: Window,
}

/// A rectangle on the screen, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    pub x: i16,
    pub y: i16,
    pub width: u16,
    pub height: u16,
}

impl Screen {
    /// Starts Xvfb. `scratch`: a directory for its files.
    pub fn on(scratch: &Path) -> Self {
        let display_file = scratch.join("display");
        let number = File::create(&display_file).expect("the directory can be written");
        let mut server = Process::start(
            Command::new(XVFB.find())
                .args(["-displayfd", "1", "-screen", "0", "1280x860x24", "-nolisten", "tcp"])
                .stdin(Stdio::null())
                .stdout(number)
                .stderr(Stdio::null()),
        );
        let display = wait::until("the screen is there", || {
            assert!(server.is_running(), "Xvfb ended at once");
            let number = fs::read_to_string(&display_file).ok()?;
            Some(format!(":{}", number.strip_suffix('\n')?))
        });
        let (connection, screen) = x11rb::connect(Some(&display)).expect("the screen is there");
        let root = connection.setup().roots[screen].root;
        Self { _server: server, display, connection, root }
    }

    /// `DISPLAY`.
    pub fn display(&self) -> &str {
        &self.display
    }

    /// Whether a window with this title is visible.
    pub fn shows(&self, title: &str) -> bool {
        self.window(title).is_some()
    }

    /// Position and size of the visible window with this title.
    pub fn area(&self, title: &str) -> Option<Area> {
        let asked = self.connection.get_geometry(self.window(title)?).expect("it is asked");
        let geometry = asked.reply().ok()?; // An error: the window is gone.
        Some(Area { x: geometry.x, y: geometry.y, width: geometry.width, height: geometry.height })
    }

    /// Moves and resizes the window with this title, as dragging it does.
    pub fn arrange(&self, title: &str, area: Area) {
        let window = self.window(title).unwrap_or_else(|| panic!("no window {title:?} shows"));
        let wanted = ConfigureWindowAux::new().x(i32::from(area.x)).y(i32::from(area.y));
        let wanted = wanted.width(u32::from(area.width)).height(u32::from(area.height));
        let sent = self.connection.configure_window(window, &wanted).expect("it is asked");
        sent.check().expect("the window is there");
    }

    /// Asks the window with this title to close, as its close button does.
    pub fn close(&self, title: &str) {
        let window = self.window(title).unwrap_or_else(|| panic!("no window {title:?} shows"));
        let atom = |name: &str| {
            let asked = self.connection.intern_atom(false, name.as_bytes()).expect("it is asked");
            asked.reply().expect("atoms have numbers").atom
        };
        let data = [atom("WM_DELETE_WINDOW"), x11rb::CURRENT_TIME, 0, 0, 0];
        let please = ClientMessageEvent::new(32, window, atom("WM_PROTOCOLS"), data);
        let sent = self.connection.send_event(false, window, EventMask::NO_EVENT, please);
        sent.expect("it is asked").check().expect("the window is there");
    }

    /// Gives the keyboard focus to the window with this title, or to none.
    pub fn focus(&self, title: &str) {
        let window = self.window(title).unwrap_or(x11rb::NONE);
        let now = x11rb::CURRENT_TIME;
        let set = self.connection.set_input_focus(InputFocus::POINTER_ROOT, window, now);
        set.expect("it is asked").check().expect("a window that shows can have the focus");
    }

    /// Saves a screenshot in `target/checks/` and returns its number of colours.
    pub fn save_picture(&self, name: &str) -> usize {
        let all = self.connection.get_geometry(self.root).expect("it is asked");
        let all = all.reply().expect("the screen has a size");
        let (width, height) = (all.width, all.height);
        let image =
            self.connection.get_image(ImageFormat::Z_PIXMAP, self.root, 0, 0, width, height, !0);
        let image = image.expect("it is asked").reply().expect("it is seen");
        let pixels: Vec<[u8; 3]> =
            image.data.chunks_exact(4).map(|bgrx| [bgrx[2], bgrx[1], bgrx[0]]).collect();
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

    fn window(&self, title: &str) -> Option<Window> {
        let tree = self.connection.query_tree(self.root).expect("it is asked").reply();
        let windows = tree.expect("the screen has windows").children;
        // An error: the window is gone.
        windows.into_iter().find(|&window| self.is_shown(window, title).unwrap_or(false))
    }

    fn is_shown(&self, window: Window, title: &str) -> Result<bool, ReplyError> {
        let (name, text) = (AtomEnum::WM_NAME, AtomEnum::ANY);
        let name = self.connection.get_property(false, window, name, text, 0, 64)?.reply()?;
        let state = self.connection.get_window_attributes(window)?.reply()?.map_state;
        Ok(name.value == title.as_bytes() && state == MapState::VIEWABLE)
    }
}
