//! The list of chats: groups by day, one Tab stop, several chats at once.

use std::time::{SystemTime, UNIX_EPOCH};

use hob_checks::chat::slowly;
use hob_checks::{Hobd, Look, Model, Page};
use hob_testkit::wait;
use serde_json::{Value, json};

const DAY_SECS: u64 = 86_400;

#[test]
fn chats_are_grouped_by_the_day_of_their_last_use() {
    let hobd = Hobd::start(Model::Fake);
    for (title, days) in [("now", 0), ("a week", 5), ("old", 40), ("older", 400)] {
        import(&hobd, title, days);
    }
    hobd.client.patch("/v1/conversations/older", &json!({"pinned": true}));
    let page = Page::open(&hobd);
    page.until("all are listed", "all('@chat').length === 4");

    let heads = page.texts(".group-head");
    assert_eq!(heads, ["Pinned", "Today", "Previous 7 days", "Earlier"]);
    let of = |head: &str| {
        page.texts(&format!("[role=list][aria-label={head:?}] .chat-title")).join(", ")
    };
    assert!(of("Pinned").ends_with("older"), "{}", of("Pinned"));
    assert_eq!([of("Today"), of("Previous 7 days"), of("Earlier")], ["now", "a week", "old"]);
}

#[test]
fn a_title_that_is_cut_can_be_read_whole() {
    let hobd = Hobd::with_chats(&["apples"]);
    let title = ["long"; 30].join(" ");
    hobd.client.rename("apples", &title);
    let page = Page::open(&hobd);
    page.reads("@chat", "long long");
    let cut = "const {scrollWidth, clientWidth} = one('@chat .chat-title');
        return scrollWidth > clientWidth";
    assert_eq!(page.script(cut), true);
    assert_eq!(page.script("return one('@chat .chat-title').title"), title);
}

#[test]
fn the_list_is_one_tab_stop_and_arrow_keys_reach_every_chat() {
    let hobd = Hobd::start(Model::Fake);
    for n in 0..60 {
        import(&hobd, &format!("chat {n:02}"), n);
    }
    let page = Page::open(&hobd);
    page.shows("@chat");

    page.click("@search");
    page.press("Tab");
    assert_eq!(focused_title(&page), "chat 00");
    // The next stop is behind the list.
    page.press("Tab");
    page.focuses("@to-trash");

    page.press("Shift+Tab");
    page.press("End");
    page.until("the last one has the focus", &has_focus("chat 59"));
    page.press("Up");
    page.until("the one before it has the focus", &has_focus("chat 58"));
    page.press("Home");
    page.until("the first one has the focus", &has_focus("chat 00"));
    // Its menu is beside it.
    page.press("Right");
    let menu = "document.activeElement.getAttribute('aria-label') === 'Options for “chat 00”'";
    page.until("the menu has the focus", menu);
    page.press("Enter");
    page.until("its first item has it", "document.activeElement.innerText.trim() === 'Rename'");
    page.press("End");
    page.until("End leads to its last", "document.activeElement.innerText.trim() === 'Delete'");
    page.press("Home");
    page.until("Home to its first", "document.activeElement.innerText.trim() === 'Rename'");
    page.press("Escape");
    page.press("Left");
    page.until("the chat has the focus again", &has_focus("chat 00"));
}

#[test]
fn several_chats_are_picked_with_the_keyboard_and_deleted_together() {
    let hobd = with_chats(4);
    let page = Page::open(&hobd);
    page.until("all are listed", "all('@chat').length === 4");

    page.click("@search");
    page.press("Tab");
    page.press("Shift+Down");
    page.press("Shift+Down");
    page.reads("@picked-bar", "3 selected");
    page.press("Space");
    page.reads("@picked-bar", "2 selected");
    page.press("Delete");
    page.until("two are left", "all('@chat').length === 2");
    page.until("one of them has the focus", "document.activeElement.matches('.chat-link')");
    page.hides("@picked-bar");
    page.reads("@toast", "2 chats were deleted.");

    page.click("@toast button");
    page.until("they are back", "all('@chat').length === 4");
}

#[test]
fn several_chats_are_picked_with_the_mouse_and_exported_as_one_file() {
    let hobd = with_chats(4);
    let page = Page::open(&hobd);
    page.until("all are listed", "all('@chat').length === 4");

    page.click_with("Control", "@chat:nth-child(1) .chat-link");
    page.reads("@picked-bar", "One selected"); // It moves the rows.
    page.click_with("Shift", "@chat:nth-child(3) .chat-link");
    page.reads("@picked-bar", "3 selected");
    page.click_with("Control", "@chat:nth-child(2) .chat-link");
    page.reads("@picked-bar", "2 selected");
    page.click("@picked-export");
    let file = page.downloads().join("2 chats.json");
    // The browser names the file before it has written all of it.
    let whole = || serde_json::from_slice(&std::fs::read(&file).ok()?).ok();
    let documents: Value = wait::until("the file is there, whole", whole);
    let titles: Vec<_> = documents.as_array().unwrap().iter().map(|one| &one["title"]).collect();
    assert_eq!(titles, ["chat 0", "chat 2"]);

    page.press("Escape");
    page.click("@picked-none");
    page.hides("@picked-bar");
}

