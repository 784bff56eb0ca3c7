//! The head of a chat, its empty page, and where the focus goes.

use hob_checks::chat::slowly;
use hob_checks::page::PAGES;
use hob_checks::{Hobd, Look, Model, Page};
use hob_testkit::wait;
use serde_json::{Value, json};

#[test]
fn a_click_renames_a_chat_in_place() {
    let (hobd, page) = Page::with_answers(&["apples"]);

    page.click("@title button");
    page.focuses("@title-field");
    page.write("Fruit");
    page.press("Escape");
    page.reads("@title", "Say this: apples");
    page.focuses("@title button");

    page.press("Enter");
    page.shows("@title-field");
    page.write("Fruit");
    page.press("Enter");
    page.reads("@title", "Fruit");
    page.reads("@chat", "Fruit");
    assert_eq!(page.count("dialog"), 0);
    // The list shows it before the daemon has it: leaving the page would cancel the request.
    let id = chat_id(&hobd);
    let title = || hobd.client.get(&format!("/v1/conversations/{id}"))["title"].clone();
    wait::until("the daemon has it", || (title() == "Fruit").then_some(()));
    page.go(&hobd.origin());
    page.reads("@chat", "Fruit");
}

#[test]
fn the_window_is_named_after_the_page_and_the_focus_goes_to_its_heading() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.until("the chat names the window", "document.title === 'New chat – Hob'");
    page.ask("Say this: apples");
    page.until("so does its title", "document.title === 'Say this: apples – Hob'");
    for (name, keys) in PAGES {
        page.press(keys);
        page.shows(&format!("@page-{name}"));
        page.until("the heading has the focus", "document.activeElement?.tagName === 'H1'");
        page.until(
            "the page names the window",
            "document.title === `${one('h1').textContent} – Hob` && one('h1').textContent",
        );
    }
    page.press("Alt+1");
    page.focuses("@composer");
}

/// Answers each question for the context with 503 until `isDown` is false.
const REFUSE: &str = "
    window.isDown = true;
    window.refused = 0;
    const answer = window.fetch;
    window.fetch = (path, ...rest) => {
        if (!window.isDown || !path.includes('/context')) return answer(path, ...rest);
        window.refused += 1;
        return Promise.resolve(new Response('{}', { status: 503 }));
    };";

#[test]
fn how_full_the_context_is_is_asked_again_after_a_failure() {
    let hobd = Hobd::with_chats(&["apples"]);
    let page = Page::open(&hobd);
    page.shows("@context");
    page.cdp("Page.addScriptToEvaluateOnNewDocument", &json!({"source": REFUSE}));
    page.go(&format!("{}/?#/chat/apples", hobd.origin()));
    page.answered(1);
    page.until("it is asked, and asked again", "window.refused > 4");
    assert_eq!(page.count("@context"), 0);
    page.script("window.isDown = false");
    page.shows("@context");
}

#[test]
fn the_head_says_how_full_the_context_is_as_the_daemon_does() {
    let hobd = Hobd::start_with(Model::Fake, &["--eviction", "off", "--ctx", "2048"]);
    let page = Page::open(&hobd);
    page.ask("Say this: apples and pears");
    let id = chat_id(&hobd);
    let context = hobd.client.get(&format!("/v1/conversations/{id}/context"));
    page.reads("@context", &format!("{} of 2,048", context["tokens"]));
    let name = page.script("return one('@context').getAttribute('aria-label')");
    assert_eq!(name, format!("Context: {} of 2,048 tokens", context["tokens"]));
    page.is_state("header @state", "ready");
    page.reads("header @state", "ready");
}

#[test]
fn a_chat_whose_kv_is_gone_will_be_read_again_and_says_how_long() {
    let hobd = Hobd::start_with(Model::Fake, &["--slots", "1", "--keepalive-battery-percent", "0"]);
    let long = "one more word ".repeat(20);
    hobd.client.say("long", &format!("Read this slowly: {long}"));
    hobd.client.rename("long", "A long chat");
    let page = Page::open(&hobd);
    page.is_state("@chat @state", "ready");

    // It leaves the slot, and then the disk: nothing is guessed from where it was.
    hobd.client.say("other", "Say this: apples");
    let gone = json!({"conversations": ["long"]});
    let freed = hobd.client.post("/v1/slots/remove", &gone);
    assert_eq!(freed["removed"], json!(["long"]), "{freed}");
    assert_eq!(place(&hobd, "long"), "none");
    page.is_state("@chat:has([href$=long]) @state", "unread");
    let said = page.script("return one('@chat:has([href$=long]) @state .hidden-text').textContent");
    assert!(said.as_str().is_some_and(|said| said.starts_with("will read again")), "{said}");
}

