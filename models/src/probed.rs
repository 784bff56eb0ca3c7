//! What probes of model files found, by the files' content.
//!
//! - A file that was probed is not probed again, whatever it is called, until the program that probes
//!   differs: then the cache is empty.
//! - The cache is disposable: a damaged or missing one costs a second probe.
//! - Probes of several threads may end at the same time: each finding stays.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::hash::{ContentHash, changes, replace_file};

/// The probes so far, in one file of the data directory.
#[derive(Clone, Debug)]
pub struct ProbeCache {
    path: PathBuf,
    prober: String,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Probes {
    prober: String,
    /// `None`: usable.
    refused: BTreeMap<String, Option<String>>,
}

impl ProbeCache {
    /// The cache in the file at `path`, which need not exist. `prober`: names everything besides the
    /// file that decides what a probe finds.
    pub fn at(path: PathBuf, prober: String) -> Self {
        Self { path, prober }
    }

    /// `None` for a file that was not probed; `Err` with the reason for one that cannot be used.
    pub fn get(&self, content: ContentHash) -> Option<Result<(), String>> {
        let found = self.load().refused.remove(&content.to_string())?;
        Some(found.map_or(Ok(()), Err))
    }

    /// # Errors
    /// When the cache cannot be written.
    pub fn put(&self, content: ContentHash, found: &Result<(), String>) -> io::Result<()> {
        let _changes = changes();
        let mut probes = self.load();
        probes.refused.insert(content.to_string(), found.clone().err());
        replace_file(&self.path, &serde_json::to_vec(&probes)?)
    }

    fn load(&self) -> Probes {
        let bytes = fs::read(&self.path).unwrap_or_default();
        let probes: Probes = serde_json::from_slice(&bytes).unwrap_or_default();
        if probes.prober == self.prober {
            probes
        } else {
            Probes { prober: self.prober.clone(), ..Probes::default() }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn a_finding_is_known_by_content_until_the_prober_differs() {
        let dir = tempfile::tempdir().unwrap();
        let cache =
            |prober: &str| ProbeCache::at(dir.path().join("probes.json"), prober.to_owned());
        let [good, bad, other] = [1, 2, 3].map(|byte| ContentHash([byte; 32]));
        cache("1").put(good, &Ok(())).unwrap();
        cache("1").put(bad, &Err("it aborts".to_owned())).unwrap();
        assert_eq!(cache("1").get(good), Some(Ok(())));
        assert_eq!(cache("1").get(bad), Some(Err("it aborts".to_owned())));
        assert_eq!(cache("1").get(other), None);
        assert_eq!(cache("2").get(bad), None);
        cache("2").put(bad, &Ok(())).unwrap();
        assert_eq!((cache("2").get(bad), cache("2").get(good)), (Some(Ok(())), None));
    }

    #[test]
    fn probes_that_end_at_the_same_time_are_all_known() {
        let dir = tempfile::tempdir().unwrap();
        let cache = || ProbeCache::at(dir.path().join("probes.json"), "1".to_owned());
        let contents = |thread: u8| (0..50).map(move |n| ContentHash([4 * n + thread; 32]));
        let (threads, start) = (4, Barrier::new(4));
        thread::scope(|scope| {
            for thread in 0..threads {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    contents(thread).for_each(|content| cache().put(content, &Ok(())).unwrap());
                });
            }
        });
        for content in (0..threads).flat_map(contents) {
            assert_eq!(cache().get(content), Some(Ok(())), "{content}");
        }
    }

    #[test]
    fn a_damaged_cache_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let cache = ProbeCache::at(dir.path().join("probes.json"), "1".to_owned());
        fs::write(dir.path().join("probes.json"), "{").unwrap();
        assert_eq!(cache.get(ContentHash([1; 32])), None);
        cache.put(ContentHash([1; 32]), &Ok(())).unwrap();
        assert_eq!(cache.get(ContentHash([1; 32])), Some(Ok(())));
    }
}
