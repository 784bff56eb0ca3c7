//! The page in a narrow window.

use hob_checks::page::PAGES;
use hob_checks::{Hobd, Look, Model, Page};
use serde_json::Value;

#[test]
fn nothing_is_wider_than_a_narrow_window() {
    // German words are longer.
    for language in ["en", "de"] {
        all_pages_fit(language);
    }
}

fn all_pages_fit(language: &'static str) {
    let hobd = Hobd::start(Model::Fake);
    let long = "Donaudampfschifffahrtsgesellschaftskapitän".repeat(4);
    hobd.client.say("long", &format!(
        "Say this: {long}\n\n```\n{long}\n```\n\n| {long} | b |\n|---|---|\n| 1 | {long} |\n\nhttps://example.org/{long}"
    ));
    hobd.client.rename("long", &"long ".repeat(30));
    let page = Page::open_as(&hobd, Look { width: 400, height: 800, language, ..Look::default() });
    page.shows("@composer");
    fits(&page, "welcome");

    page.click("@show-side");
    page.click("@chat .chat-link");
    page.reads("@answer", "Donau");
    page.until("the list is out of the way", "!seen(one('.side'))");
    fits(&page, "chat");
    for (name, _) in PAGES {
        page.click("@show-side");
        page.open_page(name);
        fits(&page, name);
    }
    assert_eq!(page.count("@send"), 0);
}

#[test]
fn the_list_over_the_page_has_the_focus_until_it_closes() {
    let hobd = Hobd::with_chats(&["apples"]);
    let page = Page::open_as(&hobd, Look { width: 400, height: 800, ..Look::default() });
    page.until("the chat is known", "one('@chat')");
    page.click("@show-side");
    page.until("its chat has the focus", "document.activeElement.matches('.chat-link')");
    for _ in 0..12 {
        page.press("Tab");
        let is_behind = "return document.activeElement.closest('.page') !== null";
        assert_eq!(page.script(is_behind), false, "the page behind it has no stop");
    }
    let takes_it =
        "const link = one('.skip'); link.focus(); return document.activeElement === link";
    assert_eq!(page.script(takes_it), false, "there is no content to skip to");
    page.press("Escape");
    page.focuses("@show-side");

    // The link of a page leads to it.
    page.click("@show-side");
    page.click("@chat .chat-link");
    page.focuses("@composer");
    page.reads("@answer", "apples");
    page.until("the list is out of the way", "!seen(one('.side'))");
    // Also that of the page which is shown.
    page.click("@show-side");
    page.click("@chat .chat-link");
    page.until("the list is out of the way", "!seen(one('.side'))");

    // A window that becomes wide has no page behind.
    page.click("@show-side");
    page.show(Look::default());
    page.focus("@composer");
}

#[test]
fn a_question_about_a_chat_whose_title_is_one_long_word_fits() {
    let hobd = Hobd::with_chats(&["apples"]);
    hobd.client.rename("apples", &"Donaudampfschiff".repeat(12));
    hobd.client.patch("/v1/conversations/apples", &serde_json::json!({"trashed": true}));
    let page = Page::open_as(&hobd, Look { width: 400, height: 800, ..Look::default() });
    page.shows("@composer");
    page.click("@show-side");
    page.click("@to-trash");
    page.click("@trash-delete");
    page.reads("@question", "Donau");
    let fits = "const {scrollWidth, clientWidth} = one('dialog');
        return scrollWidth <= clientWidth + 1";
    assert_eq!(page.script(fits), true);
}

/// Names of models, and why the instructions cannot be read, are one long word.
const LONG_WORDS: &str = "
    const word = 'Qwen_2.5_'.repeat(14);
    const answer = window.fetch;
    window.fetch = async (path, ...rest) => {
        if (path === '/v1/profiles') return Response.json({ error: { message: word } }, { status: 500 });
        const response = await answer(path, ...rest);
        if (path !== '/v1/models/local') return response;
        const list = await response.json();
        for (const model of list.data) model.name = word;
        return Response.json(list);
    };";

