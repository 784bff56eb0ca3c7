//! The settings of model and disk: what each costs, what is in force when, and what a flag locks.

use hob_checks::{Hobd, Look, Model, Page};
use serde_json::{Value, json};

fn setting(hobd: &Hobd, key: &str) -> Value {
    let list = hobd.client.get("/v1/settings");
    let mut settings = list["data"].as_array().unwrap().iter();
    settings.find(|setting| setting["key"] == key).cloned().unwrap()
}

#[test]
fn a_larger_context_says_its_bytes_and_is_loaded_without_losing_a_chat() {
    let hobd = Hobd::start(Model::Fake);
    hobd.client.say("apples", "Say this: apples");
    let page = Page::open(&hobd);
    page.expect_it_away();
    page.open_page("settings");
    page.reads("@engine @context-takes", "8,192 tokens");
    page.reads("@engine", "loads the model again");
    let before = page.text("@engine @context-takes");
    page.hides("@settings-apply");

    page.script(
        "const slider = one('@engine @context');
         slider.value = Number(slider.value) + 1;
         slider.dispatchEvent(new Event('input', { bubbles: true }))",
    );
    page.reads("@engine @context-takes", "16,384 tokens");
    assert_ne!(page.text("@engine @context-takes"), before);
    page.reads("@settings-apply", "chats and what they remember stay");
    page.click("@settings-save");
    page.reads("@toast", "Saved");
    page.hides("@settings-apply");
    page.reads("@engine @context-takes", "16,384 tokens");
    assert_eq!(hobd.client.get("/v1/status")["context_tokens"], 16_384);
    let file = std::fs::read_to_string(hobd.directory().join("hob.toml")).unwrap();
    assert!(file.contains("ctx = 16384"), "{file}");

    page.open_chat("Say this: apples");
    page.tool("@answer", "Regenerate");
    page.reads("@answer @siblings", "2/2");
    assert_eq!(page.last_answer(), "apples");
}

#[test]
fn the_slider_of_the_context_stays_as_wide_while_it_is_moved() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.open_page("settings");
    page.reads("@engine @context-takes", "8,192 tokens");
    let width = || page.script("return one('@engine @context').getBoundingClientRect().width");
    let before = width();
    page.script(
        "const slider = one('@engine @context');
         slider.value = Number(slider.value) + 1;
         slider.dispatchEvent(new Event('input', { bubbles: true }))",
    );
    page.reads("@engine @context-takes", "16,384 tokens");
    assert_eq!(width(), before);
}

#[test]
fn the_slider_of_the_context_has_room_at_a_large_text_size() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open_as(&hobd, Look { width: 400, height: 800, ..Look::default() });
    page.shows("@composer");
    page.cdp("Page.setFontSizes", &json!({"fontSizes": {"standard": 32}}));
    let size = "parseFloat(getComputedStyle(document.documentElement).fontSize)";
    page.until("the page follows", &format!("Math.abs({size} - 30) < 0.01"));
    page.script("location.hash = '#/settings'");
    page.shows("@engine");
    page.until("it can be moved", "one('@engine @context').clientWidth > 40");
}

#[test]
fn changes_that_are_discarded_leave_the_focus_in_their_section() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.open_page("settings");
    page.put("@set-slots", "7");
    page.click("@settings-apply button");
    page.hides("@settings-apply");
    page.until("the focus is there", "one('@engine').contains(document.activeElement)");
}

#[test]
fn how_long_chats_stay_ready_and_the_disk_quota_apply_at_once() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.open_page("settings");
    page.reads("@storage", "applies at once");
    page.put("@set-default_ttl", "extended");
    page.reads("@toast", "Saved");
    assert_eq!(setting(&hobd, "default_ttl")["value"], "extended");
    page.until("it shows it", "one('@set-default_ttl').value === 'extended'");

    page.reads("@storage", "free on the disk");
    page.click("@quota-change");
    page.fill("@quota-gib", "2");
    page.click("@quota-save");
    page.reads("@storage @quota-words", "You set it to 2");
    page.hides("@settings-apply");
}

#[test]
fn the_times_for_which_kv_stays_ready_are_those_of_the_settings() {
    let hobd = Hobd::start_with(Model::Fake, &["--ttl-short", "30m", "--ttl-extended", "36h"]);
    hobd.write_rules("kitchen", &["Be brief."]);
    let page = Page::open(&hobd);
    page.open_page("settings");
    page.shows("@set-default_ttl");
    let times = ["while there is room", "36 hours", "1 hour", "30 minutes"];
    assert_eq!(page.texts("@set-default_ttl option"), times);

    page.open_page("profiles");
    page.click("@profile-row");
    let options = "all('.profile-head select option').map((option) => option.textContent.trim())";
    let shown = format!("JSON.stringify({options}) === JSON.stringify({})", json!(times));
    page.until("the instructions have them too", &shown);
}

#[test]
fn a_quota_with_decimals_is_typed() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.open_page("settings");
    page.click("@quota-change");
    page.fill("@quota-gib", "1.5");
    assert_eq!(page.script("return one('@quota-gib').value"), "1.5");
    page.click("@quota-save");
    page.reads("@storage @quota-words", "You set it to 1.5 GiB");
}

#[test]
fn a_setting_of_a_flag_is_locked_with_the_flag_s_name() {
    let hobd = Hobd::start_with(Model::Fake, &["--ctx", "4096", "--default-ttl", "long"]);
    let page = Page::open(&hobd);
    page.open_page("settings");
    page.reads("@engine @locked", "flag --ctx");
    page.reads("@storage @locked", "flag --default-ttl");
    assert_eq!(page.script("return one('@engine @context').disabled"), true);
    assert_eq!(page.script("return one('@set-default_ttl').disabled"), true);
    // On the Models page too.
    page.open_page("models");
    page.reads("@model", "flag --ctx");
}

#[test]
fn the_models_page_overrides_a_flag_for_this_run_and_says_so() {
    let hobd = Hobd::start_with(Model::Fake, &["--model", "fake"]);
    let page = Page::open(&hobd);
    page.expect_it_away();
    page.open_page("models");
    page.reads("@page-models", "flag --model chooses the model at each start");
    page.click("@model[data-id=\"fake:second\"] @run");
    page.reads("@question", "until Hob stops");
    page.click("@yes");
    page.reads("@toast", "until Hob stops");
    page.until("it runs", "one('@model.current')?.dataset.id === 'fake:second'");
}
