//! Documents: attached by a drop, a paste or the button, read once, and kept in the library.

use std::fs;
use std::path::PathBuf;

use hob_checks::{Hobd, Look, Model, Page};
use hob_testkit::wait;
use serde_json::json;

fn text(lines: usize) -> String {
    let line = |n: usize| format!("In year {n} the castle had {} doors.\n", n * 7);
    (1..=lines).map(line).collect()
}

fn file(hobd: &Hobd, name: &str, text: &str) -> PathBuf {
    let path = hobd.directory().join(name);
    fs::write(&path, text).unwrap();
    path
}

fn drop_file(page: &Page, name: &str, text: &str) -> bool {
    page.drop_files(&[(name.to_owned(), text.to_owned())])
}

fn paste(page: &Page, text: &str) {
    page.shows("@composer");
    page.script_with(
        "const clipboardData = new DataTransfer();
         clipboardData.setData('text/plain', arguments[0]);
         const event = new ClipboardEvent('paste', {bubbles: true, cancelable: true, clipboardData});
         one('@composer').dispatchEvent(event)",
        &[json!(text)],
    );
}

fn is_ready(page: &Page) {
    page.shows("@document-chip[data-state=ready]");
}

#[test]
fn a_dropped_file_is_read_before_the_question_and_stays_with_its_message() {
    let mut hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    assert!(drop_file(&page, "castle.md", &text(30)));
    is_ready(&page);
    page.reads("@document-chip", "castle.md");
    page.reads("@document-chip", "tokens · ready");

    assert_eq!(page.ask("Say this: seven"), "seven");
    let numbers = page.last_figures();
    let computed = |numbers: &str| {
        // `17 computed`; those of `9 tokens computed ahead` belong to the typing.
        let words: Vec<&str> = numbers.split(' ').collect();
        let count = |pair: &[&str]| pair[0].parse::<u64>().ok().filter(|_| pair[1] == "computed");
        words.windows(2).find_map(count).unwrap()
    };
    assert!(computed(&numbers) < 64, "the document was read before: {numbers}");
    assert_eq!(page.count("@attached"), 0);
    page.reads("@sent-document", "castle.md");

    page.expect_it_away();
    hobd.restart();
    page.go(&hobd.address_of_the_page());
    page.open_chat("Say this: seven");
    page.reads("@sent-document", "castle.md");
    page.click("@sent-document");
    page.reads("@document-text", "In year 30 the castle had 210 doors.");
    page.press("Escape");

    page.open_page("library");
    page.reads("@library-row[data-state=ready]", "castle.md");
    page.click("@library-start");
    is_ready(&page);
    assert_eq!(page.ask("Say this: doors"), "doors");
    let numbers = page.last_figures();
    assert!(computed(&numbers) < 64, "a second chat shares it: {numbers}");
}

const WORDS: &str = "How many doors had the castle in the tenth year? Please";

#[test]
fn the_words_about_a_document_are_computed_while_they_are_typed() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    assert!(drop_file(&page, "castle.md", &text(30)));
    is_ready(&page);
    let is_whole = |tokens: &u64| *tokens > text(30).len() as u64; // A token a letter.
    let read = wait::until("the document is hot", || Some(hobd.idle_tokens()).filter(is_whole));
    page.focus("@composer");
    page.write(&format!("{WORDS} "));
    // A message begins with 6 tokens; they and the words replace the 10 at the reading's end.
    let all = read - 10 + 6 + WORDS.len() as u64;
    wait::until("the words are hot", || (hobd.idle_tokens() >= all).then_some(()));
    assert!(hobd.tokens_ahead() < 200, "the document is computed once: {}", hobd.tokens_ahead());
    page.write("say");
    page.press("Enter");
    page.answered(1);
    let list = hobd.client.get("/v1/conversations");
    let id = list["data"][0]["id"].as_str().unwrap();
    let messages = hobd.client.get(&format!("/v1/conversations/{id}"))["messages"].clone();
    assert_eq!(messages[0]["hob"]["documents"][0]["name"], "castle.md", "{messages}");
    let tokens = &messages[1]["finish"]["hob"]["tokens"];
    // " Please say" and the 13 tokens of the template's end.
    assert!(tokens["computed"].as_u64().is_some_and(|computed| computed <= 24), "{tokens}");
}

