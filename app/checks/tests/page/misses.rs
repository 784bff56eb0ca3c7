//! Explanations of cache misses.

use hob_checks::{Hobd, Model, Page};
use serde_json::json;

#[test]
fn a_miss_is_explained_with_both_texts_side_by_side() {
    let hobd = Hobd::start(Model::Fake);
    for time in ["10:41", "10:52"] {
        let system =
            format!("You are Ember. It is {time}. Keep every answer short, whatever is asked.");
        hobd.client.post(
            "/v1/chat/completions",
            &json!({"conversation": "clock", "messages": [
                {"role": "system", "content": system},
                {"role": "user", "content": "Say this: at once"},
            ]}),
        );
    }
    hobd.client.rename("clock", "Clock");
    let page = Page::open(&hobd);
    page.open_chat("Clock");

    page.last_figures();
    page.click("@why");
    page.shows("@miss");
    assert_eq!(page.count("@miss figure"), 2);
    page.reads("@miss figure:first-child mark", "41");
    page.reads("@miss figure:last-child mark", "52");
}
