//! Commands of speech as shell scripts.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::{Plan, World};

/// Understands more words after each quarter of a second of sound; at the end all of them.
pub const RECOGNIZER: &str = "head -c 8000 >/dev/null; echo What is my; \
                              head -c 8000 >/dev/null; echo What is my locker; cat >/dev/null; \
                              echo 'What is my locker code?'";

pub fn shell(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

/// A daemon whose recogniser was removed after the start, by an update of it, for example.
pub fn without_its_recognizer() -> World {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("recognizer");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&script, Permissions::from_mode(0o700)).unwrap();
    Plan::new().dictates(&[&script.display().to_string()]).start()
}