#[test]
fn a_file_is_never_opened_by_the_browser_wherever_it_is_dropped() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    assert!(drop_file(&page, "a.txt", "some words"));
    for name in ["memory", "profiles", "models", "settings", "library"] {
        page.open_page(name);
        assert!(drop_file(&page, "b.txt", "other words"), "{name}");
        if name == "memory" {
            page.reads("@toast", "Drop files on a chat or on the library");
        }
    }
    page.reads("@library-row", "b.txt");
}

#[test]
fn a_long_paste_is_a_document_of_its_chat_alone() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    paste(&page, "short");
    assert_eq!(page.count("@attached"), 0);
    paste(&page, &text(70));
    is_ready(&page);
    page.reads("@document-chip", "Pasted text");

    page.go(&hobd.address_of_the_page());
    page.reload();
    is_ready(&page);
    page.click("@document-chip [aria-label*='Take']");
    page.hides("@document-chip");

    paste(&page, &text(71));
    is_ready(&page);
    page.press("Enter");
    page.answered(1);
    page.reads("@sent-document", "Pasted text");
    page.reads("@title", "Pasted text");
    page.open_page("library");
    page.shows("@page-library .library-drop");
    assert_eq!(page.count("@library-row"), 0, "it is no document of the library");
}

#[test]
fn pasted_text_of_a_message_that_failed_belongs_to_no_library() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    paste(&page, &text(70));
    is_ready(&page);
    page.expect_complaint("404"); // No chat was stored.
    page.script(
        "const answer = window.fetch;
         window.failed = 0;
         window.fetch = (path, ...rest) => {
             if (path !== '/v1/chat/completions') return answer(path, ...rest);
             window.failed += 1;
             return Promise.reject(new TypeError('it is away'));
         };",
    );
    page.press("Enter");
    page.until("it has failed", "window.failed === 1 && !one('@live')");
    is_ready(&page);

    page.click("@document-chip [aria-label*='Take']");
    page.hides("@document-chip");
    assert_eq!(page.count("@toast"), 0, "no word of a library");
}

#[test]
fn documents_that_an_absent_daemon_did_not_take_can_be_sent_when_it_answers_again() {
    let mut hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_it_away();
    page.shows("@composer");
    drop_file(&page, "castle.md", &text(30));
    is_ready(&page);
    page.focus("@composer");
    page.write("Say this: doors");
    hobd.kill();
    page.press("Enter");
    page.shows("@failure");
    page.until("castle.md is back", "one('@document-chip')?.dataset.state === 'failed'");
    drop_file(&page, "mill.csv", &text(14));
    page.until("neither is there", "all('@document-chip[data-state=failed]').length === 2");

    hobd.start_again();
    page.until("castle.md is ready", "one('@document-chip').dataset.state === 'ready'");
    page.until("mill.csv is there", "all('@document-chip[data-state=unread]').length === 1");
    page.hides("@failure");
    page.focus("@composer");
    page.press("Enter");
    page.answered(1);
    assert_eq!(page.last_answer(), "doors");
    assert_eq!(page.texts("@user @sent-document"), ["castle.md", "mill.csv"]);
}

#[test]
fn a_file_of_the_library_that_cannot_be_read_is_closed() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_complaint("400");
    page.open_page("library");
    for name in ["a.zip", "b.zip"] {
        drop_file(&page, name, "PK\u{3}\u{4}\0\0");
        page.reads("@library-incoming .error", "neither text nor a PDF");
    }
    page.until("both are told", "all('@library-incoming .error').length === 2");
    page.click("@library-incoming [aria-label=Close]");
    page.until("one is left", "all('@library-incoming').length === 1");
    page.reads("@library-incoming", "b.zip");
    page.click("@library-incoming [aria-label=Close]");
    page.hides("@library");
}

