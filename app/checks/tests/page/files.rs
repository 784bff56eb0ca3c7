//! Exporting and importing chats.

use hob_checks::{Hobd, Model, Page};
use hob_testkit::wait;
use std::path::PathBuf;

#[test]
fn an_exported_chat_is_the_same_after_its_import() {
    for (item, ending) in [("Export as JSON", "json"), ("Export as Markdown", "md")] {
        let (_hobd, page) = Page::with_answers(&["**apples** and pears", "and plums"]);
        let said = page.texts("@talk .text");

        page.choose("@chat-menu", item);
        let file = downloaded(&page, ending);
        page.choose("@chat-menu", "Delete");
        page.until("it is gone", "all('@chat').length === 0");
        page.import(&file);
        page.reads("@toast", "imported");
        page.answered(2);

        assert_eq!(page.texts("@talk .text"), said, "{item}");
        assert_eq!(page.ask("Say this: it goes on"), "it goes on");
    }
}

#[test]
fn an_exported_archive_contains_the_kv_cache() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.ask(
        "Say this: a text that is long enough to have some blocks of its own, which are kept.",
    );
    page.choose("@chat-menu", "Export with KV cache");
    let file = downloaded(&page, "tar");

    let other = Hobd::start(Model::Fake);
    let page = Page::open(&other);
    page.shows("@composer");
    page.import(&file);
    page.answered(1);
    page.ask("Say this: still known");

    let numbers = page.last_figures();
    assert!(numbers.contains("from disk") || numbers.contains(" hot"), "{numbers}");
}

#[test]
fn a_file_that_is_not_a_chat_is_refused_with_a_reason() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_complaint("400");
    page.shows("@composer");
    let file = hobd.directory().join("no chat.json");
    std::fs::write(&file, "{}").unwrap();

    page.import(&file);
    page.reads("@question", "could not be imported");
}

#[test]
fn an_import_without_its_kv_cache_says_why() {
    let (_hobd, page) =
        Page::with_answers(&["a text that is long enough to have some blocks of its own."]);
    page.choose("@chat-menu", "Export with KV cache");
    let file = downloaded(&page, "tar");

    let other = Hobd::start_with(Model::Fake, &["--model", "fake:second"]);
    let page = Page::open(&other);
    page.shows("@composer");
    page.import(&file);

    page.reads("@toast", "without its KV cache");
    page.answered(1);
}

/// Chromium reserves the name with an empty file.
fn downloaded(page: &Page, ending: &str) -> PathBuf {
    wait::until(&format!("a .{ending} is saved"), || {
        let entries = std::fs::read_dir(page.downloads()).ok()?;
        let mut paths = entries.flatten().map(|entry| entry.path());
        let is_saved = |path: &PathBuf| path.metadata().is_ok_and(|facts| facts.len() > 0);
        paths.find(|path| path.extension().is_some_and(|found| found == ending) && is_saved(path))
    })
}
