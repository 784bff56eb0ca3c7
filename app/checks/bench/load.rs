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

/// What was sent of our own scripts and styles, comments and the texts of one language among it.
const BYTES: &str = "
    return performance.getEntriesByType('resource')
        .filter(({name}) => /\\.(js|css)$/.test(name) && !name.includes('/vendor/'))
        .reduce((sum, {encodedBodySize}) => sum + encodedBodySize, 0)";

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
            page.open_page(name);
        }
        bytes = page.script(BYTES).as_f64().expect("a sum");
    }
    table.add("navigation to a page that can be used", "ms", Bar::Below(1500.0), usable);
    table.add("our own scripts and styles, as sent", "KB", Bar::Below(200.0), vec![bytes / 1000.0]);
}
