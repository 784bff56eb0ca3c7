//! The line above every page.

use hob_checks::answers::status_with;
use hob_checks::{Hobd, Look, Model, Page};
use serde_json::json;

/// The status of a daemon that loads a model, whose name is one long word.
fn loading() -> String {
    let model = "Qwen_2.5_".repeat(14);
    status_with(&json!({"residency": "loading", "loaded_percent": 40, "model": model}))
}

#[test]
fn the_words_beside_its_progress_have_their_room() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    page.script(&loading());
    page.shows("@banner progress");
    page.reads("@banner", "Loading Qwen");

    // Three lines of the 992 pixels beside the list.
    let is_low = "const {width, height} = one('@banner .grow').getBoundingClientRect();
        return width > 600 && height < 70";
    assert_eq!(page.script(is_low), true);
    page.show(Look { width: 400, height: 800, ..Look::default() });
    page.until(
        "it fits into a narrow window",
        "(({scrollWidth, clientWidth}) => clientWidth <= 400 && scrollWidth <= clientWidth + 1)(one('@banner'))",
    );
}

#[test]
fn a_screen_reader_knows_its_place_before_it_has_words() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    assert_eq!(page.count("@banner"), 0);
    page.script("one('.page > [role=status]').dataset.isKnown = true");
    page.script(&loading());
    page.shows("[data-is-known] > @banner");
}
