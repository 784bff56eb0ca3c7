//! Learned prefixes: shown on the Profiles page, and forgotten with one click.

use hob_checks::{Hobd, Model, Page};
use hob_testkit::wait;
use serde_json::json;

const RULES: &str =
    "You are the porter of a small hotel by the sea. Answer in one short sentence. ";

#[test]
fn a_learned_prefix_is_shown_and_forgotten_with_one_click() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.open_page("profiles");
    page.shows("@page-profiles");
    page.hides("@learned");
    let rules = RULES.repeat(6);
    for question in ["Is there breakfast?", "How late is it?", "Where is the beach?"] {
        hobd.client.chat(&json!({"max_tokens": 4, "messages": [
            {"role": "system", "content": rules}, {"role": "user", "content": question},
        ]}));
    }
    wait::until("it is learned", || {
        let learned = hobd.client.get("/v1/learned");
        (learned["data"][0]["state"] == "warm").then_some(())
    });

    page.script("location.reload()");
    page.reads("@learned-row", "You are the porter");
    page.reads("@learned-row", "3 conversations this week");
    page.reads("@learned-row", "hot");
    page.click("@learned-row @forget");
    page.hides("@learned");
    assert_eq!(hobd.client.get("/v1/learned")["data"], json!([]));
}
