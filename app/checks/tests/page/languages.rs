//! The page in another language.

use hob_checks::{Hobd, Look, Model, Page};

#[test]
fn who_reads_german_gets_german() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open_as(&hobd, Look { language: "de", ..Look::default() });

    page.reads(".side", "Noch keine Chats");
    assert_eq!(page.script("return document.documentElement.lang"), "de");
    page.ask("Say this: Guten Tag");
    let numbers = page.last_numbers();
    assert!(numbers.contains("berechnet"), "{numbers}");

    page.click("@to-settings");
    page.click("@like-language");
    page.write("English\n");
    page.until("it can be changed", "document.documentElement.lang === 'en'");
    page.reads("@page-settings", "Language");
}

#[test]
fn every_string_is_in_every_language() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");

    let missing = page.run_async(
        "const done = arguments[0];
         const read = name => fetch(`/strings/${name}.json`).then(file => file.json());
         Promise.all(['en', 'de'].map(read)).then(([en, de]) => {
             const only = (a, b) => Object.keys(a).filter(key => !(key in b));
             done([...only(en, de), ...only(de, en)]);
         }, error => done(String(error)));",
        &[],
    );
    assert_eq!(missing.expect("the strings load"), serde_json::json!([]));
}
