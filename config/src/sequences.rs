//! How many prefixes have a slot of their own.
//!
//! - Each slot, of a conversation or of a prefix, has a sequence of llama.cpp. The engine has more of them for itself, and
//!   llama.cpp has [`MAX_SEQUENCES`] in all.

use std::fs;
use std::path::Path;

use crate::settings::Settings;

/// `LLAMA_MAX_SEQ`
const MAX_SEQUENCES: usize = 256;

/// The engine's own at most: one for splices, and four for heads of moved text. Models with windows or running states
/// have three at most.
const OWN_SEQUENCES: usize = 5;

/// For profiles that are added later.
const MIN_PREFIXES: usize = 4;

impl Settings {
    /// Slots for prefixes: one for each profile and each learned prefix, and [`MIN_PREFIXES`] at least. Not more, because
    /// on models with running states each one takes memory. Reads the directory of profiles.
    pub fn prefix_slots(&self) -> usize {
        let max = MAX_SEQUENCES - OWN_SEQUENCES - self.slots as usize;
        (count_profiles(&self.profiles_dir) + self.learned_prefixes).clamp(MIN_PREFIXES, max)
    }
}

/// Broken ones included.
fn count_profiles(directory: &Path) -> usize {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let names = entries.flatten().map(|entry| entry.file_name());
    let is_profile = |name: &str| name.ends_with(".toml") && !name.starts_with('.');
    names.filter(|name| is_profile(&name.to_string_lossy())).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flags, Sources, UserDirs};

    fn prefixes(slots: u32, learned_prefixes: usize) -> usize {
        let user_dirs = UserDirs::under(Path::new("/u"));
        let sources = Sources::gather(user_dirs, [], Flags::default()).unwrap();
        let settings = Settings::resolve(&sources).unwrap().settings;
        Settings { slots, learned_prefixes, ..settings }.prefix_slots()
    }

    #[test]
    fn slots_of_conversations_and_prefixes_leave_the_engine_its_own_sequences() {
        assert_eq!(prefixes(4, 0), MIN_PREFIXES);
        assert_eq!(prefixes(4, 64), 64);
        assert_eq!(prefixes(240, 64), MAX_SEQUENCES - OWN_SEQUENCES - 240);
        assert_eq!(prefixes(247, 64), MIN_PREFIXES); // The greatest that the setting allows.
    }
}