#[test]
fn the_words_of_a_row_show_beside_its_icon_when_the_keyboard_reaches_it() {
    let hobd = Hobd::start(Model::Fake);
    hobd.client.say("apples", "Say this: apples");
    let page = Page::open(&hobd);
    page.is_state("@chat @state", "ready");
    page.until("the words are hidden", "!seen(one('.ready-tip'))");
    page.press("Control+k");
    page.press("Down");
    page.until("they show", "seen(one('.ready-tip')) && one('.ready-tip').innerText === 'ready'");
}

#[test]
fn a_chat_has_instructions_of_its_own_from_its_first_message_on() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.click("@instructions");
    page.focuses("@instructions-text");
    page.write("You are Ember.");
    page.click("@instructions-save");
    page.hides("@instructions-panel");
    page.ask("Say this: apples");
    let id = chat_id(&hobd);
    let stored = || hobd.client.get(&format!("/v1/conversations/{id}"))["instructions"].clone();
    assert_eq!(stored(), "You are Ember.");

    // Changed while the chat has messages, and there after a reload.
    page.click("@instructions");
    page.fill("@instructions-text", "Be brief.");
    page.click("@instructions-save");
    page.hides("@instructions-panel");
    assert_eq!(stored(), "Be brief.");
    page.reload();
    page.answered(1);
    page.click("@instructions");
    page.until("it reads them", "one('@instructions-text').value === 'Be brief.'");
    page.press("Escape");
    page.hides("@instructions-panel");
}

#[test]
fn instructions_and_sampling_that_are_set_have_a_sign_besides_their_colour() {
    let hobd = Hobd::with_chats(&["apples"]);
    let page = Page::open(&hobd);
    page.open_chat("Say this: apples");
    let has_sign = |button: &str| format!("Boolean(one('{button} use[href=\"#icon-check\"]'))");
    let label = "one('@instructions').getAttribute('aria-label')";
    for button in ["@instructions", "@sampling"] {
        assert_eq!(page.script(&format!("return {}", has_sign(button))), false, "{button}");
    }
    assert_eq!(page.script(&format!("return {label}")), "Instructions");

    page.click("@instructions");
    page.fill("@instructions-text", "Be brief.");
    page.click("@instructions-save");
    page.until("the instructions have it", &has_sign("@instructions"));
    page.until("their name says so", &format!("{label} === 'Instructions: set'"));
    page.click("@sampling");
    page.fill("[name=max_tokens]", "5");
    page.click("@save-sampling");
    page.until("the sampling has it", &has_sign("@sampling"));
}

#[test]
fn instructions_that_are_being_written_stay_in_their_chat_until_save_or_cancel() {
    let hobd = Hobd::with_chats(&["apples", "pears"]);
    let page = Page::open(&hobd);
    page.open_chat("Say this: apples");
    page.click("@instructions");
    page.fill("@instructions-text", "You are Ember.");
    page.press("Escape");
    page.hides("@instructions-panel");

    page.open_chat("Say this: pears");
    page.click("@instructions");
    page.until("these are others", "one('@instructions-text')?.value === ''");
    page.open_chat("Say this: apples");
    page.hides("@instructions-panel");
    page.click("@instructions");
    page.until("they are here", "one('@instructions-text')?.value === 'You are Ember.'");
    page.click("@instructions-cancel");
    page.hides("@instructions-panel");
    page.click("@instructions");
    page.until("they are gone", "one('@instructions-text')?.value === ''");
}

#[test]
fn instructions_that_are_saved_during_the_first_answer_are_stored() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.send(&slowly(100));
    page.reads("@live", "word word");
    page.click("@instructions");
    page.fill("@instructions-text", "Be brief.");
    page.click("@instructions-save");
    page.hides("@instructions-panel");
    page.answered(1);

    let list = hobd.client.get("/v1/conversations");
    let id = list["data"][0]["id"].as_str().expect("there is a chat");
    let stored = hobd.client.get(&format!("/v1/conversations/{id}"));
    assert_eq!(stored["instructions"], "Be brief.");
}

#[test]
fn a_chat_s_instructions_become_saved_ones_with_one_click() {
    let (hobd, page) = Page::with_answers(&["apples"]);
    page.click("@instructions");
    page.fill("@instructions-text", "You are Ember.");
    page.click("@instructions-save-as");
    page.hides("@instructions-panel");

    let profiles = hobd.client.get("/v1/profiles");
    assert_eq!(profiles["data"][0]["name"], "say-this-apples", "{profiles}");
    let profile = hobd.client.get("/v1/profiles/say-this-apples");
    assert_eq!(profile["segments"][0]["content"], "You are Ember.");
    page.click("@instructions");
    page.until("the chat uses it", "one('@profile')?.value === 'say-this-apples'");
    page.until("it is not there twice", "one('@instructions-text').value === ''");
}

