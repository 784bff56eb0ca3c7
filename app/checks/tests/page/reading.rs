//! The time between a message and its answer.

use hob_checks::{Hobd, Look, Model, Page};

/// On the fake model each token of it takes 4 ms.
fn long_question() -> String {
    format!("Read this slowly: {}", "one more word ".repeat(60))
}

#[test]
fn a_prompt_shows_how_far_it_is_read_and_its_blocks() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);

    page.send(&long_question());
    page.shows("@reading");
    page.until(
        "some of it is read",
        "/^Reading [1-9]\\d* of \\d{3} tokens/.test(one('@reading')?.innerText)",
    );
    page.until("the time is told", "/, \\d+ s left$/m.test(one('@reading')?.innerText)");
    let bar = "one('@reading [role=progressbar]')";
    page.until("its blocks too", &format!("{bar}?.querySelector('.computed, .coming')"));
    page.until(
        "it is a progress bar",
        &format!("Number({bar}?.getAttribute('aria-valuenow')) > 0"),
    );
    page.answered(1);
    assert_eq!(page.count("@reading"), 0);

    // What is remembered is there at once.
    page.send(&long_question());
    page.until("the blocks are ready at once", &format!("{bar}?.querySelector('.shared')"));
    page.answered(2);
}

#[test]
fn stopping_while_a_prompt_is_read_says_so_at_once() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);

    page.send(&long_question());
    page.until("it reads", "one('@reading')?.dataset.phase === 'reading'");
    let said = page.script(
        "one('@stop').click();
         return new Promise(done => setTimeout(() => done(
           [one('@reading')?.innerText, one('@stop')?.disabled, one('@stop')?.title]), 90))",
    );
    assert_eq!(said, serde_json::json!(["Stopping", true, "Stopping"]));
    page.shows("@send");
    page.hides("@reading");
}

#[test]
fn a_german_page_reads_german_progress() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open_as(&hobd, Look { language: "de", ..Look::default() });
    page.send(&long_question());
    page.until(
        "it is told",
        "/^\\d+ von \\d{3} Token gelesen, noch \\d+ s/.test(one('@reading')?.innerText)",
    );
    page.click("@stop");
    page.answered(1);
}

#[test]
fn a_chat_from_disk_is_remembered_block_by_block() {
    let mut hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_it_away();
    page.ask(&format!("Say this: {}", "word ".repeat(60)));
    hobd.restart();
    page.script(
        "window.seen = new Set();
         new MutationObserver(() => all('.prompt-cell').forEach(cell => seen.add(cell.className)))
           .observe(document.body, { childList: true, subtree: true, attributes: true })",
    );
    // The page has not noticed the restart: nothing was restored ahead.
    page.tool("@answer", "Answer again");
    page.reads("@answer @siblings", "2/2");
    page.answered(1);
    page.until("its blocks came from disk", "seen.has('prompt-cell disk')");
    assert!(page.last_numbers().ends_with("tokens remembered"), "{}", page.last_numbers());
}
