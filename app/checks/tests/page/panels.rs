//! What opens from a chat and beside it: axe in both themes, a narrow window, the keyboard, and a press
//! beside a dialog.

use std::fs;

use hob_checks::{Hobd, Look, Model, Page, axe};
use serde_json::json;

const NARROW: (u32, u32) = (320, 640);

#[test]
fn a_dialog_closes_at_a_press_beside_it_and_not_on_its_scroll_bar() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    page.script("document.activeElement.blur()");
    page.press("?");
    page.shows("@help");
    press_at(&page, "@help", "right - 4");
    assert_eq!(page.count("@help"), 1);
    press_at(&page, "@help", "right + 4");
    page.hides("@help");
}

#[test]
fn a_press_beside_a_dialog_loses_nothing_that_was_written_in_it() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.click("@sampling");
    page.fill("@sampling-dialog [name=max_tokens]", "5");
    press_at(&page, "@sampling-dialog", "right + 4");
    page.click("@save-sampling");
    page.hides("@sampling-dialog");
    page.reads("@sampling", "Own sampling");

    page.edit_templates();
    page.click("@new-template");
    page.until("it is there", "all('@template-editor fieldset').length === 7");
    page.fill("@template-editor fieldset:nth-of-type(7) input", "Haiku");
    press_at(&page, "@template-editor", "right + 4");
    page.put("@template-editor fieldset:nth-of-type(7) textarea", "A haiku about ");
    page.click("@save-templates");
    page.hides("@template-editor");
    page.focus("@composer");
    page.write("/haiku");
    page.reads("@template", "A haiku about");
}

/// Answers each change with an error.
const REFUSE_CHANGES: &str = "
    const answer = window.fetch;
    window.fetch = (path, options) => {
        if (!['PATCH', 'PUT'].includes(options?.method)) return answer(path, options);
        const error = JSON.stringify({ error: { message: 'the disk is gone' } });
        return Promise.resolve(new Response(error, { status: 500 }));
    };";

#[test]
fn what_cannot_be_saved_is_said_in_its_dialog() {
    let (_hobd, page) = Page::with_answers(&["apples"]);
    page.script(REFUSE_CHANGES);
    page.click("@sampling");
    page.click("@save-sampling");
    page.reads("@sampling-dialog [role=alert]", "the disk is gone");
    page.press("Escape");
    page.hides("@sampling-dialog");

    page.edit_templates();
    page.click("@save-templates");
    page.reads("@template-editor [role=alert]", "the disk is gone");
    assert_eq!(page.count("@toast"), 0, "it would stand behind the dialog");
}

/// A press at the height of the dialog's title. `x`: of its edge `right`.
fn press_at(page: &Page, dialog: &str, x: &str) {
    page.script(&format!(
        "const {{right, top}} = one('{dialog}').getBoundingClientRect();
         const place = {{clientX: {x}, clientY: top + 20, bubbles: true}};
         one('{dialog}').dispatchEvent(new MouseEvent('mousedown', place))"
    ));
}

#[test]
fn axe_finds_nothing_in_what_opens_from_a_chat_in_light() {
    from_a_chat(false);
}

#[test]
fn axe_finds_nothing_in_what_opens_from_a_chat_in_dark() {
    from_a_chat(true);
}

#[test]
fn axe_finds_nothing_in_the_list_the_trash_the_library_and_the_dialogs() {
    for dark in [false, true] {
        beside_a_chat(dark);
    }
}

#[test]
fn axe_finds_nothing_where_a_chat_is_full() {
    for dark in [false, true] {
        full(dark);
    }
}