#[test]
fn imported_instructions_are_shown_and_replaced() {
    let hobd = Hobd::start(Model::Fake);
    import(&hobd, &[("system", "You are wordy."), ("user", "Hello"), ("assistant", "Hi")]);
    let page = Page::open(&hobd);
    page.open_chat("Hello");
    page.shows("@talk .fold");
    page.click("@instructions");
    page.until("it reads them", "one('@instructions-text').value === 'You are wordy.'");
    page.fill("@instructions-text", "Be brief.");
    page.click("@instructions-save");
    page.hides("@talk .fold");
}

#[test]
fn the_model_is_chosen_in_the_head_and_answers_say_which_one_gave_them() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_it_away();
    page.ask("Say this: apples");
    assert_eq!(page.count("@said-by"), 0);
    page.reads("@model", "fake");
    page.click("@model");
    page.until("the models are listed", "all('[role=menuitem]').length >= 3");
    page.script(
        "all('[role=menuitem]').find(item => item.innerText.includes('fake:second')).click()",
    );
    page.reads("@question", "fake:second");
    page.click("@yes");
    page.until("it runs", "one('@model')?.innerText.trim() === 'fake:second'");
    page.reads("@answer @said-by", "by fake");
    page.is_state("header @state", "unread");
}

#[test]
fn an_empty_chat_names_its_model_and_begins_in_the_middle() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.reads("@runs", "fake");
    let middle = "(() => { const box = one('.composer-box').getBoundingClientRect();
        return box.top > innerHeight * .3 && box.bottom < innerHeight * .8 })()";
    page.until("the composer is in the middle", middle);
    page.click(".suggestions > :first-child");
    page.until("it begins a message", "one('@composer').value.includes('Remember this document')");
    page.focuses("@composer");
    page.fill("@composer", "Say this: apples");
    page.press("Enter");
    page.answered(1);
    page.until(
        "then it is below",
        "one('.composer-box').getBoundingClientRect().bottom > innerHeight * .85",
    );
    page.hides(".suggestions");
}

#[test]
fn the_bundled_model_is_called_a_demo() {
    let hobd = Hobd::start(Model::Bundled);
    let page = Page::open(&hobd);
    page.reads("@demo", "A demo answers here");
    assert_eq!(page.count("@demo"), 1);
    page.reads(".suggestions", "My locker code is 48213.");
}

/// Looked at by people, in `target/checks`.
#[test]
fn the_head_fits_every_window() {
    let hobd = Hobd::start_with(Model::Fake, &["--eviction", "off", "--ctx", "1024"]);
    hobd.client.say("long", &format!("Say this: {}", "one more word ".repeat(28)));
    hobd.client.rename("long", "A chat with a rather long title that does not fit");
    let page = Page::open(&hobd);
    for (width, dark) in [(1280, false), (1280, true), (420, false), (420, true), (320, false)] {
        page.show(Look { width, height: 800, dark, ..Look::default() });
        let name = format!("{width}-{}", if dark { "dark" } else { "light" });
        page.go(&format!("{}/?{name}#/chat", hobd.origin()));
        page.shows(".suggestions");
        page.save_picture(&format!("head-empty-{name}"));
        page.go(&format!("{}/?{name}#/chat/long", hobd.origin()));
        page.shows("header @state");
        page.shows("@nearly-full");
        page.save_picture(&format!("head-chat-{name}"));
        page.click("@instructions");
        page.shows("@instructions-panel");
        page.save_picture(&format!("head-instructions-{name}"));
        page.press("Escape");
        page.click("@context");
        page.shows("@room");
        page.save_picture(&format!("head-room-{name}"));
        let wider = page.script("return document.documentElement.scrollWidth > innerWidth");
        assert_eq!(wider, json!(false), "{name}");
        page.click("@model");
        page.until("the models are listed", "all('[role=menuitem]').length >= 3");
        page.save_picture(&format!("head-models-{name}"));
        page.press("Escape");
    }
}

fn import(hobd: &Hobd, messages: &[(&str, &str)]) {
    let messages = messages.iter().enumerate().map(|(at, (role, text))| {
        let parent = if at == 0 { Value::Null } else { at.into() };
        json!({"id": at + 1, "parent": parent, "status": "complete",
            "message": {"role": role, "content": text}})
    });
    let messages: Vec<Value> = messages.collect();
    let document = json!({"format": "hob conversation", "version": 1, "messages": messages});
    hobd.client.post("/v1/conversations/import", &document);
}

fn chat_id(hobd: &Hobd) -> String {
    let chats = hobd.client.get("/v1/conversations");
    chats["data"][0]["id"].as_str().expect("a chat").to_owned()
}

fn place(hobd: &Hobd, conversation: &str) -> Value {
    hobd.client.get(&format!("/v1/conversations/{conversation}"))["place"].clone()
}
