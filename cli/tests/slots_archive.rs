//! `hob slots export` and `import`.

mod common;
#[path = "common/saved.rs"]
mod saved;

use std::fs;

use common::Home;
use saved::{files, objects, saved_home};

#[test]
fn an_archive_moves_a_conversation_to_another_machine() {
    let (here, there) = (saved_home(), Home::new());
    let file = here.path("rooms.tar");
    let file = file.to_str().unwrap();
    let output = here.hob(&["slots", "export", "room-1", "room-3", "-o", file]).ok();
    assert!(output.contains("2 conversations, 30 objects"), "{output}");
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    here.hob(&["slots", "export", "room-1", "-o", file]).fails(2, &["--force"]);

    there.hob(&["slots", "import", file]).fails(7, &[file, "abababababababab", "--keep-foreign"]);
    let done = there.hob(&["slots", "import", file, "--keep-foreign", "--json"]).json();
    assert_eq!(done["imported"].as_array().unwrap().len(), 2);
    there.hob(&["slots", "show", "room-1", "--verify"]).ok();
    there.hob(&["slots", "verify"]).ok();
    assert!(
        there.hob(&["slots", "ls"]).ok().contains("extended"),
        "the archive carries the TTL class"
    );

    let again = there.hob(&["slots", "import", file]);
    assert!(again.err.contains("room-1 skipped") && again.err.contains("--force"), "{again:?}");
    assert!(again.ok().contains("0 conversations imported"));
    let forced = there.hob(&["slots", "import", file, "--force", "--class", "kept"]).ok();
    assert!(forced.contains("room-3: 1,280 tokens, permanent"), "{forced}");
}

#[test]
fn an_export_leaves_other_files_as_they_are_and_no_part_of_its_own() {
    let home = saved_home();
    let rooms = home.path("archives");
    fs::create_dir(&rooms).unwrap();
    fs::write(rooms.join("rooms.tar.part"), "mine").unwrap();
    let file = rooms.join("rooms.tar");
    let export = ["slots", "export", "room-1", "-o", file.to_str().unwrap()];
    home.hob(&export).ok();
    assert_eq!(fs::read_to_string(rooms.join("rooms.tar.part")).unwrap(), "mine");
    fs::remove_file(objects(&home).remove(0)).unwrap();
    home.hob(&[&export[..], &["--force"]].concat()).fails(5, &["rooms.tar"]);
    assert_eq!(fs::read_dir(&rooms).unwrap().count(), 2);
}

#[test]
fn an_export_onto_a_link_replaces_the_file_that_it_names() {
    let home = saved_home();
    let archives = home.path("archives");
    fs::create_dir(&archives).unwrap();
    let (real, link) = (archives.join("real.tar"), home.path("rooms.tar"));
    fs::write(&real, "old").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    home.hob(&["slots", "export", "room-1", "-o", link.to_str().unwrap(), "--force"]).ok();
    assert!(link.is_symlink());
    assert_ne!(fs::read(&real).unwrap(), b"old");
    assert_eq!(fs::read_dir(&archives).unwrap().count(), 1, "no part of a file is left");
}

#[cfg(target_os = "linux")] // Other systems refuse such a name.
#[test]
fn an_archive_whose_name_is_not_utf_8_is_reported_as_json() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let home = saved_home();
    let file = home.path("").join(OsStr::from_bytes(b"caf\xe9.tar"));
    let mut export = home.command(&["slots", "export", "room-1", "--json", "-o"]);
    let output = export.arg(&file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(done["file"].as_str().unwrap().ends_with("caf\u{fffd}.tar"), "{done}");
}

#[test]
fn a_bad_archive_changes_nothing() {
    let home = saved_home();
    let file = home.path("rooms.tar");
    let file = file.to_str().unwrap();
    here_export(&home, file);
    let before = files(&home);
    let mut archive = fs::read(file).unwrap();
    archive[9_000] ^= 1;
    fs::write(file, &archive).unwrap();
    home.hob(&["slots", "import", file, "--force"]).fails(5, &[file, "damaged"]);
    fs::write(file, &archive[..5_000]).unwrap();
    home.hob(&["slots", "import", file, "--force"]).fails(5, &[file]);
    fs::write(file, "PK").unwrap();
    let what =
        [file, "it is a ZIP archive", "a tar that begins with manifest.toml", "`hob import`"];
    home.hob(&["slots", "import", file, "--force"]).fails(5, &what);
    home.hob(&["slots", "import", "/nowhere.tar"]).fails(1, &["/nowhere.tar"]);
    assert_eq!(files(&home), before);
    let empty = Home::new();
    assert_ne!(empty.hob(&["slots", "import", file]).code, 0);
    assert!(!empty.path("data").exists(), "a bad archive creates no directory");
}

#[test]
fn a_damaged_conversation_is_not_exported() {
    let home = saved_home();
    let out = home.path("out.tar");
    let words = ["slots", "export", "room-1", "-o", out.to_str().unwrap()];
    fs::remove_file(&objects(&home)[3]).unwrap();
    home.hob(&words).fails(5, &["room-1", "not whole", "hob slots verify"]);
    assert!(!out.exists() && !home.path("out.tar.part").exists());
    let unknown = ["slots", "export", "nobody", "-o", out.to_str().unwrap()];
    home.hob(&unknown).fails(4, &["hob: no KV of `nobody`", "hob slots ls"]);
}

fn here_export(home: &Home, file: &str) {
    home.hob(&["slots", "export", "room-1", "-o", file]).ok();
}