fn from_a_chat(dark: bool) {
    let hobd = Hobd::start(Model::Fake);
    say_with_a_tool(&hobd);
    hobd.client.say(
        "tool",
        "Say this: # Castle\n\n```rust\nfn main() {}\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |",
    );
    let judge = Judge { page: opened(&hobd, dark), dark };
    let page = &judge.page;
    page.open_chat("A tool");
    page.answered(3);
    page.script("all('details').forEach(fold => { fold.open = true; })");
    judge.look("a result of a tool");
    page.last_figures();
    judge.look("all figures");
    page.click("@numbers");
    for (opener, panel) in [
        ("@model", "[role=menu]"),
        ("@chat-menu", "[role=menu]"),
        ("@instructions", "@instructions-panel"),
        ("@context", "@room"),
        ("@sampling", "@sampling-dialog"),
    ] {
        page.click(opener);
        page.shows(panel);
        judge.look(opener);
        page.press("Escape");
        page.hides(panel);
    }
    page.focus("@composer");
    page.press("Control+f");
    page.shows("@find");
    page.write("castle");
    page.reads("@find-count", " of 4");
    judge.look("find");
    page.press("Escape");
    page.write("/");
    page.shows("@templates");
    judge.look("templates");
    page.click("@edit-templates");
    page.shows("@template-editor");
    judge.look("template editor");
}

