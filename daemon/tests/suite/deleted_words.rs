//! The words of deleted conversations leave the index of the search while hobd runs.

use std::fs;

use hob_testkit::wait;

use crate::common::home::Home;

/// No other trigram begins with the same character, so the index has its bytes in a row.
const TRIGRAM: &str = "☃☄★";

fn is_in_database(home: &Home) -> bool {
    ["transcripts.sqlite", "transcripts.sqlite-wal"].iter().any(|name| {
        let bytes = fs::read(home.path().join("data").join(name)).unwrap_or_default();
        bytes.windows(TRIGRAM.len()).any(|part| part == TRIGRAM.as_bytes())
    })
}

#[test]
fn the_words_of_a_deleted_conversation_leave_the_database_without_a_request() {
    let home = Home::on_fake();
    let hobd = home.start();
    hobd.client.say("other", "Hello there");
    hobd.client.say("snow", &format!("a {TRIGRAM} of snow"));
    assert!(is_in_database(&home));
    let deleted = hobd.client.call("DELETE", "/v1/conversations/snow").send();
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    wait::until("its words are gone", || (!is_in_database(&home)).then_some(()));
}
