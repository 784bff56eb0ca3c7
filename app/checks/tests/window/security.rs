//! Hostile model output must not reach the commands of the shell.

use hob_checks::canary::Canary;
use hob_checks::desktop::Desktop;
use hob_checks::hostile;
use hob_testkit::Client;
use hob_testkit::wait;
use serde_json::{Value, json};

use super::invoke;

/// A script that leaves a mark when it runs.
const HARM: &str = "top.pwned=1";

/// A script that calls a command of the shell.
const MORE_HARM: &str =
    "top.pwned=1;__TAURI__.core.invoke('settings_set',{settings:{notifications:false}})";

/// Payloads per chat.
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
    // One payload streams in.
    window.put("@composer", &format!("Say this: <img src=x onerror=\"{MORE_HARM}\">"));
    window.click("@send");
    window.until("it is answered", "!one('@live') && all('@answer').length > 1");

    assert_eq!(window.script("return window.pwned ?? null"), Value::Null, "a script ran");
    assert!(canary.heard().is_empty(), "a request reached the canary: {:?}", canary.heard());
    let settings = invoke(&window, "settings_get", json!({}));
    assert_eq!(settings["done"]["notifications"], true, "a command was called: {settings}");
    // The check can fail: a script that does run leaves its marks.
    window.script(MORE_HARM);
    wait::until("the harm is done", || {
        let settings = invoke(&window, "settings_get", json!({}));
        (settings["done"]["notifications"] == false).then_some(())
    });
    assert_eq!(window.script("return window.pwned"), 1);
    desktop.quit(window);
}