fn beside_a_chat(dark: bool) {
    let hobd = Hobd::with_chats(&["apples", "pears", "plums"]);
    hobd.client.patch("/v1/conversations/plums", &json!({"trashed": true}));
    let judge = Judge { page: opened(&hobd, dark), dark };
    let page = &judge.page;
    page.until("both are listed", "all('@chat').length === 2");
    page.click_with("Control", "@chat:nth-child(2) .chat-link");
    page.reads("@picked-bar", "One selected");
    judge.look("picked chats");
    page.click("@picked-none");

    page.click("@to-trash");
    page.shows("@trashed");
    judge.look("trash");
    page.click("@trash-empty");
    page.shows("@question");
    judge.look("emptying the trash");
    page.press("Escape");

    page.click("@to-library");
    page.reads("@page-library", "Drop text");
    judge.look("an empty library");
    let document = hobd.directory().join("castle.md");
    fs::write(&document, "The castle had seven doors.\n".repeat(20)).unwrap();
    page.choose_file("@library-file", &document);
    page.shows("@library-row[data-state=ready]");
    judge.look("library");
    page.click("@library-start");
    page.shows("@document-chip[data-state=ready]");
    judge.look("a document");
    page.click("@document-chip button");
    page.reads("@document-text", "seven doors");
    judge.look("the text of a document");
    page.press("Escape");

    page.expect_complaint("400");
    let shopping = hobd.directory().join("shopping.json");
    fs::write(&shopping, r#"{"bread": 2}"#).unwrap();
    page.import(&shopping);
    page.shows("@question");
    judge.look("an import that failed");
    page.click("@yes");

    page.open_page("memory");
    page.shows("@page-memory table");
    page.click("@engine");
    judge.look("the engine");
    page.open_page("profiles");
    judge.look("no instructions");
    page.open_page("models");
    page.click("@first-steps");
    page.shows("@suggestion");
    judge.look("first steps");
    page.open_page("settings");
    page.shows("@set-slots");
    judge.look("settings");
}

fn full(dark: bool) {
    let long = "abcdefgh ".repeat(12);
    let hobd = Hobd::with_a_long_chat(&["the first ", "the second "], &long);
    let judge = Judge { page: opened(&hobd, dark), dark };
    let page = &judge.page;
    page.expect_complaint("400");
    page.open_chat("A long chat");
    page.shows("@nearly-full");
    judge.look("nearly full");
    page.click("@make-room");
    page.shows("@room");
    judge.look("ways to make room");
    page.click("@room [aria-label=Close]");
    page.send(&format!("Say this: the third {long}"));
    page.shows("@failure @go-on");
    judge.look("full");
}

/// The result of a tool is a message of its own.
fn say_with_a_tool(hobd: &Hobd) {
    let call = json!({"id": "a", "type": "function",
        "function": {"name": "doors", "arguments": "{\"castle\": \"old\"}"}});
    hobd.client.post(
        "/v1/chat/completions",
        &json!({"conversation": "tool", "messages": [
            {"role": "user", "content": "Say this: seven"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "{\"doors\": 7}"},
        ]}),
    );
    hobd.client.rename("tool", "A tool");
}

fn opened(hobd: &Hobd, dark: bool) -> Page {
    Page::open_as(hobd, Look { dark, still: true, ..Look::default() })
}

struct Judge {
    page: Page,
    dark: bool,
}

impl Judge {
    /// Of the page as it is now: no finding of axe, and nothing wider than a narrow window.
    fn look(&self, place: &str) {
        let theme = if self.dark { "dark" } else { "light" };
        let wide = Look { dark: self.dark, still: true, ..Look::default() };
        let findings = axe::findings(&self.page);
        assert!(findings.is_empty(), "{place}, {theme}:\n{}", findings.join("\n"));
        let (width, height) = NARROW;
        self.page.show(Look { width, height, ..wide });
        self.page.until(
            &format!("nothing of {place} is wider than {width} pixels"),
            "[document.documentElement, ...all('.page, .page-body, .talk, .composer, dialog')]
                 .every(e => e.scrollWidth <= e.clientWidth + 1)",
        );
        self.page.show(wide);
    }
}

#[test]
fn an_item_of_a_menu_that_cannot_be_chosen_is_not_marked_under_the_pointer() {
    let hobd = Hobd::start_with(Model::Fake, &["--model", "fake"]);
    let page = Page::open(&hobd);
    page.click("@model");
    page.until("the models are listed", "all('[role=menuitem]').length > 2");
    page.press("Down");
    page.hover("[role=menuitem][aria-disabled]");
    let item = "one('[role=menuitem][aria-disabled]')";
    page.until("the pointer is on it", &format!("{item}.matches(':hover')"));
    let paint = page.script(&format!("return getComputedStyle({item}).backgroundColor"));
    assert_eq!(paint, "rgba(0, 0, 0, 0)");
}

#[test]
fn each_panel_opens_with_a_key_and_gives_the_focus_back_at_escape() {
    let hobd = Hobd::start_with(Model::Fake, &["--eviction", "off", "--ctx", "2048"]);
    hobd.client.say("castle", "Say this: seven doors");
    hobd.client.rename("castle", "Castle");
    let page = Page::open(&hobd);
    page.open_chat("Castle");
    page.answered(1);
    page.shows("@context");

    for (opener, panel) in [
        ("@model", "[role=menu]"),
        ("@chat-menu", "[role=menu]"),
        ("@instructions", "@instructions-panel"),
        ("@context", "@room"),
        ("@sampling", "@sampling-dialog"),
    ] {
        page.script_with("one(arguments[0]).focus()", &[json!(opener)]);
        page.press("Enter");
        let inside = format!("one('{panel}')?.contains(document.activeElement)");
        page.until(&format!("{panel} has the focus"), &inside);
        // The models of the machine are looked for when the menu opens.
        let is_filled = "!one('[role=menu]') || all('[role=menuitem]').length > 1";
        page.until(&format!("{panel} is filled"), is_filled);
        let at_first = "window.before = document.activeElement; return true";
        page.script(at_first);
        page.press(if panel == "[role=menu]" { "Down" } else { "Tab" });
        let moved = format!("document.activeElement !== window.before && {inside}");
        page.until(&format!("the focus moves in {panel}"), &moved);
        page.press("Escape");
        page.hides(panel);
        page.focuses(opener);
    }

    page.press("Control+f");
    page.focuses("@find-words");
    page.write("seven");
    page.reads("@find-count", "1 of");
    page.press("Tab");
    page.until("a button has it", "one('@find button:focus')");
    page.press("Escape");
    page.hides("@find");
    page.focuses("@composer");
}
