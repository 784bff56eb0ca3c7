//! Time until the page can be used, and the size of its scripts and styles.

use hob_checks::page::PAGES;
use hob_checks::{Browser, Hobd, Look, Model, Page};
use serde_json::json;

use crate::figures::{Bar, Table};

/// Records when the composer and the list of chats are painted.
const WATCH: &str = "
    const painted = new MessageChannel();
    painted.port1.onmessage = () => { window.usable = performance.now(); };
    const isUsable = () => document.querySelector('[data-test=composer]') &&
        document.querySelector('.side .empty, [data-test=chat]');
    const look = () => isUsable() ? painted.port2.postMessage(null) : requestAnimationFrame(look);
    requestAnimationFrame(look);";

/// Bytes of the page's own scripts and styles: as one gzip stream, which the budget is for; each
/// file gzipped, as hobd sends them; and plain.
const BYTES: &str = "
    const own = performance.getEntriesByType('resource')
        .filter(({name}) => /\\.(js|css)$/.test(name) && !name.includes('/vendor/'))
        .sort((a, b) => a.name < b.name ? -1 : 1);
    const sum = (size) => own.reduce((bytes, file) => bytes + file[size], 0);
    const gzipped = async () => {
        const files = own.map(({name}) => fetch(name).then((file) => file.blob()));
        const all = new Blob(await Promise.all(files)).stream();
        return (await new Response(all.pipeThrough(new CompressionStream('gzip'))).blob()).size;
    };
    return gzipped().then((size) => [size, sum('encodedBodySize'), sum('decodedBodySize')])";

const MAX_GZIPPED_KIB: f64 = 120.0;

/// The other pages are loaded when the browser is idle: here it never is.
const NEVER_IDLE: &str = "window.requestIdleCallback = () => {};";

/// Bytes of all that a chat with its first message has loaded, as hobd sends them.
const FIRST_MESSAGE: &str = "
    const entries = ['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind));
    const files = entries.filter(({name}) => !name.includes('/v1/'));
    if (!files.some(({name}) => name.endsWith('/markdown-it.js'))) return null;
    return files.reduce((bytes, {encodedBodySize}) => bytes + encodedBodySize, 0)";

const MAX_FIRST_MESSAGE_KB: f64 = 120.0;

pub fn measure(runs: usize, table: &mut Table) {
    let hobd = Hobd::start(Model::Fake);
    let (mut usable, mut first_message) = (Vec::new(), Vec::new());
    let mut bytes = json!([]);
    for _ in 0..runs {
        // A new browser: nothing is cached.
        let page = Page::of(Browser::chromium(Look::default()));
        for source in [WATCH, NEVER_IDLE] {
            page.cdp("Page.addScriptToEvaluateOnNewDocument", &json!({"source": source}));
        }
        page.go(&hobd.address_of_the_page());
        let shown = page.until("the page can be used", "window.usable");
        usable.extend(shown.as_f64());
        page.ask("Say this: hello");
        let loaded = page.script(FIRST_MESSAGE).as_f64().expect("the parser is loaded");
        first_message.push(loaded / 1000.0);
        for (name, _) in PAGES {
            page.open_page(name);
        }
        bytes = page.script(BYTES);
    }
    table.add("navigation to a page that can be used", "ms", Bar::Below(1500.0), usable);
    let most = Bar::Below(MAX_FIRST_MESSAGE_KB);
    table.add("a chat with its first message, as sent", "KB", most, first_message);
    let rows =
        [("gzipped", Bar::Below(MAX_GZIPPED_KIB)), ("as sent", Bar::None), ("plain", Bar::None)];
    for (index, (name, bar)) in rows.into_iter().enumerate() {
        let size = bytes[index].as_f64().expect("a sum") / 1024.0;
        table.add(&format!("the page's own scripts and styles, {name}"), "KiB", bar, vec![size]);
    }
}
