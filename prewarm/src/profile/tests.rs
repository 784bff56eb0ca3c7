use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use hob_slots::content::Accepted;
use hob_slots::reanchor::Beyond;
use hob_slots::{Layer, TtlClass};
use proptest::prelude::*;

use super::*;

const PROFILE: &str = r#"
[[segment]]
layer = "identity"
text = """
You are Ember.
"""

[[segment]]
layer = "capabilities"
tools = "tools.json"

[[segment]]
layer = "context"
key = "house"
file = "house.md"

[[segment]]
layer = "context"
file = "/run/now.txt"
stable = false

[[segment]]
layer = "affect"
text = "Be calm."
"#;

const TOOLS: &str = r#"[{"type": "function", "function": {"name": "set_light"}}]"#;

#[test]
fn the_prefix_ends_at_the_first_unstable_segment() {
    let profile = World::usual().load(PROFILE).unwrap();
    assert_eq!(profile.ttl, TtlClass::Extended);
    assert_eq!(profile.stable_text(), "You are Ember.\n\nTwo rooms.\n\nOne door.");
    assert_eq!(profile.tail_text(), "12:00\n\nBe calm.");
    let keys: Vec<_> = profile.segments.iter().map(|segment| segment.key.as_str()).collect();
    assert_eq!(keys, ["segment 1", "file:tools.json", "house", "file:now.txt", "segment 5"]);
    assert_eq!(profile.segments[4].layer, Layer::Affect);
}

