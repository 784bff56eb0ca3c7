//! How soon the page can be used, and what it weighs.

use hob_checks::page::PAGES;
use hob_checks::{Browser, Hobd, Look, Model, Page};
use serde_json::json;

use crate::figures::{Bar, Table};

/// Notes when one can write and the list of chats was read.
const WATCH: &str = "
    const painted = new MessageChannel();
    painted.port1.onmessage = () => { window.usable = performance.now(); };
    const isUsable = () => document.querySelector('[data-test=composer]') &&
        document.querySelector('.side .empty, [data-test=chat]');
    const look = () => isUsable() ? painted.port2.postMessage(null) : requestAnimationFrame(look);
    requestAnimationFrame(look);";

/// The scripts and styles that were loaded: what they do, without comments, and what people read.
const BYTES: &str = "
    const done = arguments[0];
    const isOurs = (name) => /\\.(js|css)$/.test(name) && !/\\/(vendor|strings)\\//.test(name);
    const names = performance.getEntriesByType('resource').map(({name}) => name).filter(isOurs);
    const size = (text) => text.split('\\n').map((line) => line.trim())
        .filter((line) => !/^(\\/\\/|\\/\\*|\\*)/.test(line)).reduce((sum, line) => sum + line.length + 1, 0);
    Promise.all([...new Set(names)].map((name) => fetch(name).then((file) => file.text())))
        .then((texts) => done(texts.reduce((sum, text) => sum + size(text), 0)));";

pub fn measure(runs: usize, table: &mut Table) {
    let hobd = Hobd::start(Model::Fake);
    let mut usable = Vec::new();
    let mut bytes = 0.0;
    for _ in 0..runs {
        // A browser that has nothing of it yet.
        let page = Page::of(Browser::chromium(Look::default()));
        page.cdp("Page.addScriptToEvaluateOnNewDocument", &json!({"source": WATCH}));
        page.go(&hobd.address_of_the_page());
        let shown = page.until("the page can be used", "window.usable");
        usable.extend(shown.as_f64());
        for (name, _) in PAGES {
            page.click(&format!("@to-{name}"));
            page.shows(&format!("@page-{name} .page-width > *"));
        }
        bytes = page.run_async(BYTES, &[]).ok().and_then(|sum| sum.as_f64()).expect("a sum");
    }
    table.add("navigation to a page that can be used", "ms", Bar::Below(1500.0), usable);
    table.add("our own scripts and styles", "KB", Bar::Below(200.0), vec![bytes / 1000.0]);
}
