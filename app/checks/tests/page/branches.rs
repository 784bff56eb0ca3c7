//! Messages are a tree: nothing that was said is ever lost.

use hob_checks::{Hobd, Model, Page};

#[test]
fn an_edited_question_begins_a_branch_and_the_old_one_stays() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.ask("Say this: first");
    page.ask("Say this: second");

    page.tool("@user:nth-child(1)", "Edit and send again");
    page.shows(".edit textarea");
    page.press("Control+a");
    page.write("Say this: another first");
    page.press("Enter");
    page.until("the branch is there", "all('@answer').length === 1 && !one('@live')");
    assert_eq!(page.last_answer(), "another first");
    page.reads("@user @siblings", "2/2");

    page.tool("@user:nth-child(1)", "Branch before");
    page.answered(2);
    assert_eq!(page.texts("@answer .text"), ["first", "second"]);
    page.reads("@user @siblings", "1/2");

    // What was chosen is where it goes on, here and elsewhere.
    page.go(&hobd.origin());
    page.open_chat("Say this: first");
    page.answered(2);
    assert_eq!(page.texts("@answer .text"), ["first", "second"]);
}

#[test]
fn another_answer_stands_beside_the_first_and_shares_what_stands_before_it() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.ask("Tell me something.");

    page.tool("@answer", "Answer again");
    page.reads("@answer @siblings", "2/2");
    page.answered(1);
    page.reads("@answer @siblings", "shares");

    let second = page.last_answer();
    page.tool("@answer", "Branch before");
    page.reads("@answer @siblings", "1/2");
    page.tool("@answer", "Branch after");
    page.reads("@answer @siblings", "2/2");
    assert_eq!(page.last_answer(), second);
}

#[test]
fn a_cold_answer_reuses_nothing_and_says_so() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.ask("Say this: the same");
    page.ask("Say this: once more");
    assert!(page.last_numbers().contains(" hot"), "{}", page.last_numbers());

    page.tool("@answer:nth-child(4)", "Answer this turn cold: reuse nothing, to compare");
    page.reads("@answer:nth-child(4) @siblings", "2/2");
    page.answered(2);

    let numbers = page.last_numbers();
    assert!(numbers.starts_with("cold"), "{numbers}");
    for word in [" hot", "from memory", "from disk"] {
        assert!(!numbers.contains(word), "{numbers}");
    }
    assert_eq!(page.last_answer(), "once more");
}
