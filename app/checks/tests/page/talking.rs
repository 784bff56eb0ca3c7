//! Sending messages and streaming answers.

use hob_checks::chat::slowly;
use hob_checks::{Hobd, Model, Page};
use hob_testkit::wait;
use serde_json::json;

#[test]
fn an_answer_streams_and_shows_its_cost() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);

    // It takes 5 s, in which the page must be seen.
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(12);
    page.send(&format!("Say this slowly: {text}"));
    page.reads("@live", "The quick");
    page.shows("@stop");
    assert_eq!(page.count("@answer"), 0);
    page.answered(1);

    assert_eq!(page.last_answer(), text.trim());
    let numbers = page.last_numbers();
    assert!(numbers.contains(" tok/s · ") && numbers.ends_with("tokens read"), "{numbers}");
    assert!(!numbers.contains("saved"), "less than a second: {numbers}");
    let figures = page.last_figures();
    for word in ["Time to first token", "Total time", "computed", "fake"] {
        assert!(figures.contains(word), "{word}: {figures}");
    }
    page.shows("@send");

    page.ask("And now?");
    let numbers = page.last_numbers();
    assert!(numbers.contains("tokens remembered"), "{numbers}");
}

#[test]
fn a_stopped_answer_keeps_its_text_and_the_chat_continues() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    let text = "word ".repeat(400);

    page.send(&format!("Say this slowly: {text}"));
    page.reads("@live", "word word");
    page.click("@stop");
    page.answered(1);

    let said = page.last_answer();
    assert!(text.starts_with(&said) && said.len() < text.len() / 2, "{said}");
    page.shows("@answer @interrupted");
    assert_eq!(page.ask("Say this: after all"), "after all");
}

#[test]
fn words_after_a_press_of_send_or_stop_go_into_the_composer() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.focus("@composer");
    page.write("Say this: hello");
    page.click("@send");
    page.answered(1);
    page.focuses("@composer");
    page.send(&slowly(400));
    page.reads("@live", "word word");
    page.click("@stop");
    page.shows("@interrupted");
    page.write("Say this: and on");
    page.press("Enter");
    page.answered(3);
    assert_eq!(page.last_answer(), "and on");
}

#[test]
fn an_answer_continues_while_another_chat_is_shown() {
    let hobd = Hobd::start(Model::Fake);
    hobd.client.say("other", "Say this: elsewhere");
    let page = Page::open(&hobd);

    let text = "this goes on unseen ".repeat(15);
    page.send(&format!("Say this slowly: {text}"));
    page.reads("@live", "this");
    page.open_chat("Say this: elsewhere");
    page.reads("@answer", "elsewhere");
    page.script("history.back()");
    page.reads("@user", "Say this slowly");
    page.answered(1);

    assert_eq!(page.last_answer(), text.trim());
}

#[test]
fn a_long_chat_opens_at_its_end() {
    const TO_END: &str =
        "(talk => talk.scrollHeight - talk.scrollTop - talk.clientHeight < 1)(one('@talk'))";
    let hobd = Hobd::start_with(Model::Fake, &["--ctx", "49152"]);
    let message = |n: usize| match n % 2 {
        0 => json!({"role": "user", "content": format!("And number {n}?")}),
        _ => json!({"role": "assistant", "content": "Of lines and words. ".repeat(n % 3 * 20)}),
    };
    let messages: Vec<_> = (0..61).map(message).collect();
    hobd.client
        .post("/v1/chat/completions", &json!({"conversation": "long", "messages": messages}));
    let page = Page::open(&hobd);

    page.open_chat("And number 0?");
    page.until("all is there", "all('@user').length === 31");
    page.until("its end is shown", TO_END);
    // Messages that are laid out in the same frame take a reader at the end back to it.
    page.until(
        "the reader has gone up",
        "(talk => { talk.scrollTop = 500; return seen(one('.to-end')); })(one('@talk'))",
    );
    page.reads(".to-end", "Jump to the end");
    page.click(".to-end");
    page.until("its end is shown again", TO_END);
    page.send(&format!("Say this slowly: {}", "Of lines and words. ".repeat(40)));
    page.until("it takes several lines", "one('@live')?.clientHeight > 80");
    page.until("its end is shown while it grows", TO_END);
}

#[test]
fn a_scroll_event_after_unmounting_does_no_harm() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);

    page.ask("Say this: something");
    page.script("window.left = [one('@talk'), one('@chats')]");
    page.open_page("memory");
    page.fill("@search", "no chat has this");
    page.until("both have left", "!window.left.some(place => place.isConnected)");
    page.script("window.left.forEach(place => place.dispatchEvent(new Event('scroll')))");

    assert_eq!(page.complaints(), [""; 0]);
}