#[test]
fn a_file_that_is_no_text_says_so_and_one_too_long_cannot_be_sent() {
    let hobd = Hobd::start_with(Model::Fake, &["--eviction", "off", "--ctx", "1024"]);
    let page = Page::open(&hobd);
    page.expect_complaint("400");
    page.shows("@composer");
    drop_file(&page, "a.zip", "PK\u{3}\u{4}\0\0");
    page.reads("@document-chip[data-state=failed]", "neither text nor a PDF");
    page.click("@document-chip [aria-label*='Take']");
    drop_file(&page, "a.gif", "GIF89a\u{1}\0\u{1}\0");
    page.reads("@document-chip[data-state=failed]", "Hob reads no images");
    page.click("@document-chip [aria-label*='Take']");
    drop_file(&page, "long.txt", &text(60));
    page.reads("@document-chip[data-state=too-long]", "a chat holds 1,024");
    page.write("What now?");
    assert_eq!(page.script("return one('@send').disabled"), json!(true));
    page.click("@document-chip [aria-label*='Take']");
    page.until("it can be sent", "!one('@send').disabled");
}

#[test]
fn a_paste_of_words_and_their_picture_sends_the_words_and_says_that_pictures_are_not_read() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_complaint("400");
    page.shows("@composer");
    let is_taken = |words: &str| {
        let taken = page.script_with(
            "const clipboardData = new DataTransfer();
             if (arguments[0]) clipboardData.setData('text/plain', arguments[0]);
             clipboardData.items.add(new File(['GIF89a\\u0001\\0\\u0001\\0'], 'cells.gif', {type: 'image/gif'}));
             const event = new ClipboardEvent('paste', {bubbles: true, cancelable: true, clipboardData});
             one('@composer').dispatchEvent(event);
             return event.defaultPrevented",
            &[json!(words)],
        );
        taken.as_bool().unwrap()
    };
    assert!(!is_taken("three cells"), "the browser writes the words itself");
    page.reads("@document-chip[data-state=failed]", "Hob reads no images");
    assert_eq!(page.script("return one('@send').disabled"), json!(true), "there is no word yet");
    assert_eq!(page.ask("Say this: three cells"), "three cells");
    assert_eq!(page.count("@document-chip"), 0, "it is gone with the words");
    assert!(is_taken(""));
    page.reads("@document-chip[data-state=failed]", "Hob reads no images");
    page.write("What is in it?");
    assert_eq!(page.script("return one('@send').disabled"), json!(true), "it was meant");
}

#[test]
fn a_file_that_is_too_long_offers_the_context_that_holds_it() {
    let hobd = Hobd::start_changed(Model::Fake, &[], |launch, directory| {
        let settings = "model = \"fake\"\nctx = 1024\nslots = 1\neviction = \"off\"\n";
        fs::write(directory.join("hob.toml"), settings).expect("it can be written");
        launch
    });
    let page = Page::open(&hobd);
    page.expect_it_away();
    page.shows("@composer");
    drop_file(&page, "long.txt", &text(60));
    page.reads("@document-chip[data-state=too-long]", "a chat holds 1,024");
    page.reads("@larger-for-document", "Use a context of 4,096 tokens");
    for (name, width, dark) in [("wide", 1280, false), ("small", 320, true)] {
        page.show(Look { width, height: 800, dark, still: true, ..Look::default() });
        page.shows("@larger-for-document");
        page.save_picture(&format!("documents-too-long-{name}"));
    }
    page.click("@larger-for-document");
    page.reads("@toast", "The context has 4,096 tokens now.");
    is_ready(&page);
    assert_eq!(page.count("@larger-for-document"), 0);
    assert_eq!(page.ask("Say this: doors"), "doors");
}

