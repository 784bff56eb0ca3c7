//! Branches: edits and other answers overwrite nothing.

use hob_checks::{Hobd, Model, Page};
use serde_json::json;

#[test]
fn an_edited_question_starts_a_branch_and_the_old_one_stays() {
    let (hobd, page) = Page::with_answers(&["first", "second"]);

    page.tool("@user:nth-child(1)", "Edit");
    page.shows(".edit textarea");
    page.press("Control+a");
    page.write("Say this: another first");
    page.press("Enter");
    page.until("the branch is there", "all('@answer').length === 1 && !one('@live')");
    assert_eq!(page.last_answer(), "another first");
    page.reads("@user @siblings", "2/2");
    let branches = page.text("@user @siblings");
    assert!(!branches.contains("shares"), "only the beginning of the question: {branches}");

    page.tool("@user:nth-child(1)", "Previous branch");
    page.answered(2);
    assert_eq!(page.texts("@answer .text"), ["first", "second"]);
    page.reads("@user @siblings", "1/2");

    // The chosen branch is the one that continues, here and in other clients.
    page.go(&hobd.origin());
    page.open_chat("Say this: first");
    page.answered(2);
    assert_eq!(page.texts("@answer .text"), ["first", "second"]);
}

#[test]
fn the_focus_stays_on_the_arrows_between_branches() {
    let (_hobd, page) = Page::with_answers(&["apples"]);
    for variants in ["2/2", "3/3"] {
        page.tool("@answer", "Regenerate");
        page.reads("@answer @siblings", variants);
        page.answered(1);
    }
    page.script("one('@siblings [data-step=\"-1\"]').focus()");
    for (place, arrow) in
        [("2/3", "Previous branch"), ("1/3", "Next branch"), ("2/3", "Next branch")]
    {
        page.press("Enter");
        page.reads("@answer @siblings", place);
        let has_it = format!("document.activeElement.getAttribute('aria-label') === '{arrow}'");
        page.until("the arrow of the other branch has the focus", &has_it);
    }
}

#[test]
fn words_that_are_begun_while_a_branch_comes_keep_the_focus() {
    let (_hobd, page) = Page::with_answers(&["apples"]);
    page.tool("@answer", "Regenerate");
    page.reads("@answer @siblings", "2/2");
    page.answered(1);
    page.script("one('@siblings [data-step=\"-1\"]').click(); one('@composer').focus()");
    page.reads("@answer @siblings", "1/2");
    // The arrow asks for the focus in the frame behind the drawing of the branch.
    page.script(
        "requestAnimationFrame(() => requestAnimationFrame(() => { window.hasDrawn = true }))",
    );
    page.until("two more frames are drawn", "window.hasDrawn");
    let focused = page.script("return document.activeElement.dataset.test");
    assert_eq!(focused, "composer");
}

#[test]
fn another_answer_is_a_sibling_and_shares_the_prompt() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.ask("Tell me something.");

    page.tool("@answer", "Regenerate");
    page.reads("@answer @siblings", "2/2");
    page.answered(1);
    page.reads("@answer @siblings", "shares");

    let second = page.last_answer();
    page.tool("@answer", "Previous branch");
    page.reads("@answer @siblings", "1/2");
    page.tool("@answer", "Next branch");
    page.reads("@answer @siblings", "2/2");
    assert_eq!(page.last_answer(), second);
}

#[test]
fn a_cold_answer_reuses_nothing_and_says_so() {
    let (_hobd, page) = Page::with_answers(&["the same", "once more"]);
    assert!(page.last_numbers().contains("tokens remembered"), "{}", page.last_numbers());
    assert!(page.last_figures().contains(" hot"), "{}", page.last_figures());

    page.click("@answer-cold");
    page.reads("@answer:nth-child(4) @siblings", "2/2");
    page.answered(2);

    let numbers = page.last_numbers();
    assert!(numbers.starts_with("cold") && numbers.ends_with("tokens read"), "{numbers}");
    let numbers = page.last_figures();
    for word in [" hot", "from memory", "from disk"] {
        assert!(!numbers.contains(word), "{numbers}");
    }
    assert_eq!(page.last_answer(), "once more");
}

#[test]
fn a_branch_reopens_where_it_was_last_used() {
    let (_hobd, page) = Page::with_answers(&["one", "two"]);
    let edit = |message: &str, text: &str| {
        page.tool(message, "Edit");
        page.shows(".edit textarea");
        page.press("Control+a");
        page.write(text);
        page.press("Enter");
        page.until("it is answered", "!one('@live') && !one('.edit') && one('@siblings')");
    };
    edit("@user:nth-child(3)", "Say this: another two");
    page.until("the branch is there", "all('@answer .text').at(-1).innerText === 'another two'");
    page.tool("@user:nth-child(3)", "Previous branch");
    page.until("the first is back", "all('@answer .text').at(-1).innerText === 'two'");
    page.ask("Say this: three");
    edit("@user:nth-child(1)", "Say this: another one");
    page.answered(1);

    page.tool("@user:nth-child(1)", "Previous branch");

    page.answered(3);
    assert_eq!(page.texts("@answer .text"), ["one", "two", "three"]);
}

#[test]
fn other_instructions_start_a_branch_too() {
    let hobd = Hobd::start(Model::Fake);
    for word in ["short", "long"] {
        hobd.client.post(
            "/v1/chat/completions",
            &json!({"conversation": "told", "messages": [
                {"role": "system", "content": format!("Keep every answer {word}.")},
                {"role": "user", "content": format!("Say this: {word}")},
            ]}),
        );
    }
    hobd.client.rename("told", "Told");
    let page = Page::open(&hobd);
    page.open_chat("Told");
    page.reads("@answer .text", "long");

    page.click("@siblings [aria-label='Previous branch']");

    page.reads("@answer .text", "short");
    page.reads("@siblings", "1/2");
}
