//! Conversations as files.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::common::Home;
use super::fake::Daemon;

#[test]
fn a_conversation_is_exported_in_the_format_of_the_files_name() {
    let home = Home::new();
    let path = "GET /v1/conversations/room-1/export?format=";
    let list = json!({"data": [{"id": "room-1", "title": "The cat"}]});
    let _daemon = Daemon::new(&home)
        .answer("GET /v1/conversations", 200, list)
        .raw(&format!("{path}json"), 200, "{}".to_owned())
        .raw(&format!("{path}markdown"), 200, "# The cat\n".to_owned())
        .raw(&format!("{path}archive"), 200, "a tar".to_owned());
    fs::create_dir(home.path("files")).unwrap();
    let export = |conversation: &str, name: &str, words: &[&str]| {
        let file = home.path("files").join(name);
        let export = ["conversations", "export", conversation, "-o", file.to_str().unwrap()];
        home.hob(&[&export[..], words].concat())
    };
    for (name, text) in [("a.json", "{}"), ("a.md", "# The cat\n"), ("a.tar", "a tar")] {
        let said = export("the cat", name, &[]).ok();
        assert!(said.starts_with("exported the cat to /") && said.contains(name), "{said}");
        let file = home.path("files").join(name);
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    export("room-1", "a.md", &[]).fails(2, &["a.md exists already", "--force"]);
    let done = export("room-1", "a.md", &["--force", "--json"]).json();
    assert_eq!((&done["format"], &done["bytes"]), (&json!("markdown"), &json!(10)));
    export("room-1", "a.txt", &[]).fails(2, &["a.txt", ".json, .md, .tar"]);
    export("nobody", "b.md", &[]).fails(4, &["nobody", "hob conversations"]);
    assert_eq!(fs::read_dir(home.path("files")).unwrap().count(), 3, "no part of a file is left");
}
