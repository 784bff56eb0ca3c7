//! Which text of a prompt is moved: none that begins it as before, and also what the same conversation had.

use serde_json::json;

use super::{BYTES, HEAD, ask, check_sum, document, save_documents, start, tokens, wait_saved};

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

#[test]
fn a_short_text_that_was_read_first_is_computed_behind_another_and_others_are_moved() {
    // Short together with the question behind it.
    const SHORT: usize = 200;
    let (nothing, third) = (String::new(), format!("{}\n", document(3)));
    // What was read in front of the text, how much of it, and its head, if it is moved.
    for (in_front, length, head) in
        [(&nothing, SHORT, None), (&nothing, BYTES, Some(HEAD)), (&third, SHORT, Some(48))]
    {
        let directory = tempfile::tempdir().unwrap();
        let hobd = start(directory.path());
        let read = &document(1)[..length];
        let ask = |conversation: &str, in_front: &str| {
            let text = format!("{in_front}{read}\nWhat?");
            let messages = json!([{"role": "user", "content": text}]);
            hobd.client.chat(&json!({"conversation": conversation, "messages": messages,
                "temperature": 0, "max_tokens": 8, "hob": {"reuse": "repaired"}}))
        };
        ask("first", in_front);
        wait_saved(&hobd);
        let answer = ask("other", &format!("{}\n", document(2)));
        check_sum(&answer);
        let [moved, repaired] = ["moved", "repaired"].map(|place| tokens(&answer, place));
        assert_eq!(repaired, head.unwrap_or(0), "{answer}");
        match head {
            Some(head) => assert!(moved >= length as u64 - head, "{answer}"),
            None => assert_eq!(moved, 0, "{answer}"),
        }
    }
}
