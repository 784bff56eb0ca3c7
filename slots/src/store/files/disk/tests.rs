use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::store::files::{read_all, write_all};

fn world() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

fn put(path: &Path, bytes: &[u8]) {
    write_all(&mut *Disk.create(path).unwrap(), bytes).unwrap();
}

#[test]
fn a_written_file_is_read_and_listed() {
    let (_dir, path) = world();
    Disk.make_dir(&path.join("sub")).unwrap();
    put(&path.join("file"), b"words");
    assert_eq!(read_all(&*Disk.open(&path.join("file")).unwrap(), 100).unwrap(), b"words");
    assert_eq!(read_all(&*Disk.open(&path.join("file")).unwrap(), 2).unwrap(), b"wo");
    let mut listed = Disk.list(&path).unwrap();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    let kinds: Vec<_> = listed.iter().map(|e| (e.name.to_str().unwrap(), e.kind)).collect();
    assert_eq!(kinds, [("file", Kind::File), ("sub", Kind::Dir)]);
    assert!(Disk.free_bytes(&path).unwrap() > 0);
}

#[test]
fn a_file_that_is_removed_while_its_directory_is_listed_does_not_end_the_list() {
    let (_dir, path) = world();
    put(&path.join("file"), b"words");
    let kind_of = |name: &str| unix::kind_at(&path.join(name)).unwrap();
    assert_eq!((kind_of("file"), kind_of("gone")), (Some(Kind::File), None));
}

#[test]
fn a_lock_names_its_holder_and_ends_with_it() {
    let (_dir, path) = world();
    let lock = Disk.lock(&path.join("lock")).unwrap();
    let Err(LockError::Held(by)) = Disk.lock(&path.join("lock")) else { panic!("it was free") };
    assert_eq!(by, format!("pid {}", std::process::id()));
    drop(lock);
    assert!(Disk.lock(&path.join("lock")).is_ok());
}

#[test]
fn no_symbolic_link_is_followed() {
    use std::os::unix::fs::symlink;
    let (_dir, path) = world();
    Disk.make_dir(&path.join("real")).unwrap();
    put(&path.join("real/file"), b"secret");
    symlink(path.join("real/file"), path.join("link")).unwrap();
    symlink(path.join("real"), path.join("dir")).unwrap();

    let error = Disk.open(&path.join("link")).err().unwrap();
    assert!(error.to_string().contains("symbolic link"), "{error}");
    assert_eq!(Disk.stat(&path.join("link")).unwrap().kind, Kind::Other);
    for refused in [
        Disk.list(&path.join("dir")).map(drop),
        Disk.sync_dir(&path.join("dir")),
        Disk.touch(&path.join("link"), SystemTime::now()),
        Disk.lock(&path.join("link")).map(drop).map_err(|_| io::ErrorKind::Other.into()),
        Disk.create(&path.join("link")).map(drop),
    ] {
        assert!(refused.is_err());
    }
    if cfg!(target_os = "linux") {
        assert!(Disk.open(&path.join("dir/file")).is_err());
        assert!(Disk.create(&path.join("dir/new")).is_err());
        assert!(Disk.remove(&path.join("dir/file")).is_err());
        assert!(Disk.rename(&path.join("real/file"), &path.join("dir/other")).is_err());
    }
    assert!(Disk.open(&path.join("real/file")).is_ok());
}

#[test]
fn a_pipe_is_refused_without_waiting_for_its_writer() {
    let (_dir, path) = world();
    let pipe = path.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    assert_eq!(Disk.open(&pipe).unwrap().facts().unwrap().kind, Kind::Other);
}
