//! Messages that are pinned.

use hob_checks::Page;

#[test]
fn a_pinned_message_says_so_also_after_a_reload_and_an_edit_and_loses_its_pin_again() {
    let (hobd, page) = Page::with_answers(&["first", "second"]);
    let pins = || {
        let list = hobd.client.get("/v1/conversations");
        let id = list["data"][0]["id"].as_str().expect("there is a chat").to_owned();
        let chat = hobd.client.get(&format!("/v1/conversations/{id}"));
        let messages = chat["messages"].as_array().expect("it has messages");
        messages.iter().map(|message| message["hob"]["pin"] == true).collect::<Vec<bool>>()
    };
    page.hides("@pinned");
    page.hover("@user:nth-child(1)");
    page.choose("@user:nth-child(1) @message-menu", "Pin");
    page.reads("@toast", "stays in the model's memory");
    page.shows("@user:nth-child(1) @pinned");
    assert_eq!(page.focused().1, "More for this message");
    page.hover("@answer:nth-child(4)");
    page.choose("@answer:nth-child(4) @message-menu", "Pin");
    page.shows("@answer:nth-child(4) @pinned");
    assert_eq!(pins(), [true, false, false, true]);

    page.go(&hobd.origin());
    page.open_chat("Say this: first");
    page.answered(2);
    assert_eq!(page.count("@pinned"), 2);

    page.tool("@user:nth-child(1)", "Edit");
    page.shows(".edit textarea");
    page.press("Control+a");
    page.write("Say this: another");
    page.press("Enter");
    page.until("it is answered", "all('@answer .text').at(-1)?.innerText === 'another'");
    page.answered(1);
    page.shows("@user:nth-child(1) @pinned");
    assert_eq!(pins(), [true, false]);
    page.hover("@user:nth-child(1)");
    page.choose("@user:nth-child(1) @message-menu", "Unpin");
    page.hides("@pinned");
    assert_eq!(pins(), [false, false]);
}
