//! KV that was computed at another place: what an answer says of it, and a chat that goes on past the context.

use std::fs;

use hob_checks::{Hobd, Model, Page};
use hob_testkit::wait;
use serde_json::{Value, json};

const BYTES: usize = 300;

#[test]
fn the_figures_of_an_answer_tell_what_was_moved_and_what_was_repaired() {
    let hobd = start_with_profile("reader", "reuse = 'repaired'", &["--ctx", "4096"]);
    read_documents(&hobd);
    let answer = ask(&hobd, Some("moved"), [3, 2, 1], json!({"reuse": "repaired"}));
    let [moved, repaired] = ["moved", "repaired"].map(|it| answer["hob"]["tokens"][it].clone());
    assert!(moved.as_u64() > Some(0) && repaired.as_u64() > Some(0), "{answer}");
    hobd.client.rename("moved", "Moved");

    let page = Page::open(&hobd);
    page.open_chat("Moved");
    page.answered(1);
    let figures = page.last_figures();
    for part in [
        format!("{moved} tokens from another place"),
        format!("Computed at the seams of moved text {repaired} tokens"),
    ] {
        assert!(figures.contains(&part), "{part}: {figures}");
    }
}

#[test]
fn instructions_whose_answers_fell_back_to_exact_ones_say_so() {
    let hobd = start_with_profile("reader", "reuse = 'repaired'", &["--ctx", "8192"]);
    read_documents(&hobd);
    for _ in 0..4 {
        // Of conversations, hobd learns the prefix that they share, and computes it exactly.
        let answer = ask(&hobd, None, [3, 2, 1], json!({"profile": "reader"}));
        assert!(answer["hob"]["tokens"]["moved"].as_u64() > Some(0), "{answer}");
    }
    wait::until("the profile falls back", || {
        let list = hobd.client.get("/v1/profiles");
        list["data"][0]["fell_back"].is_string().then_some(())
    });
    let page = Page::open(&hobd);
    page.open_page("profiles");
    page.reads("@profile-row @fell-back", "is read again");
}

#[test]
fn a_chat_goes_on_past_the_context_by_itself_and_its_answers_say_so() {
    let arguments = ["--eviction", "off", "--ctx", "1280"];
    let hobd = start_with_profile("default", "beyond = 'reanchor'", &arguments);
    let answers = nearly_fill(&hobd);
    let page = Page::open(&hobd);
    page.open_chat("A long chat");
    page.answered(answers);
    page.reads("@context", "of 1,280");
    page.hides("@nearly-full");

    page.ask("Say this: and on");
    page.reads("@reanchored", "goes on with its newest part");
    let figures = page.last_figures();
    assert!(figures.contains(" tokens from another place"), "{figures}");
    page.ask("What is my locker code?");
    page.reads("@recalled", "brought back 2 older messages");
    for place in ["@failure", "@nearly-full", "@go-on", "@room"] {
        page.hides(place);
    }
}

#[test]
fn a_chat_goes_on_past_the_context_where_the_user_chose_that() {
    let arguments = ["--slots", "4", "--eviction", "off", "--ctx", "1280"];
    let hobd = Hobd::start_with(Model::Fake, &arguments);
    let answers = nearly_fill(&hobd);
    let page = Page::open(&hobd);
    page.open_chat("A long chat");
    page.answered(answers);
    page.shows("@nearly-full");
    page.click("@sampling");
    page.reads("@kv-choice", "an answer ends there");
    page.put("[name=beyond]", "reanchor");
    page.reads("@kv-choice", "The chat goes on without asking.");
    page.click("@save-sampling");
    page.hides("@sampling-dialog");
    page.hides("@nearly-full");

    page.ask("Say this: and on");
    page.reads("@reanchored", "goes on with its newest part");
    page.go(&hobd.origin());
    page.open_chat("A long chat");
    page.click("@sampling");
    page.shows("[name=beyond]");
    assert_eq!(page.script("return one('[name=beyond]').value"), "reanchor");
    assert_eq!(page.script("return one('[name=reuse]').value"), "open");
}

#[test]
fn a_chat_uses_kv_from_another_place_where_the_user_chose_that() {
    let hobd = Hobd::start_with(Model::Fake, &["--slots", "4", "--ctx", "4096"]);
    read_documents(&hobd);
    let page = Page::open(&hobd);
    // What is computed while one types is not in the figures of the answer.
    page.script("localStorage.setItem('hob.preferences', JSON.stringify({typeAhead: false}))");
    page.go(&hobd.origin());
    page.click("@sampling");
    page.put("[name=reuse]", "repaired");
    page.fill("[name=max_tokens]", "8");
    page.click("@save-sampling");
    page.hides("@sampling-dialog");
    page.ask(&format!("{}\nWhat?", [3, 2, 1].map(document).join("\n")));
    let figures = page.last_figures();
    assert!(figures.contains(" tokens from another place"), "{figures}");
}

/// A chat that has the fact and uses four fifths of the context. Returns the number of its answers.
fn nearly_fill(hobd: &Hobd) -> usize {
    let say = |text: &str| {
        hobd.client.chat(&json!({"conversation": "long", "temperature": 0, "max_tokens": 60,
            "hob": {"append": true}, "messages": [{"role": "user", "content": text}]}))
    };
    let is_nearly_full = || {
        let used = hobd.client.get("/v1/conversations/long/context");
        let [tokens, most] = ["tokens", "max_tokens"].map(|it| used[it].as_u64().unwrap());
        5 * tokens >= 4 * most
    };
    say("My locker code is 48213.");
    let last = (1..20).find(|turn| {
        let words: String = (0..12).map(|n| format!("w{turn}x{n} ")).collect();
        let answer = say(&format!("Say this: {words}"));
        assert_eq!(answer["hob"]["reanchored"], Value::Null, "{answer}");
        is_nearly_full()
    });
    hobd.client.rename("long", "A long chat");
    last.expect("it fills the context") + 1
}

/// A question about three documents in this order.
fn ask(hobd: &Hobd, conversation: Option<&str>, order: [usize; 3], hob: Value) -> Value {
    let text = order.map(document).join("\n");
    let messages = json!([{"role": "user", "content": format!("{text}\nWhat?")}]);
    hobd.client.chat(&json!({"conversation": conversation, "messages": messages, "hob": hob,
        "temperature": 0, "max_tokens": 8}))
}

/// Text in which each window occurs once.
fn document(number: usize) -> String {
    let words = (0..BYTES).map(|n| format!("{number}.{n} "));
    words.collect::<String>().chars().take(BYTES).collect()
}

/// Until their KV is saved.
fn read_documents(hobd: &Hobd) {
    ask(hobd, Some("first"), [1, 2, 3], json!({}));
    wait::until("it is saved", || {
        let list = hobd.client.get("/v1/slots");
        let mut rows = list["data"].as_array()?.iter();
        rows.any(|row| row["conversation"] == "first").then_some(())
    });
}

/// With a profile that has this line.
fn start_with_profile(name: &str, line: &str, arguments: &[&str]) -> Hobd {
    let arguments = [&["--slots", "4"][..], arguments].concat();
    Hobd::start_changed(Model::Fake, &arguments, |launch, directory| {
        let profiles = directory.join("profiles");
        fs::create_dir_all(&profiles).expect("the directory can be written");
        let profile = format!("{line}\n[[segment]]\nlayer = 'rules'\ntext = 'Be kind.'");
        fs::write(profiles.join(format!("{name}.toml")), profile).expect("it can be written");
        launch
    })
}