#[test]
fn a_document_that_is_removed_leaves_the_library_and_its_chats_go_on() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_complaint("404");
    page.shows("@attach");
    page.script("one('@attach-file').hidden = false");
    page.choose_file("@attach-file", &file(&hobd, "mill.csv", &text(20)));
    is_ready(&page);
    page.ask("Say this: one");
    page.open_page("library");
    page.reads("@library-row", "1 chat");
    page.click("@library-remove");
    page.click("@question @yes");
    page.hides("@library-row");
    assert_eq!(hobd.client.get("/v1/slots")["data"], json!([]));

    page.open_chat("Say this: one");
    page.click("@sent-document");
    page.reads("@document-text", "This document was removed");
    page.press("Escape");
    assert_eq!(page.ask("Say this: two"), "two");
}

#[test]
fn a_file_of_the_library_is_read_with_visible_progress() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.open_page("library");
    page.script(
        "window.told = new Set();
         new MutationObserver(() => all('@library-words').forEach(row => told.add(row.textContent)))
             .observe(document.body, {childList: true, subtree: true, characterData: true})",
    );
    drop_file(&page, "slow.txt", &format!("Read this slowly: {}", text(12)));
    page.reads("@library-row[data-state=ready]", "slow.txt");
    page.until("it said how far it was", "[...told].some(text => /^Reading \\d/.test(text))");
    page.reads("@library-row", "kept while there is room");
}

#[test]
fn documents_look_as_they_should() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    drop_file(&page, "The annual report of the castle's doors.pdf.txt", &text(40));
    is_ready(&page);
    page.ask("Say this: It had **seven** doors.");
    drop_file(&page, "mill.csv", &text(14));
    page.shows("@document-chip[data-state=unread]");
    for (name, width, dark) in
        [("wide", 1280, false), ("dark", 1280, true), ("narrow", 420, false), ("small", 320, true)]
    {
        page.show(Look { width, height: 800, dark, still: true, ..Look::default() });
        page.save_picture(&format!("documents-chat-{name}"));
        page.go(&format!("{}/#/library", hobd.origin()));
        page.shows("@library-row");
        let overflow =
            page.script("const main = one('#content'); return main.scrollWidth - main.clientWidth");
        assert_eq!(overflow, json!(0), "{name}");
        page.save_picture(&format!("documents-library-{name}"));
        page.script("history.back()");
        page.answered(1);
    }
}

#[test]
fn two_files_dropped_at_once_and_enter_at_once_go_with_one_message() {
    let hobd = Hobd::start_with(Model::Fake, &["--eviction", "off", "--ctx", "8192"]);
    let page = Page::open(&hobd);
    page.shows("@composer");
    // The second file arrives only after Enter, and both come before the words are computed ahead.
    page.script(
        "const fetched = window.fetch;
         window.fetch = async (path, options) => {
           if (String(path).includes('castle')) await new Promise(done => { window.letIn = done; });
           return fetched(path, options);
         }",
    );
    page.script_with(
        "const field = document.querySelector('[data-test=composer]');
         field.value = 'Say this: both';
         field.dispatchEvent(new Event('input', {bubbles: true}));
         const dataTransfer = new DataTransfer();
         for (const name of ['bridges.csv', 'castle.md']) dataTransfer.items.add(new File([name + arguments[0]], name));
         const target = document.elementFromPoint(innerWidth / 2, innerHeight / 2);
         for (const kind of ['dragover', 'drop'])
             target.dispatchEvent(new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer}))",
        &[json!(text(10))],
    );
    page.until("both are there", "all('@document-chip').length === 2 && window.letIn");
    page.focus("@composer");
    page.press("Enter");
    page.reads("@composer-hint", "It is sent when the files are read in");
    assert_eq!(page.count("@user"), 0);
    page.script("letIn()");
    page.answered(1);
    assert_eq!(page.last_answer(), "both");
    assert_eq!(page.texts("@user @sent-document"), ["bridges.csv", "castle.md"]);
}
