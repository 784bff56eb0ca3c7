//! Model output is hostile input: whatever a model, a file or another client writes, no script runs,
//! nothing is loaded from elsewhere, and the page stays where it is.

use std::collections::BTreeSet;

use hob_checks::canary::Canary;
use hob_checks::{Browser, Hobd, Model, Page, hostile};
use serde_json::{Value, json};

/// Payloads in one chat.
const IN_A_CHAT: usize = 20;

#[test]
fn payloads_that_stream_in_do_nothing() {
    let world = World::new();
    for chat in world.payloads.chunks(IN_A_CHAT) {
        world.page.press("Alt+n");
        for (index, payload) in chat.iter().enumerate() {
            world.say(payload);
            world.page.answered(index + 1);
            let sent = world.page.script("return all('@user .bubble').at(-1).textContent");
            assert_eq!(sent, format!("Say this: {}", payload.trim()));
        }
        world.page.poke_at_everything();
        world.nothing_happened();
    }
}

#[test]
fn payloads_that_are_read_back_do_nothing() {
    let world = World::new();
    for (number, chat) in world.payloads.chunks(IN_A_CHAT).enumerate() {
        let messages: Vec<Value> = chat
            .iter()
            .flat_map(|payload| {
                ["user", "assistant"].map(|role| json!({"role": role, "content": payload}))
            })
            .chain([json!({"role": "user", "content": format!("Say this: chat {number}")})])
            .collect();
        let conversation = format!("read-{number}");
        world.hobd.client.post(
            "/v1/chat/completions",
            &json!({"conversation": conversation, "messages": messages}),
        );
        world.rename(&conversation, &format!("chat {number}"));
        world.page.go(&format!("{}/#/chat/{conversation}", world.hobd.origin()));
        world.page.script("location.reload()");
        world.page.reads("@answer", &format!("chat {number}"));
        world.page.poke_at_everything();
        world.nothing_happened();
    }
}

#[test]
fn payloads_in_titles_reasoning_and_calls_do_nothing() {
    let world = World::new();
    let one_line = |payload: &&String| !payload.contains(['\n', '\t', '\u{1}']);
    for (number, payload) in world.payloads.iter().filter(one_line).step_by(4).enumerate() {
        let conversation = format!("title-{number}");
        let thought = format!("Say this: <think>{payload}</think>done");
        world.hobd.client.say(&conversation, &thought);
        world.rename(&conversation, payload);
    }
    let called = &world.payloads[3..7];
    for payload in called {
        world.hobd.client.call_tool("title-0", "look", "at", payload);
    }

    world.page.go(&format!("{}/#/chat/title-0", world.hobd.origin()));
    world.page.script("location.reload()");
    world.page.answered(1 + called.len());
    assert_eq!(world.page.count("@tool-call"), called.len());
    world.page.script("all('details').forEach(e => { e.open = true })");
    world.page.fill("@search", "pwned");
    world.page.shows("@chat .chat-title");
    world.nothing_happened();
    world.page.choose("@chat-menu", "Rename");
    world.page.shows("@question");
    world.nothing_happened();
    world.page.press("Escape");
    world.page.choose("@chat-menu", "Delete");
    world.page.shows("@toast");
    world.nothing_happened();
}

#[test]
fn payloads_in_names_of_files_and_in_addresses_do_nothing() {
    let world = World::new();
    world.page.expect_complaint("400"); // No chat in the file,
    world.page.expect_complaint("404"); // and none at the address.
    for name in ["<img src=x onerror=top.pwned=1>.json", "\"><svg onload=top.pwned=1>.txt"] {
        let path = world.hobd.directory().join(name);
        std::fs::write(&path, "{\"title\": \"<img src=x onerror=top.pwned=1>\"}").unwrap();
        world.page.import(&path);
        world.page.until("it is told", "seen(one('@toast')) || seen(one('@question'))");
        world.nothing_happened();
        world.page.press("Escape");
    }
    for address in [
        "chat/<img src=x onerror=top.pwned=1>",
        "<svg onload=top.pwned=1>",
        "memory/%3Cscript%3E",
        "chat/%",
    ] {
        world.page.script_with("location.hash = '#/' + arguments[0]", &[address.into()]);
        world.page.shows(".page-head");
        world.nothing_happened();
    }
}

