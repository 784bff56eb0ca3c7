//! One owner at a time, by a lock that the system releases when its holder dies.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use super::error::{StoreError, io_error};
use super::write::private_file;

/// Held as long as the directory is owned.
#[derive(Debug)]
pub struct Owner {
    lock: File,
}

impl Drop for Owner {
    /// Closing is not enough: a child that was just forked shares the lock until it runs a program
    /// of its own.
    fn drop(&mut self) {
        let _ = self.lock.unlock(); // An error: closing the file releases it all the same.
    }
}

impl Owner {
    /// Takes the lock of `dir` and writes into it who has it.
    pub fn acquire(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join("owner.lock");
        // Not truncated: until the lock is ours, the file tells who has it.
        let mut file = private_file()
            .read(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io_error("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Owned { dir: dir.to_owned(), owner: named_in(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(io_error("lock", &path)(error)),
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| write!(file, "pid {}", std::process::id()));
        written.map_err(io_error("write", &path))?;
        Ok(Self { lock: file })
    }
}

/// Some systems refuse to read a locked file, and the owner may be about to write its name.
fn named_in(file: &mut File) -> String {
    let mut text = String::new();
    match file.read_to_string(&mut text) {
        Ok(_) if !text.is_empty() => text,
        _ => "another process".to_owned(),
    }
}
