//! A long list of chats: how soon it shows what is searched.

use hob_checks::{Hobd, Model, Page};

use crate::figures::{Bar, Table};
use crate::seed;

/// From the key to the painted list: the first row has what was typed, and no other.
const WATCH: &str = "
    const [word] = arguments;
    window.wait = null;
    document.addEventListener('keydown', ({ timeStamp }) => {
        const channel = new MessageChannel();
        channel.port1.onmessage = () => {
            window.wait = performance.now() - timeStamp;
        };
        const look = () => {
            const field = document.querySelector('[data-test=search]');
            const rows = [...document.querySelectorAll('[data-test=chat] .chat-title')];
            const isShown = field.value === word && rows.length && rows.every((row) => row.textContent.includes(word));
            if (isShown) channel.port2.postMessage(null);
            else requestAnimationFrame(look);
        };
        requestAnimationFrame(look);
    }, { once: true, capture: true });";

pub fn measure(runs: usize, table: &mut Table) {
    let hobd = Hobd::start(Model::Fake);
    seed::many_chats(&hobd.client);
    let page = Page::open(&hobd);
    page.shows("@chat");
    let mut waits = Vec::new();
    for run in 0..runs {
        let word = ["journey", "piano", "letter"][run % 3];
        page.fill("@search", "");
        for (at, letter) in word.char_indices() {
            let typed = &word[..at + letter.len_utf8()];
            page.script_with(WATCH, &[typed.into()]);
            page.write(&letter.to_string());
            waits.extend(page.until("the list shows it", "window.wait").as_f64());
        }
    }
    let what = format!("{} chats: key to the list that it leaves", seed::CHATS);
    table.add(&what, "ms", Bar::Below(100.0), waits);
}
