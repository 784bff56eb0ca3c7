//! Sampling of a chat and of a profile, and prompt templates.

use hob_checks::{Hobd, Look, Model, Page};
use serde_json::{Value, json};

fn only_chat(hobd: &Hobd) -> Value {
    let list = hobd.client.get("/v1/conversations");
    let id = list["data"][0]["id"].as_str().expect("there is a chat").to_owned();
    hobd.client.get(&format!("/v1/conversations/{id}"))
}

#[test]
fn a_new_chats_sampling_counts_from_its_first_answer_and_stays() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.reads("@sampling", "Sampling");
    page.click("@sampling");
    page.click("@preset-creative");
    page.fill("[name=max_tokens]", "5");
    page.click("@save-sampling");
    page.hides("@sampling-dialog");
    page.reads("@sampling", "Own sampling");
    page.ask("Say this: abcdefghijk");
    assert_eq!(page.last_answer(), "abcde");

    let stored =
        json!({"temperature": 1.1, "min_p": 0.08, "presence_penalty": 0.3, "max_tokens": 5});
    page.until("it is stored", "one('@continue')");
    assert_eq!(only_chat(&hobd)["sampling"], stored);
    // Another client that sets nothing gets the same.
    let id = only_chat(&hobd)["id"].clone();
    let said = hobd.client.chat(&json!({"conversation": id, "hob": {"append": true},
        "messages": [{"role": "user", "content": "Say this: lmnopqrs"}]}));
    assert_eq!(said["choices"][0]["message"]["content"], "lmnop");

    page.reload();
    page.reads("@sampling", "Own sampling");
    page.click("@sampling");
    page.click("@preset-standard");
    page.click("@save-sampling");
    page.until("it is the standard", "one('@sampling').innerText.trim() === 'Sampling'");
    assert_eq!(only_chat(&hobd)["sampling"], Value::Null);
}

#[test]
fn the_parameters_are_named_in_the_language_that_is_chosen() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open_as(&hobd, Look { language: "de", ..Look::default() });
    page.click("@sampling");
    page.click("@preset-creative");
    page.put("@sampling-dialog [name=seed]", "12345");
    page.click("@save-sampling");
    page.hides("@sampling-dialog");
    let named = "Temperatur 1,1, Min p 0,08, Vorkommensstrafe 0,3, Seed 12345";
    page.until("they are named", &format!("one('@sampling').title === '{named}'"));
}

#[test]
fn a_profiles_sampling_counts_for_its_chats() {
    let hobd = Hobd::start(Model::Fake);
    hobd.write_rules("default", &["Be brief."]);
    let page = Page::open(&hobd);
    page.click("@instructions");
    page.until("it is known", "one('@profile')");
    page.click("@instructions");
    page.click("@sampling");
    page.click("@sampling-dialog label:nth-child(2) input");
    page.fill("[name=max_tokens]", "3");
    page.click("@save-sampling");
    page.hides("@sampling-dialog");
    page.reads("@sampling", "Own sampling");
    page.ask("Say this: abcdefghijk");
    assert_eq!(page.last_answer(), "abc");
    assert_eq!(only_chat(&hobd)["sampling"], Value::Null);
    let profile = hobd.client.get("/v1/profiles/default");
    assert_eq!(profile["sampling"], json!({"max_tokens": 3.0}));
    assert_eq!(profile["segments"][0]["content"], "Be brief.");
}

#[test]
fn the_standard_is_what_the_models_file_recommends() {
    let hobd = Hobd::start(Model::Bundled);
    let page = Page::open(&hobd);
    // Of a page that had a temperature of its own.
    page.script("localStorage.setItem('hob.preferences', JSON.stringify({temperature: 0.9}))");
    page.go(&hobd.origin());
    page.click("@sampling");
    page.reads("@sampling-dialog .field:has([name=temperature])", "From the model: 0.3");
    let standard = |name: &str| page.script(&format!("return one('[name={name}]').placeholder"));
    assert_eq!((standard("temperature"), standard("top_p")), (json!("0.3"), json!("1")));
    page.fill("[name=max_tokens]", "3");
    page.click("@save-sampling");
    page.hides("@sampling-dialog");
    page.ask("Hello!");
    assert_eq!(only_chat(&hobd)["sampling"], json!({"max_tokens": 3}), "no temperature is sent");
}

#[test]
fn a_slash_offers_templates_by_name_and_keys_choose_one() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.focus("@composer");
    page.write("/");
    page.until("all are offered", "all('@template').length === 6");
    page.press("Down");
    page.until("the second", "one('.template.chosen').innerText.startsWith('Explain')");
    page.press("Down");
    page.until("the third", "one('.template.chosen').innerText.startsWith('Correct')");
    let told =
        "one('@composer').getAttribute('aria-activedescendant') === one('.template.chosen').id";
    page.until("a screen reader is told", told);
    page.press("Enter");
    let third = "one('@composer').value.startsWith('Correct spelling')";
    page.until("it is in the field", third);
    assert_eq!(page.count("[aria-activedescendant]"), 0);
    page.press("Control+a");
    page.write("/");
    page.until("all are offered", "all('@template').length === 6");
    page.write("corr");
    page.until("one is left", "all('@template').length === 1");
    page.press("Enter");
    page.hides("@templates");
    let draft = page.script("return one('@composer').value");
    assert!(draft.as_str().unwrap().starts_with("Correct spelling"), "{draft}");

    page.press("Control+a");
    page.write("/st");
    page.shows("@templates");
    page.press("Escape");
    page.hides("@templates");
    page.press("Control+a");
    page.write("/usr/bin is a path");
    page.hides("@templates");
    page.press("Enter");
    page.answered(1);
    page.reads("@user", "/usr/bin is a path");
}

#[test]
fn templates_are_edited_and_shared_with_other_pages() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.edit_templates();
    page.click("@template-editor fieldset:nth-of-type(1) [aria-label='Delete Summarise']");
    page.click("@new-template");
    page.until("it is there", "all('@template-editor fieldset').length === 6");
    page.fill("@template-editor fieldset:nth-of-type(6) input", "Haiku");
    page.put("@template-editor fieldset:nth-of-type(6) textarea", "Say this: a haiku about ");
    page.click("@save-templates");
    page.hides("@template-editor");

    let other = Page::open_as(&hobd, Look { language: "de", ..Look::default() });
    other.focus("@composer");
    other.write("/");
    other.reads("@templates", "Haiku");
    assert_eq!(other.count("@template"), 6);
    other.write("haiku");
    other.until("one is left", "all('@template').length === 1");
    other.press("Tab");
    other.write("rain");
    other.press("Enter");
    other.answered(1);
    assert_eq!(other.last_answer(), "a haiku about rain");
}
