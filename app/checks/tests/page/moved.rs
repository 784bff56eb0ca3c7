//! What an answer says of KV that was computed at another place.

use hob_checks::{Hobd, Model, Page};
use hob_testkit::wait;
use serde_json::{Value, json};

const BYTES: usize = 300;

/// Text in which each window occurs once.
fn document(number: usize) -> String {
    let words = (0..BYTES).map(|n| format!("{number}.{n} "));
    words.collect::<String>().chars().take(BYTES).collect()
}

#[test]
fn the_figures_of_an_answer_tell_what_was_moved_and_repaired_or_why_nothing_was() {
    let hobd = Hobd::start_with(Model::Fake, &["--ctx", "4096", "--slots", "2"]);
    let ask = |conversation: &str, order: [usize; 3], hob: Value| {
        let text = order.map(document).join("\n");
        let messages = json!([{"role": "user", "content": format!("{text}\nWhat?")}]);
        hobd.client.chat(&json!({"conversation": conversation, "messages": messages, "hob": hob,
            "temperature": 0, "max_tokens": 8}))
    };
    ask("first", [1, 2, 3], json!({}));
    wait::until("it is saved", || {
        let list = hobd.client.get("/v1/slots");
        let mut rows = list["data"].as_array()?.iter();
        rows.any(|row| row["conversation"] == "first").then_some(())
    });
    let answer = ask("moved", [3, 2, 1], json!({"reuse": "repaired"}));
    let [moved, repaired] = ["moved", "repaired"].map(|it| answer["hob"]["tokens"][it].clone());
    assert!(moved.as_u64() > Some(0) && repaired.as_u64() > Some(0), "{answer}");
    hobd.client.rename("moved", "Moved");

    let page = Page::open(&hobd);
    page.open_chat("Moved");
    page.answered(1);
    let figures = page.last_figures();
    for part in [
        format!("{moved} tokens from another place"),
        format!("Computed at the seams of moved text {repaired} tokens"),
    ] {
        assert!(figures.contains(&part), "{part}: {figures}");
    }
}