#[test]
fn the_focus_goes_on_where_the_chats_of_a_button_are_deleted() {
    let hobd = with_chats(4);
    let page = Page::open(&hobd);
    page.until("all are listed", "all('@chat').length === 4");
    let has_row = "document.activeElement.matches('.chat-link')";

    page.click_with("Control", "@chat:nth-child(1) .chat-link");
    page.click("@picked-delete");
    page.until("one is gone", "all('@chat').length === 3");
    page.until("a chat has the focus", has_row);

    page.hover("@chat:nth-child(1)");
    page.choose("@chat:nth-child(1) @row-menu", "Delete");
    page.until("another is gone", "all('@chat').length === 2");
    page.until("a chat has the focus", has_row);

    page.click("@to-trash");
    page.until("both are in the trash", "all('@trashed').length === 2");
    for left in [1, 0] {
        page.click("@trash-delete");
        page.click("@yes");
        page.until("one is gone for good", &format!("all('@trashed').length === {left}"));
        let next = if left > 0 { "one('@trash-delete')" } else { "one('#content')" };
        page.until("what is next has it", &format!("document.activeElement === {next}"));
    }
}

#[test]
fn a_chat_that_answers_has_a_pulse_also_in_another_tab() {
    let hobd = with_chats(1);
    let page = Page::open(&hobd);
    let other = Page::open(&hobd);
    other.shows("@chat");
    assert_eq!(other.count("@answering"), 0);

    page.send(&slowly(400));
    page.shows("@chat @answering");
    other.shows("@chat @answering");
    other.reads("@chat:first-child", "Say this slowly");

    page.click("@stop");
    page.hides("@answering");
    other.hides("@answering");
}

#[test]
fn a_search_opens_a_chat_at_the_message_that_it_found() {
    let hobd = Hobd::start(Model::Fake);
    let said = |n: usize| match n {
        41 => "the harbour is closed".to_owned(),
        n => format!("message {n}"),
    };
    let messages: Vec<_> = (1..=120)
        .map(|n| {
            let role = if n % 2 == 1 { "user" } else { "assistant" };
            let parent = (n > 1).then(|| n - 1);
            json!({"id": n, "parent": parent, "message": {"role": role, "content": said(n)}})
        })
        // Another branch, which was not used last.
        .chain([json!({
            "id": 121, "parent": 2, "message": {"role": "user", "content": "the lighthouse is open"},
        })])
        .collect();
    hobd.client.post("/v1/conversations/import", &json!({
        "format": "hob conversation", "id": "long", "title": "long", "head": 120, "messages": messages,
    }));
    let page = Page::open(&hobd);
    let is_in_view = |text: &str| {
        format!(
            "all('@user').some(message => message.innerText.includes({text:?}) && (() => {{
                 const {{top, bottom}} = message.getBoundingClientRect();
                 return top >= 0 && bottom <= innerHeight;
             }})())"
        )
    };

    page.fill("@search", "harbour");
    page.click("@chat .chat-link");
    page.until("the message is in view", &is_in_view("the harbour is closed"));
    page.shows("@hit");

    page.fill("@search", "lighthouse");
    page.click("@chat .chat-link");
    page.until("its branch is shown", &is_in_view("the lighthouse is open"));
}

#[test]
fn a_message_that_was_found_is_marked_without_motion_too() {
    let hobd = Hobd::with_chats(&["apples"]);
    let page = Page::open_as(&hobd, Look { still: true, ..Look::default() });
    page.shows("@composer");
    page.go(&format!("{}/?#/chat/apples/1", hobd.origin()));
    page.shows("@hit + @user");
    let mark = page.script("return getComputedStyle(one('@hit + @user')).outlineStyle");
    assert_eq!(mark, "solid");
}

#[test]
fn alt_1_goes_back_to_the_chat_before_the_page() {
    let hobd = with_chats(2);
    let page = Page::open(&hobd);
    page.open_chat("chat 1");

    page.open_page("memory");
    page.press("Alt+1");

    page.reads("@title", "chat 1");
    page.shows("@user");
}

#[test]
fn the_address_of_a_chat_whose_first_message_failed_can_be_reloaded() {
    let hobd = Hobd::start_with(Model::Fake, &["--eviction", "off", "--ctx", "256"]);
    let page = Page::open(&hobd);
    page.expect_complaint("400");
    page.expect_complaint("404");
    let long = format!("Say this: {}", "many words ".repeat(400));
    page.send(&long);
    page.shows("@failure");

    page.script("location.reload()");

    page.shows("@unknown");
    page.until("the words are kept", "one('@composer').value.startsWith('Say this: many words')");
    assert_eq!(page.count("@failure"), 0);
}

fn has_focus(title: &str) -> String {
    format!("document.activeElement.querySelector('.chat-title')?.innerText.trim() === {title:?}")
}

fn focused_title(page: &Page) -> String {
    let title = "document.activeElement.querySelector('.chat-title')?.innerText.trim()";
    let title = page.until("a chat has the focus", title);
    title.as_str().unwrap_or_default().to_owned()
}

/// Chats of today: `chat 0` is the latest.
fn with_chats(count: u64) -> Hobd {
    let hobd = Hobd::start(Model::Fake);
    for n in (0..count).rev() {
        let id = format!("chat-{n}");
        hobd.client.say(&id, &format!("Say this: {n}"));
        hobd.client.rename(&id, &format!("chat {n}"));
    }
    hobd
}

/// A chat that was used so many days ago.
fn import(hobd: &Hobd, title: &str, days: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_secs();
    let message = |role: &str, text: &str| json!({"role": role, "content": text});
    let document = json!({
        "format": "hob conversation", "id": title, "title": title,
        "created_at": now - days * DAY_SECS, "updated_at": now - days * DAY_SECS,
        "messages": [
            {"id": 1, "message": message("user", "Hello")},
            {"id": 2, "parent": 1, "message": message("assistant", "Hello")},
        ],
    });
    hobd.client.post("/v1/conversations/import", &document);
}
