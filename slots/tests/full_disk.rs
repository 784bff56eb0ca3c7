//! A full disk.
//!
//! - A save fails with an error; earlier saves stay readable, also after a restart on the full
//!   disk.
//! - A sweep frees space without needing any; then saves work again.
//!
//! Runs on a file system in memory with a limit, and on a real tmpfs of 32 MiB where this process
//! may mount one.

mod support;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use hob_slots::store::files::{Disk, Files};
use hob_slots::{
    AdjustedTime, NoEngine, Object, ObjectKind, Payload, Quota, Rules, SlotRecord, Store,
    StoreError, Sweeper, TtlClass,
};
use tempfile::TempDir;

use support::memory::MemoryFiles;
use support::talk::{MODEL, Talk, id, later, start};

#[test]
fn a_full_disk_in_memory_keeps_what_it_has_and_takes_more_after_a_sweep() {
    let files = MemoryFiles::new();
    files.limit_to(400_000);
    let fill = || files.limit_to(files.disk().bytes());
    assert_copes(Arc::new(files.clone()), Path::new("/slots"), 20_000, &fill);
}

#[test]
fn a_full_tmpfs_keeps_what_it_has_and_takes_more_after_a_sweep() {
    let dir = TempDir::new().unwrap();
    let tmpfs = match Tmpfs::mount(dir.path()) {
        Ok(tmpfs) => tmpfs,
        Err(why) => return println!("skipped: no tmpfs can be mounted here: {why}"),
    };
    let ballast = tmpfs.0.join("ballast");
    let fill = || {
        let mut file = File::options().append(true).create(true).open(&ballast).unwrap();
        for bytes in [1 << 20, 4_096, 1] {
            while file.write_all(&vec![1; bytes]).is_ok() {}
        }
    };
    assert_copes(Arc::new(Disk), &tmpfs.0.join("slots"), 2_000_000, &fill);
}

/// `fill` writes until no byte is free.
fn assert_copes(files: Arc<dyn Files>, dir: &Path, bytes: usize, fill: &dyn Fn()) {
    let opened = || Store::open_on(files.clone(), dir).expect("it opens, full or not");
    let mut store = opened();
    let before = large("before", bytes);
    before.save(&store).unwrap();
    let saved: Vec<Talk> = (0..)
        .map(|number| large(&format!("talk-{number}"), bytes))
        .take_while(|talk| talk.save(&store).is_ok())
        .collect();
    assert!(saved.len() > 3, "the disk is large enough for a few: {}", saved.len());
    fill();
    for _ in 0..2 {
        assert_reads(&store, &before);
        saved.iter().for_each(|talk| assert_reads(&store, talk));
        let next_turn = SlotRecord { turns: 2, class: TtlClass::Long, ..before.record.clone() };
        for error in [
            large("late", bytes).save(&store).unwrap_err(),
            store.put_slot(MODEL, &next_turn).unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Io { .. }), "{error}");
            let says_why = ["space", "storage", "full"];
            let text = error.to_string().to_lowercase();
            assert!(says_why.iter().any(|why| text.contains(why)), "{error}");
            assert!(text.starts_with("cannot write"), "{error}");
        }
        drop(store);
        // Not even the owner's name fits.
        files.remove(&dir.join("owner.lock")).unwrap();
        fill();
        store = opened();
    }

    let quota = Quota::Bytes(2 * bytes as u64 + 10_000);
    let rules = Rules { quota, grace: Duration::ZERO, compress_after: None, ..Rules::default() };
    let now = AdjustedTime::from(later(start(), 30));
    let swept = Sweeper::new(rules).sweep(&store, &now, &NoEngine);
    assert!(swept.errors.is_empty(), "{:?}", swept.errors);
    assert!(swept.evicted > 0 && swept.freed_bytes >= bytes as u64, "{swept:?}");
    let late = large("late", bytes);
    late.save(&store).unwrap();
    assert_reads(&store, &late);
}

/// A conversation with one large snapshot.
fn large(name: &str, bytes: usize) -> Talk {
    let word = name.bytes().fold(0, |sum, byte| sum * 31 % 100_003 + i32::from(byte));
    let mut talk = Talk::new(name, TtlClass::Permanent, start(), &[word]).with_snapshot();
    let snapshot = talk.objects.last_mut().expect("it has one");
    snapshot.payload = Payload::from(vec![word as u8; bytes]);
    talk.record.snapshots[0].bytes = snapshot.file_bytes();
    talk
}

fn assert_reads(store: &Store, talk: &Talk) {
    let name = &talk.record.conversation;
    assert_eq!(store.get_slot(MODEL, name).unwrap(), talk.record, "{name}");
    let get = |object: &Object| store.get_object(MODEL, object.id(), object.kind).unwrap();
    for object in &talk.objects {
        assert_eq!(get(object), *object, "{name}");
    }
    assert!(talk.objects.iter().any(|object| object.kind == ObjectKind::Snapshot));
    assert!(store.get_slot(MODEL, &id("nobody")).is_err());
}

/// A tmpfs of 32 MiB; dropping unmounts it.
struct Tmpfs(std::path::PathBuf);

impl Tmpfs {
    fn mount(dir: &Path) -> Result<Self, String> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=32m,mode=0700", "hob-test"]).arg(dir);
        let done = mount.output().map_err(|error| error.to_string())?;
        if done.status.success() {
            Ok(Self(dir.to_owned()))
        } else {
            Err(String::from_utf8_lossy(&done.stderr).trim().to_owned())
        }
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let done = Command::new("umount").arg("-l").arg(&self.0).status();
        if !done.is_ok_and(|status| status.success()) {
            println!("{} stays mounted", self.0.display());
        }
    }
}
