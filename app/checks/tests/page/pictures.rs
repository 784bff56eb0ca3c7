//! Screenshots of the page. `HOB_SCREENSHOTS=1` writes them to `docs/images` too, for the README.

use std::env;
use std::fs;

use hob_checks::page::PAGES;
use hob_checks::{Hobd, Look, Model, Page, tools};
use serde_json::json;

const PROFILE: &str = r#"
[[segment]]
layer = "identity"
text = "You are Ember, a calm home assistant. Use a tool when one fits."

[[segment]]
layer = "rules"
text = """
Keep every answer short: it is spoken aloud. Use plain words.
Ask when something is unclear. Do not make up facts."""

[[segment]]
layer = "context"
text = "It is Saturday, 2026-11-21, and everybody is at home."
"#;

const LOCKER: &str = "Please remember: the locker code is 48213.";

const MAX_BYTES: usize = 150_000;

#[test]
fn the_main_pages_have_their_pictures_in_light_and_dark() {
    // The real model takes longer, and only the README's pictures need it.
    let hobd = Hobd::start(if is_for_readme() { Model::Real } else { Model::Bundled });
    hobd.write_profile("ember", PROFILE);
    let data = hobd.directory().join("data");
    fs::create_dir_all(data.join("models")).unwrap();
    for name in ["lfm2.gguf", "qwen3.gguf"] {
        let fixture = tools::root().join("assets/fixtures").join(name);
        fs::copy(fixture, data.join("models").join(name)).unwrap();
    }
    for (conversation, text) in [
        ("peru", "What is the capital of Peru?"),
        ("leaves", "Why do leaves turn red in autumn?"),
        ("locker", LOCKER),
    ] {
        say(&hobd, conversation, text);
    }
    say(&hobd, "locker", "What is the locker code?");
    say(&hobd, "locker", "Why is the sky blue?");
    for dark in [false, true] {
        let look = Look { width: 1280, height: 800, dark, still: true, ..Look::default() };
        let page = Page::open_as(&hobd, look);
        page.open_chat(LOCKER);
        page.answered(3);
        picture(&page, "chat", look);
        for (name, _) in PAGES {
            page.open_page(name);
            page.until("it has read what it shows", "!document.body.innerText.includes('Reading')");
            // The default directory in place of the check's own.
            page.script_with(
                "for (const code of all('code'))
                     code.textContent = code.textContent.replace(arguments[0], '~/.local/share/hob')",
                &[data.display().to_string().into()],
            );
            picture(&page, name, look);
        }
        page.click("@to-profiles");
        page.click("@profile-row");
        page.shows("@volatile");
        page.until("it is warm", "one('@warmth')?.dataset.state === 'warm'");
        picture(&page, "profile", look);
        page.click(".page-head h1");
        page.press("?");
        page.shows("@help");
        picture(&page, "keys", look);
        page.press("Escape");

        let narrow = Look { width: 400, height: 800, ..look };
        page.show(narrow);
        page.go(&format!("{}/#/chat/locker", hobd.origin()));
        page.answered(3);
        picture(&page, "narrow", narrow);
    }
}

/// The bundled model does not know these words: without a limit it repeats one until the context ends.
fn say(hobd: &Hobd, conversation: &str, text: &str) {
    hobd.client.chat(&json!({
        "conversation": conversation, "hob": {"append": true}, "temperature": 0, "max_tokens": 200,
        "messages": [{"role": "user", "content": text}],
    }));
}

fn picture(page: &Page, name: &str, look: Look) {
    // There it marks nothing: in a chat, the title is a button.
    let is_chat = page.count("@composer-hint") > 0;
    page.hover(if is_chat { "@composer-hint" } else { ".page-head h1" });
    page.script("document.activeElement?.blur(); getSelection().removeAllRanges()");
    let name = format!("app-{name}-{}.png", if look.dark { "dark" } else { "light" });
    let picture = page.picture().expect("the browser makes pictures");

    assert_eq!(size(&picture), (look.width, look.height), "{name}");
    assert!(picture.len() < MAX_BYTES, "{name} has {} bytes", picture.len());
    fs::write(tools::reports().join(&name), &picture).unwrap();
    if is_for_readme() {
        fs::write(tools::root().join("docs/images").join(&name), &picture).unwrap();
    }
}

fn is_for_readme() -> bool {
    env::var_os("HOB_SCREENSHOTS").is_some_and(|wanted| wanted == "1")
}

/// Width and height, as the head of a PNG has them.
fn size(png: &[u8]) -> (u32, u32) {
    assert!(png.starts_with(b"\x89PNG"), "it is no PNG");
    let field = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
    (field(16), field(20))
}
