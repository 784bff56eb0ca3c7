//! The time between a message and its answer.

use hob_checks::page::quoted;
use hob_checks::{Hobd, Look, Model, Page};

/// On the fake model each token of it takes 4 ms.
fn long_question() -> String {
    format!("Read this slowly: {}", "one more word ".repeat(60))
}

/// Records from here on what the place of the answer shows, however briefly.
fn watch(page: &Page) {
    page.script(
        "window.told = []; window.drawn = new Set(); window.reached = 0;
         new MutationObserver(() => {
           const reading = one('@reading');
           if (!reading) return;
           told.push(reading.querySelector('p').textContent);
           reading.querySelectorAll('.prompt-cell').forEach(cell => drawn.add(cell.className));
           const bar = reading.querySelector('[role=progressbar]');
           reached = Math.max(reached, Number(bar?.getAttribute('aria-valuenow') ?? 0));
         }).observe(document.body,
           { childList: true, subtree: true, attributes: true, characterData: true })",
    );
}

fn was_told(page: &Page, pattern: &str) {
    page.until(pattern, &format!("told.some(text => new RegExp({}).test(text))", quoted(pattern)));
}

fn was_drawn(page: &Page, kind: &str) {
    page.until(kind, &format!("drawn.has({})", quoted(&format!("prompt-cell {kind}"))));
}

#[test]
fn a_prompt_shows_how_far_it_is_read_and_its_blocks() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    watch(&page);

    page.send(&long_question());
    was_told(&page, r"^Reading \d+ of \d{3} tokens, \d+ s left$");
    was_drawn(&page, "coming");
    was_drawn(&page, "computed");
    page.until("the bar has a value", "reached > 0");
    page.answered(1);
    assert_eq!(page.count("@reading"), 0);

    page.send(&long_question());
    was_drawn(&page, "shared");
    page.answered(2);
}

#[test]
fn stopping_while_a_prompt_is_read_says_so_at_once() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);

    watch(&page);
    page.send(&long_question());
    page.shows("@reading");
    page.script("one('@stop').click()");
    was_told(&page, "^Stopping$");
    page.shows("@send");
    page.hides("@reading");
}

#[test]
fn a_german_page_reads_german_progress() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open_as(&hobd, Look { language: "de", ..Look::default() });
    watch(&page);
    page.send(&long_question());
    was_told(&page, r"^\d+ von \d{3} Token gelesen, noch \d+ s$");
    page.answered(1);
}

#[test]
fn a_chat_from_disk_is_remembered_block_by_block() {
    let mut hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_it_away();
    page.ask(&format!("Say this: {}", "word ".repeat(60)));
    page.ask("Say this: and more");
    hobd.restart();
    watch(&page);
    // The page has not noticed the restart, and no key has reached the composer: nothing was restored
    // ahead.
    page.tool("@user:nth-child(3)", "Edit");
    page.put(".edit textarea", &long_question());
    page.press("Enter");
    page.reads("@user:nth-child(3) @siblings", "2/2");
    page.answered(2);
    was_drawn(&page, "disk");
    was_drawn(&page, "computed");
    assert!(page.last_numbers().contains("tokens remembered"), "{}", page.last_numbers());
}
