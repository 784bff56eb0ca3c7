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

/// Bytes of our own scripts and styles, comments and all: as they are, and as they are sent.
const BYTES: &str = "
    const own = performance.getEntriesByType('resource')
        .filter(({name}) => /\\.(js|css)$/.test(name) && !name.includes('/vendor/'));
    return ['decodedBodySize', 'encodedBodySize']
        .map(size => own.reduce((sum, file) => sum + file[size], 0))";

pub fn measure(runs: usize, table: &mut Table) {
    let hobd = Hobd::start(Model::Fake);
    let mut usable = Vec::new();
    let mut bytes = json!([]);
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
        bytes = page.script(BYTES);
    }
    table.add("navigation to a page that can be used", "ms", Bar::Below(1500.0), usable);
    for (index, name) in ["as they are", "as sent"].into_iter().enumerate() {
        let size = bytes[index].as_f64().expect("a sum") / 1000.0;
        let name = format!("our own scripts and styles, {name}");
        table.add(&name, "KB", Bar::Below(200.0), vec![size]);
    }
}
