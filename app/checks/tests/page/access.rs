//! Accessibility: axe-core on every page, in light and dark; motion and screen readers.

use hob_checks::chat::slowly;
use hob_checks::page::PAGES;
use hob_checks::{Hobd, Look, Model, Page, axe};

#[test]
fn axe_finds_nothing_serious_on_any_page() {
    for dark in [false, true] {
        let hobd = Hobd::start(Model::Bundled);
        hobd.write_rules("dated", &["Today is 2026-11-21."]);
        let page = Page::open_as(&hobd, Look { dark, still: true, ..Look::default() });
        page.shows("@composer");
        check(&page, "welcome", dark);

        page.ask("My locker code is 48213.");
        page.ask("What is my locker code?");
        page.tool("@answer:nth-child(4)", "Regenerate");
        page.reads("@siblings", "2/2");
        check(&page, "chat", dark);

        page.press("Control+f");
        page.shows("@find");
        page.write("code");
        page.reads("@find-count", "of");
        check(&page, "find", dark);
        page.press("Escape");
        page.tool("@answer:nth-child(2)", "Edit the answer");
        check(&page, "edit", dark);
        page.press("Escape");
        page.click("@sampling");
        page.shows("@sampling-dialog");
        check(&page, "sampling", dark);
        page.press("Escape");
        page.focus("@composer");
        page.write("/");
        page.shows("@templates");
        check(&page, "templates", dark);
        page.click("@edit-templates");
        page.shows("@template-editor");
        check(&page, "template editor", dark);
        page.press("Escape");
        page.click("@chat-menu");
        check(&page, "menu", dark);
        page.press("Escape");
        page.choose("@chat-menu", "Rename");
        page.shows("@question");
        check(&page, "question", dark);
        page.press("Escape");
        page.choose("@chat-menu", "Delete");
        page.shows("@toast");
        check(&page, "toast", dark);

        for (name, _) in PAGES {
            page.open_page(name);
            check(&page, name, dark);
        }
        page.click("@to-profiles");
        page.click("@profile-row");
        page.shows("@volatile");
        check(&page, "profile", dark);
        page.click("@to-memory");
        page.click("@prune");
        page.reads("@prune-preview", ".");
        check(&page, "pruning", dark);
        page.press("Escape");
        page.press("?");
        page.shows("@help");
        check(&page, "help", dark);

        page.expect_complaint("401"); // The page may send a request between the two.
        page.script("localStorage.clear(); location.reload()");
        page.shows("@connect");
        check(&page, "connect", dark);
    }
}

#[test]
fn axe_finds_nothing_serious_in_the_first_steps_and_in_changed_settings() {
    for dark in [false, true] {
        let hobd = Hobd::start_with(Model::Fake, &["--default-ttl", "long"]);
        let page = Page::open_as(&hobd, Look { dark, still: true, ..Look::default() });
        page.open_page("models");
        page.click("@first-steps");
        page.shows("@suggestion");
        check(&page, "first steps", dark);
        page.save_picture(if dark { "first-dark" } else { "first-light" });
        page.open_page("settings");
        page.put("@set-slots", "2");
        page.shows("@settings-apply");
        page.shows("@locked");
        check(&page, "settings", dark);
        page.save_picture(if dark { "settings-dark" } else { "settings-light" });
        page.open_page("profiles");
        page.click("@new-profile");
        page.write("!\n");
        page.shows("@question-problem");
        check(&page, "a name", dark);
    }
}

fn check(page: &Page, place: &str, dark: bool) {
    let findings = axe::serious_findings(page);
    let look = if dark { "dark" } else { "light" };
    assert!(findings.is_empty(), "{place}, {look}:\n{}", findings.join("\n"));
}

#[test]
fn reduced_motion_stops_every_animation() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open_as(&hobd, Look { still: true, ..Look::default() });
    page.send(&slowly(200));
    page.reads("@live", "word");

    let moving = "return document.getAnimations().filter(a => a.playState === 'running' &&
        a.effect.getComputedTiming().duration > 10).length";
    assert_eq!(page.script(moving), 0);

    page.show(Look::default());
    page.until("with motion the cursor blinks", "document.getAnimations().length > 0");
}

#[test]
fn a_screen_reader_announces_that_an_answer_began() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    page.script(
        "window.said = new Set();
         new MutationObserver(() => all('[aria-live]').forEach(e => said.add(e.textContent.trim())))
             .observe(document.body, {childList: true, subtree: true, characterData: true})",
    );
    page.send(&slowly(60));

    page.until("a live region says it", "[...said].some(it => it.includes('Hob is answering'))");
    page.answered(1);
}

#[test]
fn a_screen_reader_hears_no_older_answer_again_when_a_message_fails() {
    let mut hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_it_away();
    page.ask("Say this: before");
    let said = "all('.talk > [aria-live]')[0].textContent.trim()";
    page.until("the answer is said", &format!("{said} === 'before'"));
    hobd.kill();
    page.send("Say this: after");
    page.shows("@failure");
    assert_eq!(page.script(&format!("return {said}")), "");
}