#[test]
fn tools_come_in_declared_order_with_sorted_keys() {
    let files = [
        ("/p/a.json", r#"[{"type": "function", "function": {"name": "z", "description": "Z"}}]"#),
        ("/p/b.json", r#"[{"function": {"name": "a"}, "type": "function"}]"#),
    ];
    let text = "[[segment]]\nlayer = 'capabilities'\ntools = 'a.json'\n\
                [[segment]]\nlayer = 'capabilities'\ntools = 'b.json'";
    let tools = World::new(&files).load(text).unwrap().tools();
    let tools: Vec<_> = tools.iter().map(ToString::to_string).collect();
    assert_eq!(
        tools,
        [
            r#"{"function":{"description":"Z","name":"z"},"type":"function"}"#,
            r#"{"function":{"name":"a"},"type":"function"}"#,
        ]
    );
}

#[test]
fn an_outline_lists_its_files_before_they_are_read() {
    let files = Outline::parse(PROFILE).unwrap().files(Path::new("/p"));
    let files: Vec<_> = files.iter().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(files, ["/p/tools.json", "/p/house.md", "/run/now.txt"]);
}

#[test]
fn the_first_changed_segment_is_found() {
    let world = World::usual();
    let before = world.load(PROFILE).unwrap();
    let change = |text: &str, world: &World| {
        let after = world.load(text).unwrap();
        after.first_change(&before).map(|segment| segment.key.clone())
    };
    assert_eq!(change(PROFILE, &world), None);
    assert_eq!(change(&PROFILE.replace("Ember", "Ash"), &world).as_deref(), Some("segment 1"));
    let moved = World::usual().file("/p/house.md", "Three rooms.");
    assert_eq!(change(PROFILE, &moved).as_deref(), Some("house"));
    let longer = format!(
        "{}\n{}",
        &PROFILE[..PROFILE.find("[[segment]]\nlayer = \"context\"\nkey").unwrap()],
        "[[segment]]\nlayer = 'rules'\nkey = 'new'\ntext = 'x'"
    );
    assert_eq!(change(&longer, &world).as_deref(), Some("new"));
}

#[test]
fn a_changed_tail_leaves_the_prefix_unchanged() {
    let before = World::usual().load(PROFILE).unwrap();
    let later = World::usual().file("/run/now.txt", "12:01").load(PROFILE).unwrap();
    assert_ne!(before, later);
    assert_eq!(later.first_change(&before), None);
}

#[test]
fn a_budget_of_cells_is_no_part_of_the_prefix() {
    let world = World::usual();
    let before = world.load(PROFILE).unwrap();
    let after = world.load(&format!("budget = 4096\n{PROFILE}")).unwrap();
    assert_eq!((before.budget, after.budget), (None, NonZeroUsize::new(4096)));
    assert_eq!(after.first_change(&before), None);
}

#[test]
fn which_kv_its_answers_may_use_is_no_part_of_the_prefix() {
    let world = World::usual();
    let before = world.load(PROFILE).unwrap();
    let after = world.load(&format!("reuse = \"repaired\"\n{PROFILE}")).unwrap();
    assert_eq!((before.reuse, after.reuse), (None, Some(Accepted::Repaired)));
    assert_eq!(after.first_change(&before), None);
}

#[test]
fn what_becomes_of_an_outgrown_conversation_is_no_part_of_the_prefix() {
    let world = World::usual();
    let before = world.load(PROFILE).unwrap();
    let after = world.load(&format!("beyond = \"reanchor\"\n{PROFILE}")).unwrap();
    assert_eq!((before.beyond, after.beyond), (None, Some(Beyond::Reanchor)));
    assert_eq!(after.first_change(&before), None);
}

#[test]
fn whether_its_answers_are_drafted_is_no_part_of_the_prefix() {
    let world = World::usual();
    let before = world.load(PROFILE).unwrap();
    let after = world.load(&format!("draft = false\n{PROFILE}")).unwrap();
    assert_eq!((before.draft, after.draft), (None, Some(false)));
    assert_eq!(after.first_change(&before), None);
}

#[test]
fn limits_of_reuse_are_no_part_of_the_prefix_and_have_defaults() {
    let world = World::usual();
    let before = world.load(PROFILE).unwrap();
    let after = world.load(&format!("reuse_limits.divergence = 0.02\n{PROFILE}")).unwrap();
    assert_eq!(before.reuse_limits, ReuseLimits { divergence: 0.05, agreement: 0.95 });
    assert_eq!(after.reuse_limits, ReuseLimits { divergence: 0.02, agreement: 0.95 });
    assert_eq!(after.first_change(&before), None);
}

#[test]
fn a_reordered_tool_schema_is_no_change() {
    let before = World::usual().load(PROFILE).unwrap();
    let other = r#"[ {"function": {"name": "set_light"}, "type": "function"} ]"#;
    let after = World::usual().file("/p/tools.json", other).load(PROFILE).unwrap();
    assert_eq!(after, before);
}

#[test]
fn each_mistake_is_reported_with_its_place_and_a_remedy() {
    for (text, expected) in [
        ("", "no [[segment]]"),
        ("ttl = 'forever'\n", "line 1: unknown variant `forever`"),
        ("name = 'x'\n", "line 1: unknown field `name`"),
        ("budget = 0\n", "line 1: invalid value: integer `0`"),
        ("reuse = 'often'\n", "line 1: unknown variant `often`"),
        ("beyond = 'here'\n", "line 1: unknown variant `here`"),
        ("draft = 'off'\n", "line 1: invalid type: string"),
        ("[reuse_limits]\nagreement = 1.5\n", "`agreement` must be from 0 to 1, not 1.5"),
        ("[reuse_limits]\ndivergence = -1.0\n", "`divergence` must be 0 or more nats a token"),
        ("reuse_limits = { kl = 1 }\n", "line 1: unknown field `kl`"),
        ("budget = '4096'\n", "line 1: invalid type: string"),
        ("[[segment]]\nlayer = 'axioms'\ntxt = 'x'\n", "line 3: unknown field `txt`"),
        ("[[segment]]\nlayer = 'user'\ntext = 'x'\n", "line 2: unknown variant `user`"),
        ("[[segment]]\ntext = 'x'\n", "missing field `layer`"),
        ("[[segment]]\nlayer = 'axioms'\n", "segment 1: give it a `text`"),
        (
            "[[segment]]\nlayer = 'axioms'\ntext = 'x'\nfile = 'y'\n",
            "segment 1: it has several sources",
        ),
        ("[[segment]]\nlayer = 'axioms'\ntext = ' '\n", "segment 1: its `text` is empty"),
        (
            "[[segment]]\nlayer = 'capabilities'\ntools = 'x'\nstable = false\n",
            "leave `stable = false` out",
        ),
        ("[[segment]]\nlayer = 'axioms'\nkey = ''\ntext = 'x'\n", "its key must have"),
        ("[[segment]]\nlayer = 'axioms'\ntext = 'x\n", "line 3"),
    ] {
        let error = Outline::parse(text).expect_err(text).to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{text:?}: {error}");
    }
}

#[test]
fn a_text_in_a_wrong_place_is_in_no_error() {
    for text in [
        "segment = 'You are Ember.'\n",
        "[[segment]]\nlayer = 'rules'\nstable = 'You are \", expected Ember.'\n",
    ] {
        let error = Outline::parse(text).unwrap_err().to_string();
        assert!(error.contains("invalid type: string, expected a"), "{error}");
        assert!(!error.contains("Ember"), "{error}");
    }
}

#[test]
fn an_unusable_file_is_named_with_the_remedy() {
    let file = "[[segment]]\nlayer = 'rules'\nfile = 'f'\n";
    let tools = "[[segment]]\nlayer = 'capabilities'\ntools = 'f'\n";
    let large = "x".repeat(MAX_FILE_BYTES + 1);
    for (profile, content, expected, remedy) in [
        (file, None, "/p/f cannot be read", "correct the path"),
        (file, Some(" \n"), "/p/f is empty", "fill it"),
        (file, Some(large.as_str()), "/p/f is larger than 1 MiB", "divide it"),
        (tools, Some("[{"), "/p/f is not JSON", "correct it"),
        (tools, Some("{}"), "/p/f has no tools", "write an array"),
        (tools, Some("[]"), "/p/f has no tools", "write an array"),
        (tools, Some("[1]"), "/p/f has no tools", "write an array"),
    ] {
        let files: Vec<_> = content.map(|content| ("/p/f", content)).into_iter().collect();
        let error = World::new(&files).load(profile).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(remedy), "{error}");
    }
}

#[test]
fn an_unstable_file_may_be_empty() {
    let profile = World::usual().file("/run/now.txt", "").load(PROFILE).unwrap();
    assert_eq!(profile.tail_text(), "Be calm.");
}

proptest! {
    #[test]
    fn no_text_breaks_the_parser(text in "\\PC{0,200}") {
        let _ = Outline::parse(&text);
        let _ = Outline::parse(&format!("[[segment]]\nlayer = 'rules'\n{text}"));
    }
}

struct World(BTreeMap<PathBuf, Vec<u8>>);

impl World {
    fn new(files: &[(&str, &str)]) -> Self {
        let bytes = |&(path, text): &(&str, &str)| (PathBuf::from(path), text.as_bytes().to_vec());
        Self(files.iter().map(bytes).collect())
    }

    fn usual() -> Self {
        Self::new(&[
            ("/p/tools.json", TOOLS),
            ("/p/house.md", "Two rooms.\n\nOne door.\n"),
            ("/run/now.txt", "12:00\n"),
        ])
    }

    fn file(mut self, path: &str, text: &str) -> Self {
        self.0.insert(PathBuf::from(path), text.as_bytes().to_vec());
        self
    }

    fn load(&self, text: &str) -> Result<Profile, ProfileError> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let read = |path: &Path| self.0.get(path).cloned().ok_or_else(missing);
        Profile::load(&Outline::parse(text)?, Path::new("/p"), read)
    }
}