#[test]
fn markdown_is_rendered() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.cdp(
        "Browser.grantPermissions",
        &json!({"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}),
    );

    page.ask(
        "Say this: # Title\n\nSome **bold** and `code`.\n\n- one\n- two\n\n```rust\nfn main() {}\n```\n\n\
         | a | b |\n|---|---|\n| 1 | 2 |\n",
    );

    for (place, text) in [
        ("@answer .text h3", "Title"),
        ("@answer .text strong", "bold"),
        ("@answer .text :not(pre) > code", "code"),
        ("@answer .text li:last-child", "two"),
        ("@answer .text td:last-child", "2"),
    ] {
        assert_eq!(page.text(place), text, "{place}");
    }
    page.hover("@answer pre");
    page.click("@answer .copy-code");
    page.reads("@toast", "Copied");
    let copied = page.run_async(
        "const done = arguments[0]; navigator.clipboard.readText().then(done, e => done(String(e)))",
        &[],
    );
    assert_eq!(copied.expect("the clipboard can be read"), "fn main() {}");
}

#[test]
fn a_link_opens_only_after_a_question() {
    let (_hobd, page) = Page::with_answers(&["[a place](https://example.org/path)"]);

    page.click("@answer .text a");
    page.reads("@question", "https://example.org/path");
    page.press("Escape");
    page.hides("@question");

    let windows = page.command("window/handles", None).expect("windows can be counted");
    assert_eq!(windows.as_array().map(Vec::len), Some(1));
}

#[test]
fn reasoning_and_calls_of_tools_are_folded() {
    let hobd = Hobd::start(Model::Fake);
    // The fake's output is parsed like any model's, with its reasoning and tool call marks.
    hobd.client.say("folded", "Say this: <think>two and two</think>It is four.");
    hobd.client.call_tool("folded", "set_light", "room", "kitchen");
    hobd.client.rename("folded", "Folded");
    let page = Page::open(&hobd);
    page.open_chat("Folded");

    page.reads("@answer", "It is four.");
    page.reads("@reasoning summary", "Reasoning");
    assert!(!page.texts("@answer").concat().contains("two and two"));
    page.click("@reasoning summary");
    page.reads("@reasoning", "two and two");
    page.click("@tool-call summary");
    page.reads("@tool-call", "kitchen");
}

#[test]
fn reasoning_is_shown_until_the_answer_itself_begins() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    // 6 s each, in which the page must be seen.
    let (thought, rest) = ("hm ".repeat(200), " and so on".repeat(60));
    page.send(&format!("Say this slowly: <think>{thought}</think>It is four{rest}"));
    page.until("it can be read", "seen(one('@live @reasoning div'))");
    page.reads("@live @reasoning", "hm hm");
    page.reads("@live .text", "It is four");
    page.until("it is folded", "one('@reasoning')?.open === false");
    page.answered(1);
    assert_eq!(page.script("return one('@answer @reasoning').open"), false);
}

#[test]
fn an_answer_cut_off_at_the_token_limit_says_so() {
    let hobd = Hobd::start(Model::Fake);
    hobd.client.post(
        "/v1/chat/completions",
        &serde_json::json!({
            "conversation": "short", "hob": {"append": true}, "max_tokens": 5,
            "messages": [{"role": "user", "content": "Say this: more than there is room for"}],
        }),
    );
    let page = Page::open(&hobd);
    page.open_chat("Say this: more than there is room for");
    page.reads("@answer", "stopped at the token limit");
}

#[test]
fn no_text_is_lost_while_the_daemon_is_away() {
    let mut hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_it_away();
    page.ask("Say this: before");

    hobd.kill();
    page.send("Say this: after");
    page.shows("@failure");
    page.reads("@banner", "Hob cannot be reached");
    hobd.start_again();
    page.hides("@banner");
    page.reads("@answer", "before");

    // The message that did not arrive is back in the composer.
    page.until("the words are back", "one('@composer').value === 'Say this: after'");
    page.press("Enter");
    page.answered(2);
    assert_eq!(page.texts("@answer .text"), ["before", "after"]);
}

#[test]
fn a_message_stopped_before_it_was_stored_returns_to_the_composer() {
    let hobd = Hobd::start(Model::Fake);
    hobd.client.say("shared", "Say this: something");
    let page = Page::open(&hobd);
    page.open_chat("Say this: something");
    page.answered(1);
    // Another client sends to the same chat.
    let words = slowly(400);
    let body = json!({"conversation": "shared", "hob": {"append": true}, "messages": [{"role": "user", "content": words}]});
    let _open = hobd.client.call("POST", "/v1/chat/completions").json(&body).open();
    wait::until("it is answered", || hobd.client.is_busy("shared").then_some(()));

    page.send("These words matter");
    page.click("@stop");

    page.until("they are back", "one('@composer').value === 'These words matter'");
    page.hides("@failure");
}

#[test]
fn a_message_that_waits_is_sent_while_another_chat_is_shown() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.send(&slowly(200));
    page.reads("@live", "word word");
    page.write("Say this: and then");
    page.press("Enter");
    page.reads("@composer-hint", "It is sent when this answer is complete");
    page.press("Alt+n");
    page.reads("@title", "New chat");

    let messages =
        || hobd.client.get("/v1/conversations")["data"][0]["message_count"].as_u64() == Some(4);
    wait::until("it is stored, with its answer", || messages().then_some(()));
    page.script("history.back()");
    page.answered(2);
    assert_eq!(page.last_answer(), "and then");
}

#[test]
fn enter_during_an_answer_sends_the_message_when_it_is_complete() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.send(&slowly(200));
    page.reads("@live", "word word");
    page.write("Say this: and then");
    page.press("Enter");
    page.reads("@composer-hint", "It is sent when this answer is complete");
    page.answered(2);
    assert_eq!(page.last_answer(), "and then");
    page.until("the field is empty", "one('@composer').value === ''");

    // Stopping the answer keeps the words.
    page.send(&slowly(400));
    page.reads("@live", "word word");
    page.write("Say this: not yet");
    page.press("Enter");
    page.reads("@composer-hint", "It is sent when");
    page.click("@stop");
    page.answered(3);
    page.reads("@composer-hint", "Enter sends");
    page.until("the words stay", "one('@composer').value === 'Say this: not yet'");
    assert_eq!(page.count("@user"), 3);
}
