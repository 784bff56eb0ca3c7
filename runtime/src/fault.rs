//! Faults that tests inject into a running program.
//!
//! - Off, unless the program calls [`inject_from`]: `hobd` does when the environment has
//!   `HOB_TEST_FAULTS`, the path of a directory.
//! - A file there, named after a place, holds `panic`, `hang` or `abort`. The first thread that
//!   reaches the place removes the file and does so. With `wait` it waits until the file is gone.
//! - While a file `disk` there holds `full`, the database of texts has no room to grow.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use std::{fs, process, thread};

/// Where a fault may be injected; the file's name is in lower case.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Before the engine's thread starts, with the model loaded.
    Start,
    /// A round of the engine's loop.
    Engine,
    /// Before the engine imports restored KV.
    Restore,
    /// Before the writer writes an object.
    Writer,
    /// Before a reader plans a restore.
    Reader,
    /// Before the writer runs a maintenance job.
    Maintenance,
}

static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();

/// Looks for faults in `directory` from now on.
pub fn inject_from(directory: PathBuf) {
    DIRECTORY.set(directory).ok(); // An error: the first one stays.
}

/// Whether a test fills the disk now; `None` where no test injects faults.
pub fn is_disk_full() -> Option<bool> {
    let text = fs::read_to_string(DIRECTORY.get()?.join("disk"));
    Some(text.is_ok_and(|text| text.trim() == "full"))
}

/// Does what the file of `place` says, if there is one.
pub(crate) fn point(place: Place) {
    if let Some(directory) = DIRECTORY.get() {
        let file = directory.join(format!("{place:?}").to_ascii_lowercase());
        let Ok(fault) = fs::read_to_string(&file) else { return };
        if fault.trim() == "wait" {
            while file.exists() {
                thread::sleep(Duration::from_millis(5));
            }
            return;
        }
        fs::remove_file(&file).ok(); // An error: another thread was faster, and both do so.
        match fault.trim() {
            "panic" => panic!("a test asks for a panic: {place:?}"),
            "hang" => loop {
                thread::park();
            },
            "abort" => process::abort(),
            other => panic!("{}: {other:?} is no fault", file.display()),
        }
    }
}
