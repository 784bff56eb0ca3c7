//! Conversations and documents that are deleted where daemons share them.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use hob_testkit::{files, wait};
use serde_json::json;

use super::{World, ask_about, contains, messages, say};

#[test]
fn a_deleted_conversation_leaves_the_place_and_a_private_one_never_enters_it() {
    let world = World::new();
    let first = world.start("one");
    first.client.chat(&json!({
        "conversation": "secret", "hob": {"append": true, "private": true},
        "messages": [{"role": "user", "content": "CANARY in private"}],
    }));
    say(&first.client, "talk", 0);
    world.until_published(&first.client, 1);
    let all: Vec<u8> =
        files::below(&world.shared()).iter().flat_map(|file| fs::read(file).unwrap()).collect();
    assert!(contains(&all, b"slowly"), "the text is clear where the slots directory is");
    assert!(!contains(&all, b"CANARY"));
    assert!(
        files::below(&world.shared()).iter().all(|file| !file.to_string_lossy().contains("secret"))
    );
    assert_eq!(first.client.call("DELETE", "/v1/conversations/talk").send().status, 200);
    assert_eq!(files::below(&world.shared()), Vec::<PathBuf>::new());
    assert_eq!(world.start("two").client.call("GET", "/v1/conversations/talk").send().status, 404);
}

#[test]
fn a_conversation_that_the_place_alone_has_is_deleted_there() {
    let world = World::new();
    let (first, second) = (world.start("one"), world.start("two"));
    say(&first.client, "talk", 0);
    world.until_published(&first.client, 1);
    let delete = || second.client.call("DELETE", "/v1/conversations/talk").send();
    let deleted = delete();
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert_eq!(files::below(&world.shared()), Vec::<PathBuf>::new());
    assert_eq!(delete().status, 404);
}

#[test]
fn a_removed_document_leaves_the_place_and_its_conversation_stays() {
    let world = World::new();
    let first = world.start("one");
    let id = ask_about(&first.client, "CANARY in the castle. ");
    world.until_published(&first.client, 1);
    let has_canary = || {
        let files = files::below(&world.shared());
        let all: Vec<u8> = files.iter().flat_map(|file| fs::read(file).unwrap()).collect();
        contains(&all, b"CANARY")
    };
    assert!(has_canary());

    let removed = first.client.call("DELETE", &format!("/v1/documents/{id}")).send();
    assert_eq!(removed.status, 200, "{}", removed.text());
    world.until_published(&first.client, 2);
    assert!(!has_canary());
    let is_kv = |file: &PathBuf| file.extension().is_some_and(|it| it == "kv" || it == "bin");
    let kv: Vec<PathBuf> = files::below(&world.shared()).into_iter().filter(is_kv).collect();
    assert_eq!(kv, Vec::<PathBuf>::new(), "it contained the text");
    assert_eq!(messages(&world.start("two").client, "talk"), 2);
}

#[test]
fn a_conversation_comes_back_to_the_place_where_the_removal_of_its_document_failed() {
    let world = World::new();
    let first = world.start("one");
    let id = ask_about(&first.client, "The castle has seven doors. ");
    world.until_published(&first.client, 1);
    let has_text = || {
        let files = files::below(&world.shared());
        files.iter().any(|file| file.extension().is_some_and(|it| it == "json"))
    };
    assert!(has_text());

    // The text is deleted there first. The folders of KV cannot be listed then.
    let link = world.shared().join("kv/loop");
    std::os::unix::fs::symlink("loop", &link).unwrap();
    let path = format!("/v1/documents/{id}");
    let refused = first.client.call("DELETE", &path).send();
    assert_eq!((refused.status, &refused.error()["code"]), (503, &json!("shared_tier")));
    fs::remove_file(&link).unwrap();
    wait::until("its text is there again", || has_text().then_some(()));
    assert_eq!(first.client.call("GET", &path).send().status, 200, "the document stays, too");
}

#[test]
fn a_private_conversation_ends_while_the_trash_waits_for_a_place_that_fails() {
    let world = World::new();
    let launch = world.daemon("one").with_clock();
    let first = launch.start();
    first.client.chat(&json!({
        "conversation": "secret", "hob": {"append": true, "private": true},
        "messages": [{"role": "user", "content": "CANARY in private"}],
    }));
    say(&first.client, "talk", 0);
    world.until_published(&first.client, 1);
    let trashed = first.client.call("PATCH", "/v1/conversations/talk");
    assert_eq!(trashed.json(&json!({"trashed": true})).send().status, 200);
    let away = world.shared().with_extension("away");
    // hobd creates a place that is missing: it must not see the moment between two changes.
    first.process.stopped_while(|| {
        fs::rename(world.shared(), &away).unwrap();
        fs::write(world.shared(), "no directory").unwrap();
    });
    launch.pass(Duration::from_secs(25 * 3600));
    let status =
        |id: &str| first.client.call("GET", &format!("/v1/conversations/{id}")).send().status;
    wait::until("the private one has ended", || (status("secret") == 404).then_some(()));
    assert_eq!(status("talk"), 200, "the place may still have it");
}
