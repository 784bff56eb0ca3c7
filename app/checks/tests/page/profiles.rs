//! What prompts begin with, as it is edited.

use hob_checks::chat::slowly;
use hob_checks::{Hobd, Model, Page};

const RULES: &str = "Keep every answer short. Use plain words. Ask when something is unclear.";

#[test]
fn a_profile_is_written_saved_and_made_warm() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.click("@to-profiles");

    page.click("@new-profile");
    page.shows("@question");
    page.write("home\n");
    page.fill("@content", "You are Ember, a calm home assistant.");
    page.shows("@prefix-figures");
    page.click("@save-profile");
    page.until("it is warm", "one('@warmth')?.dataset.state === 'warm'");

    // What is added behind it computes nothing of what stands before.
    page.click("@add-text");
    page.until("there are two", "all('@segment').length === 2");
    page.fill("@segment:last-of-type @content", RULES);
    page.shows("@computed");
    page.reads("@profile-foot", "will be computed");
    page.click("@save-profile");
    page.until("it is warm again", "one('@warmth')?.dataset.state === 'warm' && !one('@computed')");
    let status = hobd.client.get("/v1/status");
    let prefix = &status["prefixes"][0];
    let [tokens, computed] =
        ["tokens", "computed_tokens"].map(|name| prefix[name].as_u64().unwrap());
    assert!(computed >= RULES.len() as u64 && computed < tokens, "{prefix}");

    let kept = std::fs::read_to_string(hobd.directory().join("profiles/home.toml")).unwrap();
    assert!(kept.contains(RULES), "{kept}");
    // A chat that begins with it finds it hot.
    page.press("Alt+n");
    page.put("@profile", "home");
    page.ask("Hello");
    let numbers = page.last_numbers();
    assert!(numbers.contains(" hot"), "{numbers}");
}

#[test]
fn a_word_that_changes_is_pointed_out_where_it_costs_something() {
    let hobd = Hobd::start(Model::Fake);
    let segment = |text: &str| format!("[[segment]]\nlayer = \"rules\"\ntext = {text:?}\n\n");
    let text = segment("Today is 2026-11-21.") + &segment(RULES);
    hobd.write_profile("dated", &text);
    let page = Page::open(&hobd);
    page.click("@to-profiles");
    page.click("@profile-row");

    page.reads("@volatile", "2026-11-21");
    page.click("@behind");
    page.until(
        "it stands behind what stays",
        "one('@segment:last-of-type @content')?.value.includes('2026')",
    );
    page.until("it may change", "!one('@segment:last-of-type @stable').checked");
    page.hides("@volatile");
    page.click("@save-profile");
    page.reads("@toast", "saved");
}

#[test]
fn whoever_writes_while_a_profile_becomes_warm_is_not_disturbed() {
    let hobd = Hobd::start(Model::Fake);
    hobd.write_profile("home", "[[segment]]\nlayer = \"rules\"\ntext = \"Be brief.\"\n");
    let page = Page::open(&hobd);
    page.send(&slowly(200));
    page.reads("@live", "word");
    page.click("@to-profiles");
    page.click("@profile-row");
    page.fill("@content", RULES);
    page.reads("@profile-foot", "will be computed");
    page.click("@save-profile");
    page.reads("@toast", "saved");

    page.click("@content");
    page.script("window.field = one('@content')");
    page.until("it is warm", "one('@warmth')?.dataset.state === 'warm'");

    assert_eq!(page.script("return window.field === document.activeElement"), true);
}
