//! The scene of the README's picture: a long text is read once; days and a restart later, the first word of
//! an answer about it is there at once.
//!
//! - With the fetched model; otherwise with the bundled one.
//! - `HOB_FILM=1` takes the whole text, 7,000 tokens of the 8,192 that the model was trained with, and saves the
//!   frames in `target/checks/film`; `docs/images/make-film.py` joins them. Otherwise the text is a seventh.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use hob_checks::{Hobd, Look, Model, Page, tools};
use hob_testkit::wait;
use serde_json::{Value, json};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// A word of the question: 150 a minute, as a quick typist has them.
const TYPED_MS: u32 = 400;

/// About 40 tokens each.
const PARAGRAPHS: usize = 172;

fn is_film() -> bool {
    env::var_os("HOB_FILM").is_some_and(|wanted| wanted == "1")
}

/// A chronicle whose paragraphs all differ.
fn chronicle(paragraphs: usize) -> String {
    const WHO: [&str; 7] = [
        "The baker",
        "The miller",
        "A carpenter",
        "The doctor",
        "A sailor",
        "The teacher",
        "A farmer",
    ];
    const WHAT: [&str; 5] = [
        "opened a second door towards the river",
        "painted the old bridge in green and white",
        "found a map under the floor of the town hall",
        "planted nine apple trees beside the school",
        "built a small boat from the wood of the mill",
    ];
    const WHY: [&str; 3] = [
        "because the winter had been long and the roads were closed",
        "and the whole street came to look at it on Sunday",
        "as the council had asked for it two years before",
    ];
    let paragraph = |n: usize| {
        let year = 1700 + n;
        let (who, what, why) = (WHO[n % 7], WHAT[n % 5], WHY[n % 3]);
        format!(
            "{year}. {who} {what}, {why}. It cost {} coins and took {} days.\n\n",
            n * 3 + 5,
            n % 40 + 2
        )
    };
    (1..=paragraphs).map(paragraph).collect()
}

struct Film {
    frames: PathBuf,
    taken: usize,
}

impl Film {
    fn new(look: Look) -> Self {
        let theme = if look.dark { "dark" } else { "light" };
        let frames = tools::reports().join("film").join(theme);
        if is_film() {
            fs::remove_dir_all(&frames).ok(); // There is none before the first film.
            fs::create_dir_all(&frames).unwrap();
        }
        Self { frames, taken: 0 }
    }

    /// A frame that is shown for this long.
    fn frame(&mut self, page: &Page, shown_ms: u32) {
        if !is_film() {
            return;
        }
        let name = format!("{:03}-{shown_ms}.png", self.taken);
        self.taken += 1;
        fs::write(self.frames.join(name), page.picture().unwrap()).unwrap();
    }
}

fn finish(hobd: &Hobd, conversation: &str) -> Value {
    let path = format!("/v1/conversations/{conversation}");
    let messages = hobd.client.get(&path)["messages"].clone();
    messages.as_array().unwrap().last().unwrap()["finish"].clone()
}

/// Tokens of the prompt that were computed for the answer, and all others.
fn counts(finish: &Value) -> (u64, u64) {
    let count = |of: &Value, name: &str| of[name].as_u64().unwrap_or_else(|| panic!("{finish}"));
    let hob = &finish["hob"];
    let computed = count(&hob["tokens"], "computed") + count(&hob["ahead"], "computed");
    (computed, count(&finish["usage"], "prompt_tokens") - computed)
}

/// Keeps the answers of a new chat short: at the model's own temperature one may fill the context.
fn keep_short(page: &Page) {
    page.click("@sampling");
    page.click("@preset-precise");
    page.fill("[name=max_tokens]", "60");
    page.click("@save-sampling");
    page.hides("@sampling-dialog");
}

