//! How soon a piece of an answer is seen: from its arrival in the page to the frame that has it.
//!
//! - A piece has arrived when the page's transport has it in its hands: from `fetch` in a browser, over
//!   a channel in the app.
//! - It is seen when the page does the next thing after it has painted what the piece changed.

use hob_checks::Page;
use hob_checks::desktop::Desktop;
use hob_testkit::Client;
use hob_testkit::wait;

use crate::figures::{Bar, Table};
use crate::seed;

/// Notes what the pieces waited that `arrive` was called for.
const WATCH: &str = "
    window.waits = [];
    let arrived = [];
    const arrive = () => arrived.push(performance.now());
    const channel = new MessageChannel();
    channel.port1.onmessage = ({ data }) => {
        const now = performance.now();
        waits.push(...data.map((then) => now - then));
    };
    new MutationObserver(() => {
        if (!document.querySelector('[data-test=live]')) arrived = [];
        if (arrived.length) channel.port2.postMessage(arrived.splice(0));
    }).observe(document, { subtree: true, childList: true, characterData: true });";

const FETCHED: &str = "
    const read = ReadableStreamDefaultReader.prototype.read;
    ReadableStreamDefaultReader.prototype.read = async function () {
        const piece = await read.call(this);
        if (!piece.done) arrive();
        return piece;
    };";

const SENT_BY_THE_SHELL: &str = "
    const { prototype } = window.__TAURI__.core.Channel;
    const { get, set } = Object.getOwnPropertyDescriptor(prototype, 'onmessage');
    const heard = (hear) => (message) => {
        if (message instanceof ArrayBuffer) arrive();
        hear(message);
    };
    Object.defineProperty(prototype, 'onmessage', { get, set(hear) { set.call(this, heard(hear)); } });";

const TEXT: &str =
    "It is a long answer with **words** of every kind, `code` among them, and it goes on. ";

/// What a browser runs before the page.
pub fn watch() -> String {
    format!("{WATCH}{FETCHED}")
}

/// Asks for a long answer, a hundred pieces a second.
pub fn ask(page: &Page) {
    page.script("window.waits.length = 0");
    page.send(&format!("Say this slowly: {}", TEXT.repeat(6)));
    page.reads("@live", "It is");
}

/// What its pieces waited, once all of it is there.
pub fn waits(page: &Page, answers: usize) -> Vec<f64> {
    page.answered(answers);
    let waits = page.script("return window.waits");
    waits.as_array().into_iter().flatten().filter_map(serde_json::Value::as_f64).collect()
}

/// The same in the app's window.
pub fn measure_in_the_window(runs: usize, table: &mut Table) {
    let desktop = Desktop::open();
    let window = desktop.app_with(&["--ctx", seed::CONTEXT]);
    window.shows("@composer");
    let daemon = wait::until("the daemon has announced itself", || desktop.announced());
    seed::long_chat(&Client::of(&daemon), "long");
    window.script("location.hash = '#/chat/long'");
    window.reads("@talk", "That was the last one.");
    window.script(&format!("{WATCH}{SENT_BY_THE_SHELL}"));
    window.ask("Say this: ready");

    let mut waited = Vec::new();
    for _ in 0..runs {
        let answers = window.count("@answer");
        ask(&window);
        waited.extend(waits(&window, answers + 1));
    }
    table.add("token to pixel in the app's window, every piece", "ms", Bar::Below(32.0), waited);
    desktop.quit(window);
}
