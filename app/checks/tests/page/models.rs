//! Switching to another model.

use hob_checks::{Hobd, Model, Page};

#[test]
fn switching_models_back_restores_the_saved_kv_cache() {
    let hobd = Hobd::start(Model::Fake);
    hobd.client.say("apples", "Say this: apples");
    let page = Page::open(&hobd);
    // The daemon restarts: requests fail for a moment.
    page.expect_complaint("net::ERR_");

    for (model, other) in [("fake:second", "fake"), ("fake", "fake:second")] {
        page.click("@to-models");
        page.until(
            "the other one runs",
            &format!("one('@model.current')?.dataset.id === '{other}'"),
        );
        page.click(&format!("@model[data-id=\"{model}\"] @run"));
        page.reads("@question", model);
        page.click("@yes");
        page.until("it runs", &format!("one('@model.current')?.dataset.id === '{model}'"));
        page.hides("@banner");
    }

    page.open_chat("Say this: apples");
    page.tool("@answer", "Regenerate");
    page.reads("@answer @siblings", "2/2");
    page.answered(1);
    let numbers = page.last_figures();
    assert!(numbers.contains("from disk") || numbers.contains(" hot"), "{numbers}");
    assert_eq!(page.last_answer(), "apples");
}

#[test]
fn the_focus_stays_in_the_page_while_another_model_is_loaded() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    // The daemon restarts: requests fail for a moment.
    page.expect_complaint("net::ERR_");
    page.open_page("models");
    page.click("@model[data-id=\"fake:second\"] @run");
    page.click("@yes");
    page.until("it runs", "one('@model.current')?.dataset.id === 'fake:second'");
    page.focuses("#content");
}
