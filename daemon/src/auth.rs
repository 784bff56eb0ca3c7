//! The access token: created once, stored in a file that only its owner can read, and compared in
//! constant time.
//!
//! - The file appears atomically. Of two daemons that start together, one creates it and both use
//!   it.
//! - The token is never logged, and never read from an address.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use hob_slots::hex_text;
use subtle::ConstantTimeEq;

const TOKEN_BYTES: usize = 32;
const MIN_CHARS: usize = 16;
const MAX_BYTES: u64 = 4096;

/// Requests carry it, except those to `/health`.
#[derive(Clone)]
pub struct AccessToken(String);

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("cannot {action} the token file {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "the token file {} holds no token of {MIN_CHARS} or more visible characters: \
         delete it, and hobd makes a new one",
        path.display()
    )]
    Malformed { path: PathBuf },
    #[error("the system gives no random numbers: {0}")]
    Random(String),
}

impl AccessToken {
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// Reads the token file, or creates it.
    ///
    /// # Errors
    /// When the file cannot be read or created, or contains no token.
    pub fn load_or_create(path: &Path) -> Result<Self, TokenError> {
        match read(path) {
            Err(TokenError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                create(path)?;
                read(path) // Another daemon's, if it was first.
            }
            other => other,
        }
    }

    /// Whether `offered` is the token, in constant time.
    pub fn matches(&self, offered: &str) -> bool {
        self.0.as_bytes().ct_eq(offered.as_bytes()).into()
    }

    /// The secret, for clients that send it.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

fn read(path: &Path) -> Result<AccessToken, TokenError> {
    let failed = |source| TokenError::Io { action: "read", path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    keep_private(&file, path).map_err(failed)?;
    let mut text = String::new();
    let malformed = || TokenError::Malformed { path: path.to_owned() };
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => malformed(),
        _ => failed(error),
    })?;
    let token = text.trim();
    if token.len() < MIN_CHARS || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(malformed());
    }
    Ok(AccessToken(token.to_owned()))
}

/// `tempfile` creates files that only their owner can open.
fn create(path: &Path) -> Result<(), TokenError> {
    let failed = |source| TokenError::Io { action: "make", path: path.to_owned(), source };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(failed)?;
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
    writeln!(file, "{}", random()?).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed(error.error)),
    }
}

fn random() -> Result<String, TokenError> {
    let mut bytes = [0u8; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| TokenError::Random(error.to_string()))?;
    Ok(hex_text(&bytes))
}

/// Removes the permissions of others, with a warning. Those of another user's file and of one on a read-only file system,
/// such as a mounted secret, stay, as do those of a directory, a device and a pipe: other programs may use them.
fn keep_private(file: &File, path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let facts = file.metadata()?;
    let mode = facts.permissions().mode();
    if !facts.is_file() || mode & 0o077 == 0 {
        return Ok(());
    }
    let (mode, path) = (format!("{:o}", mode & 0o777), path.display());
    match file.set_permissions(fs::Permissions::from_mode(0o600)) {
        Ok(()) => {
            tracing::warn!(%path, mode, "the token file was readable by others: permissions corrected");
        }
        Err(error) if is_not_ours(error.kind()) => {
            tracing::warn!(%path, mode, %error, "others may read the token file: give it the mode 0400");
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

fn is_not_ours(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_created_once_and_then_reused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data/token");
        let first = AccessToken::load_or_create(&path).unwrap();
        let second = AccessToken::load_or_create(&path).unwrap();
        assert_eq!(first.secret(), second.secret());
        assert_eq!(first.secret().len(), 2 * TOKEN_BYTES);
        assert!(first.matches(second.secret()));
        assert!(!first.matches(""));
        assert!(!first.matches(&format!("{}0", second.secret())));
        assert_eq!(fs::read_dir(dir.path().join("data")).unwrap().count(), 1);
    }

    #[test]
    fn an_invalid_token_file_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        for wrong in ["", "short", "with some spaces in the middle", "\u{ff}\u{ff}"] {
            fs::write(&path, wrong).unwrap();
            let error = AccessToken::load_or_create(&path).unwrap_err();
            assert!(matches!(error, TokenError::Malformed { .. }), "{error}");
        }
    }

    #[test]
    fn only_the_owner_can_read_the_file() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        AccessToken::load_or_create(&path).unwrap();
        assert_eq!(mode(), 0o600);

        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        AccessToken::load_or_create(&path).unwrap();
        assert_eq!(mode(), 0o600);
    }

    #[test]
    fn a_directory_named_as_the_token_file_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let error = AccessToken::load_or_create(dir.path()).unwrap_err();
        assert!(matches!(error, TokenError::Io { action: "read", .. }), "{error}");
        assert_eq!(fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_whose_permissions_cannot_be_changed_is_read() {
        let path = Path::new("/proc/sys/kernel/random/boot_id"); // Readable by all, and changed by none.
        let read = AccessToken::load_or_create(path).unwrap();
        assert_eq!(read.secret(), fs::read_to_string(path).unwrap().trim());
    }

    #[test]
    fn debug_output_does_not_show_the_token() {
        assert_eq!(format!("{:?}", AccessToken::new("a-secret-of-mine-1")), "AccessToken(…)");
    }
}
