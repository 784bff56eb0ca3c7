//! A view of a document looks its tokens up: the text is tokenized once for each way of writing it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::text;

use crate::common::{Plan, World};

const DOCUMENTS: usize = 20;

fn add(world: &World, of: &str, query: &str) -> Value {
    let path = format!("/v1/documents?name={of}.txt&{query}");
    world.call("POST", &path).body(text(of)).send().json()
}

fn list(world: &World, query: &str) -> Vec<Value> {
    let list = world.get(&format!("/v1/documents{query}")).json();
    list["data"].as_array().unwrap().clone()
}

fn tokens(rows: &[Value]) -> Vec<u64> {
    rows.iter().map(|row| row["tokens"].as_u64().unwrap()).collect()
}

fn set_instructions(world: &World, text: &str) {
    world.profile("clerk", &format!("[[segment]]\nlayer = 'rules'\ntext = '{text}'\n"));
    world.reload();
}

#[test]
fn a_view_tokenizes_no_text_again() {
    let tokenized = Arc::new(AtomicUsize::new(0));
    let counted = |view: &dyn Fn()| {
        let before = tokenized.load(Ordering::Relaxed);
        view();
        tokenized.load(Ordering::Relaxed) - before
    };
    let directory = tempfile::tempdir().unwrap();
    let plan = || Plan::new().directory(directory.path()).tokenized_bytes(tokenized.clone());
    let mut world = plan().start();
    let add_all = || (0..DOCUMENTS).map(|n| add(&world, &format!("castle-{n}"), "")).collect();
    let added: Vec<Value> = add_all();
    let secret = add(&world, "secret", "keep=private");
    let text_bytes = text("castle-0").trim_end().len();
    assert_eq!(added[0]["bytes"].as_u64().unwrap(), text_bytes as u64);

    let again = counted(&|| {
        let rows = list(&world, "");
        assert_eq!(rows.len(), DOCUMENTS);
        assert!(rows.iter().all(|row| added.contains(row)), "{rows:?}");
        let path = format!("/v1/documents/{}", secret["id"].as_str().unwrap());
        assert_eq!(world.get(&path).json(), secret);
    });
    assert_eq!(again, 0, "bytes of text");

    world.stop();
    drop(world);
    let world = plan().start();
    let after_a_restart = counted(&|| assert_eq!(list(&world, "").len(), DOCUMENTS));
    assert!(after_a_restart < text_bytes, "{after_a_restart}");

    // Other instructions in front are another prompt.
    let plain = tokens(&list(&world, ""));
    let words = ["Be brief.", "Be as brief as you can."];
    let longer = words.map(|words| {
        set_instructions(&world, words);
        let rows = tokens(&list(&world, "?profile=clerk"));
        let again = counted(&|| assert_eq!(tokens(&list(&world, "?profile=clerk")), rows));
        assert_eq!(again, 0, "bytes of text");
        rows
    });
    for (row, plain) in plain.into_iter().enumerate() {
        assert!(plain < longer[0][row] && longer[0][row] < longer[1][row], "{longer:?}");
    }
}
