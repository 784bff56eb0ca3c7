//! A chat that is longer than its cells just goes on: parts of it leave them, and come back when it turns
//! to them.

use hob_checks::{Hobd, Model, Page};

/// The chat has some 430 tokens when the question comes: as many as the bundled model answers from well.
const CELLS: &str = "350";

const FACT: &str = "My locker code is 48213.";

const QUESTION: &str = "What is my locker code?";

/// What the bundled model has an answer to, about anything but the locker.
const SMALL_TALK: [&str; 14] = [
    "What is the capital of Peru?",
    "What is the capital of France?",
    "What color is the sky?",
    "What is two plus two?",
    "Hello!",
    "How are you?",
    "What is the opposite of hot?",
    "What color is grass?",
    "What is the capital of Italy?",
    "Thank you!",
    "What is three plus four?",
    "What is the capital of Japan?",
    "Good morning!",
    "What is the capital of Spain?",
];

/// Nothing offers to make room, and nothing failed.
fn goes_on(page: &Page) {
    for place in ["@failure", "@nearly-full", "@go-on", "@room"] {
        page.hides(place);
    }
}

#[test]
fn a_chat_that_is_longer_than_its_cells_goes_on_and_brings_back_what_it_asks_for() {
    let arguments = ["--ctx", CELLS, "--slots", "1"];
    let mut hobd = Hobd::start_with(Model::Bundled, &arguments);
    let page = Page::open_greedy(&hobd);
    page.expect_it_away();
    page.ask("Hello!");
    page.ask(FACT);
    for text in SMALL_TALK {
        page.ask(text);
        goes_on(&page);
    }
    let answer = page.ask(QUESTION);
    assert!(answer.contains("48213"), "{answer}");
    goes_on(&page);
    page.reads("@context", "of 4,096");
    let chat = page.texts("@user, @answer .text");
    // "What is", typed ahead of the last small talk, can bring the fact back before the question.
    let notes = page.texts("@brought-back");
    assert!(notes.iter().any(|note| note.contains("brought back ")), "{notes:?}");

    let figures = page.last_figures();
    assert!(figures.contains(&format!(" of {CELLS} at the end, ")), "{figures}");

    // What is away is drawn as away, in the chat and on the Memory page.
    let marked = page.count("@away");
    assert!((1..chat.len()).contains(&marked), "{marked} of {}", chat.len());
    page.click("@to-memory");
    page.click("@engine");
    page.shows("@strip .o-away");
    page.hover("@strip .o-away");
    page.reads("@tip", "away");

    // It reads as before, after a reload and after a restart.
    for restart in [false, true] {
        if restart {
            hobd.restart();
        }
        page.go(&hobd.origin());
        page.open_chat("Hello!");
        page.answered(SMALL_TALK.len() + 3);
        assert_eq!(page.texts("@user, @answer .text"), chat, "restart: {restart}");
        assert_eq!(page.texts("@brought-back"), notes);
        assert_eq!(page.count("@away"), marked);
        goes_on(&page);
    }
    let again = page.ask(QUESTION);
    assert!(again.contains("48213"), "{again}");
    goes_on(&page);
}
