//! The memory page: map, prune, verify, TTL class.

use std::fs;
use std::path::{Path, PathBuf};

use hob_checks::chat::slowly;
use hob_checks::{Hobd, Model, Page};
use hob_testkit::files;

#[test]
fn the_map_shows_a_chat_during_its_answer_and_afterwards() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.send(&slowly(250));
    page.reads("@live", "word");
    page.click("@to-memory");
    page.click("@engine");

    page.until("a slot is busy", "all('@slot-row').some(e => e.dataset.state !== 'idle')");
    page.until("it comes to rest", "all('@slot-row').every(e => e.dataset.state === 'idle')");
    page.until("it has blocks", "all('@slot-row .cell').length > 2");
    page.reads("@memory-bars", "hot");
    page.reads("@memory-map", "user");
    page.reads("@memory-map", "assistant");
    // The same in words.
    page.click("@map-table summary");
    page.reads("@map-table", "Say this slowly");
    for title in ["@memory-map .slot-name", "@map-table th[scope=row]"] {
        let direction = format!("return one('{title}').dir");
        assert_eq!(page.script(&direction), "auto", "{title}");
    }
    page.shows("@map-table td");
    let name = page.script("return one('@map-table [tabindex]').getAttribute('aria-label')");
    assert_eq!(name, "Show as a table");
}

#[test]
fn pruning_previews_what_it_frees() {
    let mut hobd = Hobd::start(Model::Fake);
    hobd.client.say("apples", "Say this: apples");
    hobd.client.say("pears", "Say this: pears");
    let page = open_memory_after_a_restart(&mut hobd);
    page.until("two are kept", "all('@file').length === 2");

    page.click("@prune");
    // Nothing is ticked: the sweep removes what has expired.
    page.reads("@prune-preview", "Choose at least one criterion.");
    page.reads("@prune-dialog", "meets every ticked criterion");
    page.click("@prune-expired");
    page.reads("@prune-preview", "No chat meets the criteria.");
    // All of this class, expired or not.
    page.click("@prune-expired");
    page.put("@prune-dialog label > select", "permanent");
    page.reads("@prune-preview", "2");
    page.reads("@prune-preview", "Say this: apples");
    for title in ["@file th", "@prune-preview li .clip"] {
        let direction = format!("return one('{title}').dir");
        assert_eq!(page.script(&direction), "auto", "{title}");
    }
    assert_eq!(page.count("@file"), 2);
    assert_eq!(kept_files(&hobd, "bin").len(), 2);

    page.click("@prune-do");
    page.reads("@toast", "freed");
    page.until("nothing is kept", "all('@file').length === 0");
    assert!(kept_files(&hobd, "bin").is_empty());
    // The text stays.
    page.open_chat("Say this: apples");
    assert_eq!(page.text("@answer .text"), "apples");
}

#[test]
fn verify_moves_damaged_files_to_quarantine() {
    let mut hobd = Hobd::start(Model::Fake);
    hobd.client.say("apples", "Say this: apples");
    let page = open_memory_after_a_restart(&mut hobd);
    page.click("@verify");
    page.until("all is whole", "one('@verify-result')?.dataset.whole === 'true'");
    page.click("@verify-close");

    let object = kept_files(&hobd, "kv").pop().expect("something is kept");
    let mut bytes = fs::read(&object).unwrap();
    *bytes.last_mut().expect("it is not empty") ^= 1;
    fs::write(&object, bytes).unwrap();
    page.click("@verify");
    page.until("it is found", "one('@verify-result')?.dataset.whole === 'false'");
    page.shows("@memory-quarantine");

    page.click("@quarantine-empty");
    page.click("@yes");
    page.hides("@memory-quarantine");
}

#[test]
fn the_ttl_class_of_a_saved_conversation_can_be_changed() {
    let mut hobd = Hobd::start(Model::Fake);
    hobd.client.say("apples", "Say this: apples");
    let page = open_memory_after_a_restart(&mut hobd);
    assert!(file_name(&kept_files(&hobd, "bin")[0]).contains(".kept."));

    page.put("@file select", "long");
    hob_testkit::wait::until("the file has its new class", || {
        kept_files(&hobd, "bin").iter().any(|path| file_name(path).contains(".long.")).then_some(())
    });
}

