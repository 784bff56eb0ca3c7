//! What a client needs to find the daemon that runs on a data directory.
//!
//! - The daemon writes [`daemon_file`](crate::paths::daemon_file) once it serves requests and
//!   removes it when it stops. After a crash the file stays, so its existence proves nothing.
//! - Readers see the old file or the new one, each whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::paths::daemon_file;

/// A daemon's description for its clients. `--ready-file` receives the same line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningDaemon {
    pub address: SocketAddr,
    pub token_file: PathBuf,
    pub pid: u32,
    /// A path.
    pub model: String,
    /// 16 hex digits.
    pub fingerprint: String,
    pub slots_dir: PathBuf,
}

impl RunningDaemon {
    /// Writes the description for the clients of this data directory.
    pub fn write(&self, data_dir: &Path) -> io::Result<()> {
        self.write_line(&daemon_file(data_dir))
    }

    /// Writes the description as one JSON line, atomically. Overwrites the temporary file that a
    /// crashed daemon may have left.
    pub fn write_line(&self, path: &Path) -> io::Result<()> {
        let mut name = path.as_os_str().to_owned();
        name.push(".tmp");
        let temporary = PathBuf::from(name);
        let mut file = private_file(&temporary)?;
        serde_json::to_writer(&mut file, self)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    }

    /// The description in this data directory; `None` when it is missing or not valid JSON.
    pub fn read(data_dir: &Path) -> io::Result<Option<Self>> {
        match fs::read(daemon_file(data_dir)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the description, unless another daemon has replaced it.
    pub fn remove(&self, data_dir: &Path) -> io::Result<()> {
        match Self::read(data_dir)? {
            Some(current) if current.pid == self.pid => fs::remove_file(daemon_file(data_dir)),
            _ => Ok(()),
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_one_line_and_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(RunningDaemon::read(dir.path()).unwrap(), None);
        fs::write(dir.path().join("hobd.json.tmp"), r#"{"address":"127.0"#).unwrap();

        daemon(7).write(dir.path()).unwrap();
        assert_eq!(RunningDaemon::read(dir.path()).unwrap(), Some(daemon(7)));
        let text = fs::read_to_string(daemon_file(dir.path())).unwrap();
        assert_eq!(text.lines().count(), 1);
        assert!(text.starts_with(r#"{"address":"127.0.0.1:8642","token_file""#), "{text}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "a temporary file stayed");
    }

    #[test]
    fn a_daemon_removes_only_its_own_description() {
        let dir = tempfile::tempdir().unwrap();
        daemon(8).write(dir.path()).unwrap();
        daemon(7).remove(dir.path()).unwrap();
        assert_eq!(RunningDaemon::read(dir.path()).unwrap(), Some(daemon(8)));
        daemon(8).remove(dir.path()).unwrap();
        assert_eq!(RunningDaemon::read(dir.path()).unwrap(), None);
    }

    #[test]
    fn an_invalid_description_is_none() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(daemon_file(dir.path()), "{").unwrap();
        assert_eq!(RunningDaemon::read(dir.path()).unwrap(), None);
    }

    fn daemon(pid: u32) -> RunningDaemon {
        RunningDaemon {
            address: "127.0.0.1:8642".parse().unwrap(),
            token_file: "/d/token".into(),
            pid,
            model: "/m/tiny.gguf".into(),
            fingerprint: "0123456789abcdef".into(),
            slots_dir: "/d/slots".into(),
        }
    }
}
