//! Model output in front of a shell that can be told what to do.

use hob_checks::canary::Canary;
use hob_checks::desktop::Desktop;
use hob_checks::hostile;
use hob_testkit::Client;
use hob_testkit::wait;
use serde_json::{Value, json};

use super::invoke;

/// What a script of a payload would do.
const HARM: &str = "top.pwned=1";

/// The same, and what it would tell the shell.
const MORE_HARM: &str =
    "top.pwned=1;__TAURI__.core.invoke('settings_set',{settings:{notifications:false}})";

/// A chat has so many of them.
const IN_A_CHAT: usize = 20;

#[test]
fn payloads_call_no_command_and_lead_nowhere() {
    let desktop = Desktop::open();
    let window = desktop.app_with(&["--ctx", "16384"]);
    window.shows("@composer");
    let place = window.script("return location.origin");
    let daemon = wait::until("the daemon has announced itself", || desktop.announced());
    let client = Client::of(&daemon);
    let canary = Canary::new();
    let payloads: Vec<String> =
        hostile::payloads(&canary).iter().map(|payload| payload.replace(HARM, MORE_HARM)).collect();
    assert!(payloads.iter().filter(|payload| payload.contains("invoke")).count() > 50);

    for (number, chat) in payloads.chunks(IN_A_CHAT).enumerate() {
        let said = chat.iter().flat_map(|payload| {
            ["user", "assistant"].map(|role| json!({"role": role, "content": payload}))
        });
        let asked = json!({"role": "user", "content": format!("Say this: chat {number}")});
        let messages: Vec<Value> = said.chain([asked]).collect();
        let conversation = format!("hostile-{number}");
        let body = json!({"conversation": conversation, "messages": messages});
        client.post("/v1/chat/completions", &body);
        window.script_with("location.hash = `#/chat/${arguments[0]}`", &[json!(conversation)]);
        window.reads("@answer", &format!("chat {number}"));
        window.poke_at_everything();

        assert_eq!(window.script("return window.pwned ?? null"), Value::Null, "a script ran");
        assert_eq!(window.script("return location.origin"), place, "it went away");
    }
    // One that streams in.
    window.put("@composer", &format!("Say this: <img src=x onerror=\"{MORE_HARM}\">"));
    window.click("@send");
    window.until("it is answered", "!one('@live') && all('@answer').length > 1");

    assert_eq!(window.script("return window.pwned ?? null"), Value::Null, "a script ran");
    assert!(canary.heard().is_empty(), "somebody was asked: {:?}", canary.heard());
    let settings = invoke(&window, "settings_get", json!({}));
    assert_eq!(settings["done"]["notifications"], true, "a command was called: {settings}");
    // Had one of them run, it would show.
    window.script(MORE_HARM);
    wait::until("the harm is done", || {
        let settings = invoke(&window, "settings_get", json!({}));
        (settings["done"]["notifications"] == false).then_some(())
    });
    assert_eq!(window.script("return window.pwned"), 1);
    desktop.quit(window);
}
