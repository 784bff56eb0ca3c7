//! `docs/read_slots.py`, written from `docs/FORMAT.md` alone, reads this crate's files.

use std::path::Path;
use std::process::Command;

#[test]
fn a_reader_written_from_the_specification_reads_the_fixtures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fixture = |name: &str| root.join("fixtures").join(name);
    let names = [
        "block-v1.kv",
        "block-v2.kv",
        "partial-v3.kv",
        "lossy-v4.kv",
        "slot-v1.extended.bin",
        "slot-v2.extended.bin",
        "slot-v3.extended.bin",
        "slot-v4.extended.bin",
        "slot-v5.extended.bin",
    ];
    let read = Command::new("python3")
        .arg(root.join("../docs/read_slots.py"))
        .args(names.map(fixture))
        .output();
    let Ok(read) = read else {
        return eprintln!("not checked: there is no python3 here");
    };
    let said = String::from_utf8_lossy(&read.stdout);
    assert!(read.status.success(), "{said}{}", String::from_utf8_lossy(&read.stderr));
    for (line, times) in [
        ("  block ca64478763e52ad28b8f4f1bbe99a635c998b1a743e1eac6b49a805779559f9e\n", 2),
        ("  payload of 40 bytes, 40 in the file\n", 3),
        ("  rounded to 8 bits a number, 5 bytes of heads, 10 of groups\n", 1),
        ("  conversation 'room-1.a', extended\n", 5),
        ("  segment up to 3: document 'file:config.py'\n", 3),
        ("  segment up to 1: rules '', weight 50, pinned\n", 1),
        ("  segment up to 3: document 'file:config.py', weight 90\n", 1),
        ("  branch: block from 2 up to 9: b1b1", 3),
        ("  branch: snapshot from 0 up to 9: b2b2", 3),
        ("  view up to 4: whole\n  view up to 8: c1c1", 1),
        ("  away: from 2 up to 4\n", 1),
        (
            "  adapter 0101010101010101010101010101010101010101010101010101010101010101, factor 0.5\n",
            2,
        ),
        ("  7 turns\n", 4),
    ] {
        assert_eq!(said.matches(line).count(), times, "{line}{said}");
    }
}
