//! A hidden page asks the daemon for nothing.

use hob_checks::{Hobd, Page};
use hob_testkit::wait;
use serde_json::json;

/// Runs the page's timers by hand. `tick(isHidden)` runs those that repeat, once, and returns the requests that they
/// send. The profile `home` is always being read ahead.
const BY_HAND: &str = "
    const acts = new Map();
    const clear = window.clearInterval;
    let last = 0;
    window.setInterval = (act) => { last -= 1; acts.set(last, act); return last; };
    window.clearInterval = (id) => { if (!acts.delete(id)) clear.call(window, id); };
    let isHidden = false;
    Object.defineProperty(document, 'hidden', { get: () => isHidden });
    let asked = [];
    const answer = window.fetch;
    window.fetch = async (path, ...rest) => {
        asked.push(String(path));
        const response = await answer(path, ...rest);
        if (path !== '/v1/profiles/home') return response;
        return Response.json({ ...(await response.json()), state: 'warming' });
    };
    window.tick = (hidden) => {
        isHidden = hidden;
        asked = [];
        for (const act of [...acts.values()]) act();
        isHidden = false;
        return asked;
    };";

#[test]
fn a_hidden_page_asks_for_nothing() {
    let hobd = Hobd::with_chats(&["apples"]);
    hobd.write_rules("home", &["Be brief."]);
    let page = Page::open(&hobd);
    page.shows("@composer");
    page.cdp("Page.addScriptToEvaluateOnNewDocument", &json!({"source": BY_HAND}));
    page.go(&hobd.origin());
    page.shows("@composer");
    for (place, asked) in [
        ("trash", "/v1/conversations?trashed=true"),
        ("library", "/v1/documents?"),
        ("profiles/home", "/v1/profiles/home"),
        ("chat/apples", "/v1/status"),
    ] {
        page.script_with("location.hash = `#/${arguments[0]}`", &[place.into()]);
        wait::until(&format!("{asked} is asked for"), || {
            let sent = page.script("return tick(false)");
            sent.as_array()?.iter().any(|path| path == asked).then_some(())
        });
        assert_eq!(page.script("return tick(true)"), json!([]), "{place}");
    }
}