#[test]
fn the_chats_come_first_and_the_engine_on_request() {
    let hobd = Hobd::start(Model::Fake);
    hobd.client.say("apples", "Say this: apples");
    let page = Page::open(&hobd);
    page.click("@to-memory");
    page.reads("@memory-files", "Your chats");
    page.reads("@file", "Say this: apples");
    assert_eq!(page.count("@memory-map"), 0);

    page.click("@engine");
    page.shows("@memory-bars");
    page.shows("@memory-map");
    page.shows("@memory-chart");
    page.script("location.reload()");
    page.shows("@memory-map"); // It stays as it was left.
}

#[test]
fn a_chat_in_a_slot_can_be_kept_ready_for_another_time() {
    let hobd = Hobd::start(Model::Fake);
    hobd.client.say("apples", "Say this: apples");
    let page = Page::open(&hobd);
    page.click("@to-memory");
    page.until("it is saved and hot", "one('@file .state.hot')");
    let options = page.texts("@file select option");
    assert_eq!(options, ["while there is room", "1 day", "1 hour", "5 minutes"]);

    page.put("@file select", "extended");

    hob_testkit::wait::until("the file has its new class", || {
        let files = kept_files(&hobd, "bin");
        files.iter().any(|path| file_name(path).contains(".extended.")).then_some(())
    });
    page.until("the page shows it", "one('@file select').value === 'extended'");
    page.shows("@file .state.hot");
}

#[test]
fn a_saved_chat_shows_when_it_expires() {
    let mut hobd = Hobd::start(Model::Fake);
    hobd.client.say("apples", "Say this: apples");
    let page = open_memory_after_a_restart(&mut hobd);
    page.reads("@expires", "–");

    page.put("@file select", "long");

    page.reads("@expires", "in 1 hr.");
}

#[test]
fn how_long_a_chat_stays_is_changed_and_shown_while_another_one_is_answered() {
    let mut hobd = Hobd::start(Model::Fake);
    hobd.client.say("apples", "Say this: apples");
    hobd.restart();
    let page = Page::open(&hobd);
    page.send(&slowly(400));
    page.reads("@live", "word");
    page.click("@to-memory");
    page.click("@engine");
    page.until("a slot is busy", "all('@slot-row').some(e => e.dataset.state === 'decoding')");
    page.reads("@file[data-conversation=apples] @expires", "–");

    page.put("@file[data-conversation=apples] select", "long");

    page.reads("@file[data-conversation=apples] @expires", "in 1 hr.");
    page.until("a slot is busy", "all('@slot-row').some(e => e.dataset.state === 'decoding')");
}

#[test]
fn the_room_for_saved_chats_is_explained_and_changed() {
    let mut hobd = Hobd::start(Model::Fake);
    hobd.client.say("apples", "Say this: apples");
    let page = open_memory_after_a_restart(&mut hobd);
    page.reads("@quota-words", "a tenth of the free disk");
    page.click("@quota-change");
    page.focuses("@quota-gib");
    page.put("@quota-gib", "3.5");
    page.click("@quota-save");
    page.reads("@quota-words", "You set it to 3.5 GiB");
    page.focuses("@quota-change");
    page.reads("@budget", "of 3.5 GiB used");
    page.click("@engine");
    page.reads("@memory-bars", "3.5 GiB");
    page.expect_it_away();

    let page = open_memory_after_a_restart(&mut hobd);
    page.reads("@quota-words", "You set it to 3.5 GiB");
    page.click("@quota-default");
    page.reads("@quota-words", "By default");
}

/// The memory page of a daemon with empty slots: all KV is on disk.
fn open_memory_after_a_restart(hobd: &mut Hobd) -> Page {
    hobd.restart();
    let page = Page::open(hobd);
    page.click("@to-memory");
    page.shows("@memory-files");
    page
}

fn kept_files(hobd: &Hobd, ending: &str) -> Vec<PathBuf> {
    let mut files = files::with_extension(&hobd.directory().join("slots"), ending);
    files.retain(|path| path.components().all(|part| part.as_os_str() != "quarantine"));
    files
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
