//! Chats after a restart of the daemon.

use hob_checks::{Hobd, Model, Page};

#[test]
fn a_chat_reopens_from_disk_after_a_restart_and_says_so() {
    let mut hobd = Hobd::start(Model::Bundled);
    let page = Page::open_greedy(&hobd);
    page.expect_it_away();
    page.ask("My locker code is 48213.");

    hobd.restart();
    page.go(&hobd.origin());
    page.is_state("@chat @state", "ready");
    page.open_chat("My locker code is 48213.");
    let answer = page.ask("What is my locker code?");

    assert!(answer.contains("48213"), "{answer}");
    let numbers = page.last_figures();
    // Restored ahead of the question or with it.
    assert!(numbers.contains("from disk"), "{numbers}");
    page.is_state("@chat @state", "ready");
}

#[test]
fn a_question_right_after_a_restart_shows_the_tokens_from_disk() {
    let mut hobd = Hobd::start(Model::Bundled);
    let page = Page::open_greedy(&hobd);
    page.expect_it_away();
    page.ask("My locker code is 48213.");
    let before = page.ask("What is my locker code?");

    hobd.restart();
    // The page has not noticed the restart: nothing was restored ahead.
    page.tool("@answer:nth-child(4)", "Regenerate");
    page.reads("@answer:nth-child(4) @siblings", "2/2");
    page.answered(2);

    assert!(before.contains("48213") && page.last_answer().contains("48213"));
    let numbers = page.last_figures();
    assert!(numbers.contains("from disk"), "{numbers}");
}
