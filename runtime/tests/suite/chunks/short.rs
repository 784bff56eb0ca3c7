//! Short texts: by default, one whose KV knows none of the texts before it is computed whole.

use hob_runtime::{Reuse, TurnRequest};
use hob_slots::content::Repair;
use hob_slots::content::repair::{HEAD, SHORT_HEAD};

use super::{TOKENS, document, repaired, text};
use crate::support::*;

/// A text that is short together with the question behind it; one of [`TOKENS`] is not.
const SHORT: usize = 200;

#[test]
fn by_default_a_short_text_that_saw_only_the_prompts_beginning_is_computed_and_others_are_moved() {
    let model = fake();
    let head = Repair::HeadByLength;
    // What was read in front of the text, how long it is, and its head, if it is moved.
    for (read_before, length, repair, moved_head) in [
        (None, SHORT, Repair::default(), None),
        (None, SHORT, head, Some(SHORT_HEAD)),
        (None, TOKENS, Repair::default(), Some(HEAD)),
        (Some(document(3)), SHORT, Repair::default(), Some(SHORT_HEAD)),
    ] {
        let tiers = OnDisk::new(&model);
        let behind = |before: Option<String>| {
            let before = before.map(|before| format!("{before}\n")).unwrap_or_default();
            tokens(&model, &user(&format!("{before}{}\nWhat?", text(1, length))))
        };
        let what = format!("{repair} of {length} tokens behind {read_before:?}");
        let (first, other) = (behind(read_before), behind(Some(document(2))));
        ask(&tiers.engine, request("first", &first, 8));
        settle(&tiers.engine);
        let asked = TurnRequest { reuse: Reuse::Repaired(repair), ..repaired("other", &other) };
        let answer = ask(&tiers.engine, asked);
        check_sum(&answer, &other);
        let counts = answer.report.tokens;
        assert_eq!(counts.repaired, moved_head.unwrap_or(0), "{what}: {counts:?}");
        if let Some(head) = moved_head {
            assert!(counts.moved >= length - head, "{what}: {counts:?}");
        } else {
            assert_eq!(counts.moved, 0, "{what}: {counts:?}");
            assert_eq!(answer.tokens, alone(&model, &other, 8), "all of it is exact");
        }
    }
}