fn play(look: Look) {
    let text = chronicle(if is_film() { PARAGRAPHS } else { PARAGRAPHS / 7 });
    let ctx = if is_film() { "8192" } else { "4096" };
    let mut hobd =
        Hobd::start_changed(Model::Real, &["--ctx", ctx], |launch, _| launch.with_clock());
    let page = Page::open_as(&hobd, look);
    let mut film = Film::new(look);
    page.shows("@composer");
    keep_short(&page);
    film.frame(&page, 1200);
    page.script_with(
        "const dataTransfer = new DataTransfer();
         dataTransfer.items.add(new File([arguments[0]], 'chronicle.txt'));
         const fire = kind => one('@composer').dispatchEvent(
             new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer}));
         window.drop = () => fire('drop');
         fire('dragover')",
        &[json!(text)],
    );
    page.shows("@drop-here");
    film.frame(&page, 900);
    // The bundled model may read it in less than a second: what the chip says is recorded as it changes.
    page.script(
        "window.told = new Set();
         new MutationObserver(() => all('@document-chip[data-state=reading]').forEach(chip => told.add(chip.textContent)))
             .observe(document.body, {childList: true, subtree: true, characterData: true, attributes: true})",
    );
    page.script("window.drop()");

    // It is read once, visibly.
    page.until(
        "it says how far it is",
        "[...told].some(text => /Reading [\\d,]+ of [\\d,]+ tokens/.test(text))",
    );
    while page.count("@document-chip[data-state=reading]") > 0 {
        film.frame(&page, 250);
        std::thread::sleep(Duration::from_millis(if is_film() { 1500 } else { 100 }));
    }
    page.shows("@document-chip[data-state=ready]");
    film.frame(&page, 1200);
    let document = hobd.client.get("/v1/documents")["data"][0].clone();
    let tokens = document["tokens"].as_u64().unwrap();
    page.ask("What is this text about?");
    film.frame(&page, 1500);
    let chat = page.script("return location.hash.split('/').at(-1)");
    let chat = chat.as_str().unwrap().to_owned();
    let first = finish(&hobd, &chat);
    let (computed, remembered) = counts(&first);
    assert!(remembered >= tokens && computed < 64, "it was read before the question: {first}");
    let total = first["usage"]["total_tokens"].as_u64().unwrap();
    let saved = wait::until("the chat is saved", || {
        let tokens = hobd.client.get(&format!("/v1/conversations/{chat}"))["tokens"].as_u64()?;
        (tokens + 1 >= total).then_some(tokens)
    });

    // The lid is closed; three days pass.
    page.expect_it_away();
    hobd.stop();
    hobd.pass(3 * DAY);
    hobd.start_again();
    page.go("about:blank");
    page.go(&hobd.address_of_the_page());
    page.open_chat("What is this text about?");
    page.answered(1);
    film.frame(&page, 1500);
    let question = "Who painted the old bridge?";
    page.focus("@composer");
    for word in question.split_inclusive(' ') {
        page.write(word);
        film.frame(&page, TYPED_MS);
        if is_film() {
            std::thread::sleep(Duration::from_millis(TYPED_MS.into()));
        }
    }
    page.press("Enter");
    page.answered(2);
    film.frame(&page, 3000);
    let next = finish(&hobd, &chat);
    let (computed, remembered) = counts(&next);
    assert_eq!(remembered, saved, "all that was saved, from disk: {next}");
    assert!(computed < 64, "only what is new: {next}");
    let numbers = page.last_numbers();
    assert!(numbers.contains("tokens remembered"), "{numbers}");

    // A second chat about the same document.
    page.open_page("library");
    page.click("@library-start");
    page.shows("@document-chip[data-state=ready]");
    keep_short(&page);
    page.ask(question);
    let chat = page.script("return location.hash.split('/').at(-1)");
    let other = finish(&hobd, chat.as_str().unwrap());
    let (computed, remembered) = counts(&other);
    assert!(remembered >= tokens && computed < 64, "it shares the document: {other}");
    let ms = |of: &Value, name: &str| of["hob"][name].as_f64().unwrap_or(0.0).round();
    println!(
        "document of {tokens} tokens: first token after three days and a restart {} ms, saved about {} ms; \
         in a second chat {} ms",
        ms(&next, "ttft_ms"),
        ms(&next, "saved_ms"),
        ms(&other, "ttft_ms"),
    );
}

#[test]
fn a_long_text_is_read_once_and_days_later_an_answer_begins_at_once() {
    let look = Look { width: 1000, height: 640, still: true, ..Look::default() };
    play(look);
    if is_film() {
        play(Look { dark: true, ..look });
    }
}