/// A page before a hobd on the fake model, which repeats the text after "Say this: ".
struct World {
    page: Page,
    hobd: Hobd,
    canary: Canary,
    payloads: Vec<String>,
}

impl World {
    fn new() -> Self {
        let hobd = Hobd::start_with(Model::Fake, &["--ctx", "16384"]);
        let page = Page::of(Browser::that_logs_requests());
        page.go(&hobd.address_of_the_page());
        page.shows("@composer");
        page.log("performance"); // What came before is the browser's own.
        let canary = Canary::new();
        let payloads = hostile::payloads(&canary);
        Self { payloads, page, hobd, canary }
    }

    /// Pastes a text into the composer, so that tabs and line breaks stay text, and sends it.
    fn say(&self, payload: &str) {
        self.page.focus("@composer");
        self.page.cdp("Input.insertText", &json!({"text": format!("Say this: {payload}")}));
        self.page.press("Enter");
    }

    fn rename(&self, conversation: &str, title: &str) {
        self.hobd.client.rename(conversation, &title.chars().take(200).collect::<String>());
    }

    fn nothing_happened(&self) {
        let page = &self.page;
        assert_eq!(page.script("return window.pwned ?? null"), Value::Null, "a script ran");
        assert!(
            page.script("return location.origin") == self.hobd.origin().as_str(),
            "it went away"
        );
        let windows = page.command("window/handles", None).expect("windows can be counted");
        assert_eq!(windows.as_array().map(Vec::len), Some(1), "a window was opened");
        let foreign = page.script(
            "return all('script, style, iframe, object, embed, link, base, meta, form, img, video, audio, svg, math, template, portal, [srcdoc], [srcset], [ping], [formaction]')
                 .filter(e => e.closest('.text, .bubble, .chat-title, .fold, .toast, h1, .chat-snippet'))
                 .filter(e => !e.matches('svg.icon, .chat-title svg.icon'))
                 .filter(e => !e.matches('.formula > math')) // Drawn by the page from LaTeX,
                 .concat(all('math *').filter(e => !(e instanceof MathMLElement))) // of MathML alone.
                 .concat(all('*').filter(e => e.getAttributeNames().some(name => name.startsWith('on'))))
                 .map(e => e.outerHTML.slice(0, 120))",
        );
        assert_eq!(foreign, json!([]), "it became an element");
        let links = page.script(
            "return all('a, area').map(e => e.href).filter(href => href && !/^(https?|mailto):/.test(href))",
        );
        assert_eq!(links, json!([]), "a link leads to no web page");
        assert!(self.canary.heard().is_empty(), "somebody was asked: {:?}", self.canary.heard());
        let strangers: BTreeSet<String> =
            self.asked().into_iter().filter(|url| self.is_strange(url)).collect();
        assert!(strangers.is_empty(), "requests went elsewhere: {strangers:?}");
        assert_eq!(page.complaints(), Vec::<String>::new());
    }

    /// The requests of the page since the last call.
    fn asked(&self) -> Vec<String> {
        let entries = self.page.log("performance");
        let events = entries
            .iter()
            .filter_map(|entry| serde_json::from_str::<Value>(entry["message"].as_str()?).ok());
        let sent = events.filter(|event| event["message"]["method"] == "Network.requestWillBeSent");
        sent.filter_map(|event| {
            event["message"]["params"]["request"]["url"].as_str().map(str::to_owned)
        })
        .collect()
    }

    fn is_strange(&self, url: &str) -> bool {
        let own = format!("{}/", self.hobd.origin());
        let Some(path) = url.strip_prefix(&own) else { return true };
        let known = [
            "",
            "app.js",
            "banner.js",
            "lib.js",
            "parts.js",
            "icon.svg",
            "v1/",
            "lib/",
            "parts/",
            "chat/",
            "documents/",
            "pages/",
            "strings/",
            "style/",
            "vendor/",
        ];
        !known.iter().any(|known| {
            if known.ends_with('/') { path.starts_with(known) } else { path == *known }
        })
    }
}
