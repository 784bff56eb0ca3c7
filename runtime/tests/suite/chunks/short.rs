//! Short texts: by default, one whose KV knows none of the texts before it is computed whole.

use hob_runtime::{Reuse, TurnRequest};
use hob_slots::Token;
use hob_slots::content::Repair;
use hob_slots::content::repair::{HEAD, SHORT_HEAD};

use super::{TOKENS, behind_a_longer_turn, document, repaired, text};
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

/// The cache is full when a part of the text is in its cells. The rest of it has seen no more than the whole text.
#[test]
fn a_turn_that_gives_up_its_cells_within_such_a_text_computes_the_rest_of_it_too() {
    let (fast, directory) = (fake(), empty_directory());
    let behind = |before: &str| tokens(&fast, &user(&format!("{before}{}\nWhat?", text(1, SHORT))));
    let (first, other) = (behind(""), behind(&format!("{}\n", text(2, 150))));
    let long = vec![Token(97); 744];
    {
        let roomy = engine(&fast, Some(directory.path()), options());
        ask(&roomy, request("first", &first, 8));
        ask(&roomy, request("long", &long, 1));
        settle(&roomy);
    }

    let answer = behind_a_longer_turn(&directory, &long, &other);
    assert_eq!(answer.report.tokens.moved, 0, "{:?}", answer.report.tokens);
    assert_eq!(answer.tokens, alone(&fast, &other, 8), "all of it is exact");
}
