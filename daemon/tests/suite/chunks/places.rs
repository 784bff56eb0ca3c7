//! Which text of a prompt is moved: none that begins it as before, and also what the same conversation had.

use serde_json::json;

use super::{BYTES, HEAD, ask, check_sum, save_documents, start, tokens};

#[test]
fn the_beginning_that_a_prompt_shares_is_reused_exactly_and_only_what_is_behind_it_is_moved() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    save_documents(&hobd);
    let answer = ask(&hobd, Some("other"), &[1, 3, 2], json!({"reuse": "repaired"}));
    check_sum(&answer);
    let exact: u64 = ["shared", "memory", "disk"].iter().map(|place| tokens(&answer, place)).sum();
    assert!(exact >= BYTES as u64, "the first document: {answer}");
    let moved = tokens(&answer, "moved");
    assert!(moved > 2 * (BYTES as u64 - 40) && moved <= 2 * BYTES as u64, "{answer}");
    assert_eq!(tokens(&answer, "repaired"), 2 * HEAD, "{answer}");
}

#[test]
fn what_a_conversation_keeps_behind_a_summary_of_the_rest_is_moved() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    save_documents(&hobd);
    // Its client has put the fourth text in place of the first two.
    let answer = ask(&hobd, Some("first"), &[4, 3], json!({"reuse": "repaired"}));
    check_sum(&answer);
    assert!(tokens(&answer, "moved") > BYTES as u64 - 40, "the third document: {answer}");
    assert_eq!(tokens(&answer, "repaired"), HEAD, "{answer}");
    assert!(tokens(&answer, "computed") >= BYTES as u64, "the fourth one: {answer}");
}