#[test]
fn menus_and_errors_with_one_long_word_fit() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open_as(&hobd, Look { width: 400, height: 800, ..Look::default() });
    page.shows("@composer");
    page.script(LONG_WORDS);
    page.click("@model");
    page.reads("[role=menu]", "Qwen");
    let is_wide = "const {scrollWidth, clientWidth} = one('[role=menu]');
        return scrollWidth > clientWidth + 1";
    assert_eq!(page.script(is_wide), false);
    page.press("Escape");

    page.click("@show-side");
    page.click("@to-profiles");
    page.reads("@page-profiles .error", "Qwen");
    fits(&page, "an error");
}

#[test]
fn a_model_whose_name_is_one_long_word_fits() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open_as(&hobd, Look { width: 400, height: 800, ..Look::default() });
    page.shows("@composer");
    page.cdp("Page.addScriptToEvaluateOnNewDocument", &serde_json::json!({"source": LONG_WORDS}));
    page.go(&format!("{}/?#/", hobd.origin()));
    page.reads("@runs", "Qwen");
    fits(&page, "an empty chat");
    page.script("location.hash = '#/settings'");
    page.reads("@engine", "Qwen");
    fits(&page, "the settings");
}

#[test]
fn a_message_is_seen_whole_when_the_window_becomes_narrow() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    page.put("@composer", &"many words ".repeat(20));
    let before = page.script("return one('@composer').clientHeight");
    page.show(Look { width: 400, height: 800, ..Look::default() });
    becomes_higher(&page, &before);
}

#[test]
fn a_message_is_seen_whole_when_the_list_is_shown_beside_it() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open_as(&hobd, Look { width: 900, ..Look::default() });
    page.shows("@composer");
    page.press("Control+b");
    page.hides(".side");
    page.put("@composer", &"many words ".repeat(30));
    let before = page.script("return one('@composer').clientHeight");
    page.press("Control+b");
    page.shows(".side");
    becomes_higher(&page, &before);
}

/// Waits until the composer's field is higher than `before`, and as high as its text.
fn becomes_higher(page: &Page, before: &Value) {
    page.until(
        "the field is higher, and as high as its text",
        &format!(
            "(field => field.clientHeight > {before} && field.scrollHeight <= field.clientHeight + 1)(
                 one('@composer'))"
        ),
    );
}

#[test]
fn a_menu_in_a_low_window_stays_within_it() {
    let (_hobd, page) = Page::with_answers(&["apples"]);
    // 1280 x 720 at 300 %.
    page.show(Look { width: 426, height: 240, ..Look::default() });
    for menu in ["@chat-menu", "@model"] {
        page.click(menu);
        page.shows("[role=menu]");
        page.until("its items are there", "all('[role=menuitem]').length > 2");
        let is_within = "const {top, bottom, height} = one('[role=menu]').getBoundingClientRect();
            return top >= 0 && bottom <= innerHeight && height > 60";
        assert_eq!(page.script(is_within), true, "{menu}");
        page.press("Escape");
        page.hides("[role=menu]");
    }
}

#[test]
fn the_words_of_a_chat_s_state_end_with_dots_where_they_are_cut() {
    let (_hobd, page) = Page::with_answers(&["apples"]);
    page.show(Look { width: 400, height: 800, ..Look::default() });
    page.shows(".chat-facts > @state");
    // The text of a flex box is cut without them.
    let style = "getComputedStyle(one('.chat-facts > @state'))";
    page.until("it is a block", &format!("{style}.display === 'block'"));
    assert_eq!(page.script(&format!("return {style}.textOverflow")), "ellipsis");
}

/// Neither the window nor a scrolling element overflows horizontally.
fn fits(page: &Page, place: &str) {
    page.until("the list is out of the way", "!seen(one('.side'))");
    let wide = page.script(
        "return [document.documentElement, ...all('.page, .page-body, .talk, .composer')]
             .filter(e => e.scrollWidth > e.clientWidth + 1)
             .map(e => `${e.tagName}.${e.className}: ${e.scrollWidth} > ${e.clientWidth}`)",
    );
    let beyond = page.script(
        "return all('.page *').filter(e => seen(e) && e.getBoundingClientRect().right > innerWidth + 1)
             .map(e => e.outerHTML.slice(0, 160)).slice(0, 5)",
    );
    assert_eq!(wide, serde_json::json!([]), "{place}: {beyond}");
}
