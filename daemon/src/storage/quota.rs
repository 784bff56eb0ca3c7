//! The disk quota as it is set: by the configuration, or by a request since.
//!
//! - A request writes the configuration file first. If that fails, nothing changes.
//! - A change is in force at once: the sweep loop wakes and holds the new quota.
//! - A quota of a flag or a variable overrides the file, so a request cannot change it.

use std::path::PathBuf;
use std::sync::Arc;

use hob_config::edit::{self, EditError};
use hob_config::{Key, Resolved};
use hob_slots::{NoRoom, Quota};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Shared by the sweep loop and the routes. It outlives a switch to another model.
#[derive(Clone, Debug)]
pub struct DiskQuota {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    set: Mutex<SetQuota>,
    /// Why the latest sweep found no room.
    no_room: Mutex<Option<NoRoom>>,
    changed: Notify,
    config_file: PathBuf,
}

/// A quota, and what set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetQuota {
    pub quota: Quota,
    /// As `hob config show` names it: `default`, a file, a variable or a flag.
    pub origin: String,
    /// A flag or a variable sets it.
    pub is_fixed: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum QuotaError {
    #[error(
        "the {origin} sets the quota of this daemon: start hobd without it, or with the quota that \
         you want"
    )]
    Fixed { origin: String },
    #[error(transparent)]
    Unwritable(#[from] EditError),
}

impl DiskQuota {
    pub fn new(resolved: &Resolved) -> Self {
        let key = Key::SlotsQuotaBytes;
        let set = SetQuota {
            quota: Quota::of_setting(resolved.settings.slots_quota_bytes),
            origin: resolved.origin(key).to_string(),
            is_fixed: resolved.fixed(key).is_some(),
        };
        let shared = Shared {
            set: Mutex::new(set),
            no_room: Mutex::default(),
            changed: Notify::new(),
            config_file: resolved.config_file(),
        };
        Self { shared: Arc::new(shared) }
    }

    pub fn get(&self) -> Quota {
        self.shared.set.lock().quota
    }

    pub fn as_set(&self) -> SetQuota {
        self.shared.set.lock().clone()
    }

    /// Sets the quota, in the configuration file too; 0 stands for the default. Blocks.
    ///
    /// # Errors
    /// When a stronger layer sets the quota, or the file cannot be written.
    pub fn set(&self, bytes: u64) -> Result<(), QuotaError> {
        let Shared { set, changed, config_file, .. } = &*self.shared;
        let mut set = set.lock();
        if set.is_fixed {
            return Err(QuotaError::Fixed { origin: set.origin.clone() });
        }
        // Larger numbers are no TOML integers, and larger than any disk.
        let written = i64::try_from(bytes).unwrap_or(i64::MAX);
        edit::set(config_file, Key::SlotsQuotaBytes, written)?;
        (set.quota, set.origin) = (Quota::of_setting(bytes), config_file.display().to_string());
        changed.notify_one();
        Ok(())
    }

    /// Why nothing may stay on disk, by the latest sweep.
    pub fn no_room(&self) -> Option<NoRoom> {
        *self.shared.no_room.lock()
    }

    /// A sweep has found this. Logs a warning where the sweep before had found room.
    pub fn observe(&self, no_room: Option<NoRoom>) {
        let before = std::mem::replace(&mut *self.shared.no_room.lock(), no_room);
        if let (None, Some(no_room)) = (before, no_room) {
            tracing::warn!("{no_room}");
        }
    }

    /// Waits for the next change. Cancel safe; one listener.
    pub async fn changed(&self) {
        self.shared.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use hob_config::{Flags, Settings, Sources, UserDirs};

    use super::*;

    fn quota(root: &std::path::Path, flag: Option<&str>) -> DiskQuota {
        let mut flags = Flags::default();
        if let Some(bytes) = flag {
            flags.set(Key::SlotsQuotaBytes, bytes);
        }
        let sources = Sources::gather(UserDirs::under(root), [], flags).unwrap();
        DiskQuota::new(&Settings::resolve(&sources).unwrap())
    }

    #[test]
    fn a_quota_that_was_set_is_that_of_the_next_start() {
        let root = tempfile::tempdir().unwrap();
        let first = quota(root.path(), None);
        assert_eq!((first.get(), first.as_set().origin), (Quota::Automatic, "default".to_owned()));
        first.set(5 << 30).unwrap();
        assert_eq!(first.get(), Quota::Bytes(5 << 30));

        let next = quota(root.path(), None);
        assert_eq!(next.get(), Quota::Bytes(5 << 30));
        assert!(next.as_set().origin.ends_with("hob.toml:1"), "{}", next.as_set().origin);
        next.set(0).unwrap();
        assert_eq!(quota(root.path(), None).get(), Quota::Automatic);
    }

    #[test]
    fn a_quota_of_a_flag_stays_and_the_error_names_the_flag() {
        let root = tempfile::tempdir().unwrap();
        let fixed = quota(root.path(), Some("1GiB"));
        let error = fixed.set(5 << 30).unwrap_err().to_string();
        assert!(error.contains("--slots-quota-bytes"), "{error}");
        assert_eq!(fixed.get(), Quota::Bytes(1 << 30));
    }

    #[test]
    fn a_file_that_cannot_be_written_changes_nothing() {
        let root = tempfile::tempdir().unwrap();
        let unchanged = quota(root.path(), None);
        std::fs::write(root.path().join("config"), "no directory").unwrap();
        assert!(unchanged.set(1).unwrap_err().to_string().contains("hob.toml"));
        assert_eq!(unchanged.get(), Quota::Automatic);
    }
}
