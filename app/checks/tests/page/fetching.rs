//! The first steps with a package index on loopback: suggestions, the download by the press of a button,
//! its progress, and what is said when it fails.

use hob_checks::{Hobd, Model, Page, tools};
use hob_testkit::registry::{Behaviour, Registry, serve_model};
use hob_testkit::wait;

fn first_steps(behaviour: Behaviour) -> (Hobd, Registry, Page) {
    let mut registry = None;
    let model = tools::root().join("assets/fixtures/qwen2.gguf");
    let hobd = Hobd::start_changed(Model::Fake, &[], |launch, directory| {
        let (launch, served) = serve_model(launch, directory, &model, behaviour);
        registry = Some(served);
        launch
    });
    let page = Page::open(&hobd);
    page.open_page("models");
    page.click("@first-steps");
    page.shows("@suggestion");
    (hobd, registry.unwrap(), page)
}

#[test]
fn a_press_downloads_the_suggested_model_and_chooses_it() {
    let held = Behaviour { is_held: true, ..Behaviour::default() };
    let (_hobd, registry, page) = first_steps(held);
    page.reads("@suggestion", "tokens a second");
    page.reads("@suggestion", "Apache-2.0");
    page.shows("@model-page");
    let exact = page.script(
        "return all('@suggestion').map(it => /(about )?[\\d.,]+ [KMG]i?B, and/.exec(it.innerText)[1] === undefined)",
    );
    assert_eq!(
        exact,
        serde_json::json!([true, false, false]),
        "other files are known by three digits"
    );
    assert_eq!(registry.requests().len(), 0, "nothing is fetched before the press");

    page.click("@fetch");
    page.reads("@fetching", "of");
    registry.release();
    page.shows("@is-here");
    page.until("it is chosen", "one('.choice.chosen')?.innerText.includes('Stand-In')");
    page.click("@first-next");
    page.shows("@fit");
}

#[test]
fn a_model_that_comes_while_another_step_is_shown_is_among_the_choices() {
    let held = Behaviour { is_held: true, ..Behaviour::default() };
    let (hobd, registry, page) = first_steps(held);
    page.click("@fetch");
    page.shows("@fetching");
    page.click("@first-next");
    page.hides("@suggestion");
    registry.release();
    let state = || hobd.client.get("/v1/models/fetch")["state"].clone();
    wait::until("it has come", || (state() == "done").then_some(()));
    page.click("@first > :last-child > button:first-child");
    page.until("it is chosen", "one('.choice.chosen')?.innerText.includes('Stand-In')");
}

#[test]
fn a_download_is_cancelled_and_begun_again() {
    let stalls = Behaviour { stalls_after: Some(100_000), ..Behaviour::default() };
    let (hobd, _registry, page) = first_steps(stalls);
    page.click("@fetch");
    page.until("bytes arrive", "one('@fetching progress')?.value > 0");
    page.click("@fetch-cancel");
    page.reads("@fetch", "Try again");
    assert_eq!(hobd.client.get("/v1/models/fetch")["state"], "cancelled");
    page.focuses("@fetch");
    page.press("Enter");
    page.shows("@fetching");
    page.focuses("@fetch-cancel");
    page.press("Enter");
    page.shows("@fetch");
}

#[test]
fn other_bytes_are_refused_and_the_page_says_another_way() {
    let (_hobd, _registry, page) =
        first_steps(Behaviour { flips_a_bit: true, ..Behaviour::default() });
    page.click("@fetch");
    page.reads("@fetch-failed", "SHA-256");
    page.reads("@fetch-failed", "Open its page");
    page.reads("@fetch-failed", "data/models");
    page.reads("@fetch", "Try again");
}

#[test]
fn a_registry_that_cannot_be_reached_is_named_with_the_link() {
    let hobd = Hobd::start_changed(Model::Fake, &[], |launch, _| {
        launch.env("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    });
    let page = Page::open(&hobd);
    page.open_page("models");
    page.click("@first-steps");
    page.click("@fetch");
    page.reads("@fetch-failed", "The registry cannot be reached");
    page.click("@fetch-failed a");
    page.reads("@question", "https://huggingface.co/");
}
