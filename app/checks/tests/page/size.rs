//! What a browser loads for a chat with its first message, and when it loads the rest.

use hob_checks::{Browser, Hobd, Look, Model, Page};
use serde_json::{Value, json};

/// The other pages are loaded when the browser is idle: here it never is.
const NEVER_IDLE: &str = "window.requestIdleCallback = () => {};";

/// Of the files of the page: their paths, and the bytes that came.
const LOADED: &str = "
    const entries = ['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind));
    const own = entries.filter(({name}) => !name.includes('/v1/'));
    return own.map(({name, encodedBodySize}) => [new URL(name).pathname, encodedBodySize])";

const MAX_BYTES: u64 = 120_000;

#[test]
fn a_chat_with_its_first_message_loads_less_than_120_000_bytes() {
    let hobd = Hobd::start(Model::Fake);
    for language in ["en", "de"] {
        let page = page_never_idle(language);
        page.go(&hobd.address_of_the_page());
        page.shows("@composer");
        page.ask("Say this: **hello**");
        page.shows("@answer strong");

        let files = loaded(&page);
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"/vendor/markdown-it.js"), "{names:?}");
        let later = ["/pages/", "/strings/later/", "/style/pages.css", "/chat/all-figures.js"];
        let early: Vec<_> =
            names.iter().filter(|name| later.iter().any(|part| name.contains(part))).collect();
        assert!(early.is_empty(), "{early:?}");
        // A debug build sends each style by itself, and comments.
        let is_release = !names.contains(&"/style/tokens.css");
        let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        println!("{language}: {bytes} bytes in {} files", files.len());
        assert!(!is_release || bytes < MAX_BYTES, "{language}: {bytes} bytes: {files:?}");
    }
}

#[test]
fn what_is_opened_for_the_first_time_has_its_texts() {
    let hobd = Hobd::start(Model::Fake);
    let page = page_never_idle("de");
    page.go(&hobd.address_of_the_page());
    page.shows("@composer");
    page.ask("Say this: hallo");
    assert!(!loaded(&page).iter().any(|(name, _)| name.contains("/later/")));

    page.press("Alt+2");
    page.reads("@page-memory", "Deine Chats");
    page.script("location.hash = '#/settings'");
    page.reads("@page-settings", "Aussehen");
    page.click("@like-language");
    page.write("E\n"); // One letter: see `languages.rs`.
    page.reads("@page-settings", "Appearance");
}

fn page_never_idle(language: &'static str) -> Page {
    let page = Page::of(Browser::chromium(Look { language, ..Look::default() }));
    page.cdp("Page.addScriptToEvaluateOnNewDocument", &json!({"source": NEVER_IDLE}));
    page
}

fn loaded(page: &Page) -> Vec<(String, u64)> {
    let Value::Array(files) = page.script(LOADED) else { panic!("a list of files") };
    let file = |file: &Value| Some((file[0].as_str()?.to_owned(), file[1].as_u64()?));
    files.iter().map(|entry| file(entry).expect("a path and its bytes")).collect()
}
