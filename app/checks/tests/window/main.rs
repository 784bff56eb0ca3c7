//! The app in its window: the shell and its integration. `tests/page` checks the page in a browser.

#![cfg(target_os = "linux")] // Other systems have no driver for the window.

mod citizen;
mod security;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hob_checks::desktop::Desktop;
use hob_checks::{Hobd, Model, Page};
use hob_testkit::wait;
use serde_json::{Value, json};

#[test]
fn the_window_streams_an_answer_and_restores_the_chat_after_a_restart() {
    let desktop = Desktop::open();
    let window = desktop.app();
    window.shows("@composer");

    let text = "The kettle stays warm on the hob, and nobody has to light the fire again.";
    let answer = window.ask(&format!("Say this: {text}"));
    assert!(answer.contains("kettle stays warm"), "{answer}");
    let colours = desktop.save_picture("window");
    assert!(colours > 50, "the window is empty: {colours} colours on the screen");
    desktop.quit(window);

    let window = desktop.app();
    window.shows("@chat");
    window.click("@chat .chat-link");
    window.reads("@answer .text", "kettle stays warm");
    window.ask("Say this: And on it goes.");
    // The new process started with empty cells: hot tokens were restored when the chat was opened,
    // before the question.
    let numbers = window.last_figures();
    let came_back = ["tokens from disk", "tokens hot"].iter().any(|it| numbers.contains(it));
    assert!(came_back, "{numbers}");

    let app =
        desktop.announced().and_then(|it| it["pid"].as_u64()).expect("it has announced itself");
    let asked = Command::new("kill").arg(app.to_string()).status().expect("kill can be run");
    assert!(asked.success());
    desktop.ended();
}

#[test]
fn the_page_can_call_the_shells_commands_and_nothing_else() {
    let desktop = Desktop::open();
    let window = desktop.app();
    window.shows("@composer");
    let refused = |command: &str, arguments: Value| {
        let said = invoke(&window, command, arguments.clone());
        assert!(said["error"].is_string(), "{command} {arguments} was answered: {said}");
        said["error"].as_str().unwrap_or_default().to_owned()
    };
    for (command, arguments) in [
        ("plugin:opener|open_url", json!({"url": "https://example.org/"})),
        ("plugin:opener|open_path", json!({"path": "/etc/passwd"})),
        ("plugin:notification|notify", json!({"options": {"title": "x"}})),
        ("plugin:autostart|enable", json!({})),
        ("plugin:window-state|save_window_state", json!({"flags": 0})),
        ("plugin:event|listen", json!({"event": "x", "target": {"kind": "Any"}, "handler": 1})),
        ("plugin:window|create", json!({"options": {"label": "other"}})),
        ("plugin:webview|create_webview_window", json!({"options": {"label": "other"}})),
        ("plugin:path|resolve_directory", json!({"directory": 1})),
        ("plugin:shell|execute", json!({"program": "id"})),
    ] {
        refused(command, arguments);
    }
    let why = refused("open_models_folder", json!({"path": "/etc"}));
    assert!(why.contains("only this app's folder"), "{why}");
    for url in ["file:///etc/passwd", "javascript:alert(1)", "vscode://x"] {
        let why = refused("open_link", json!({"url": url}));
        assert!(why.contains("only links"), "{why}");
    }
    // A focused window shows no notification.
    assert_eq!(invoke(&window, "settings_get", json!({}))["done"]["close"], "quit");
    desktop.quit(window);
}

#[test]
fn the_page_has_no_token_and_reaches_nothing_but_the_shell() {
    let desktop = Desktop::open();
    let window = desktop.app();
    window.shows("@composer");
    let daemon = wait::until("the daemon has announced itself", || desktop.announced());
    let address = daemon["address"].as_str().expect("an address");
    let tried = window.run_async(
        r"
        const [address, done] = arguments;
        const outcome = (promise) => promise.then(() => 'done', () => 'refused');
        let evaluated = 'refused';
        try { evaluated = String(new Function('return 1')()); } catch {}
        Promise.all([
            outcome(fetch(`http://${address}/health`)),
            outcome(fetch('https://example.org/')),
            outcome(import(`http://${address}/app.js`)),
        ]).then((outcomes) => done([...outcomes, evaluated, JSON.stringify(localStorage), location.href]));
        ",
        &[json!(address)],
    );
    let tried = tried.expect("the page answers");
    for outcome in 0..4 {
        assert_eq!(tried[outcome], "refused", "{tried}");
    }
    let token = std::fs::read_to_string(daemon["token_file"].as_str().expect("a file"));
    let token = token.expect("the token file is there");
    let page = window.script("return document.documentElement.outerHTML");
    for place in [&tried[4], &tried[5], &page] {
        assert!(!place.as_str().expect("text").contains(token.trim()), "{place}");
    }

    window.script("location.href = 'https://example.org/'");
    window.script("window.open('https://example.org/')");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(window.script("return location.href"), tried[5], "the window shows our page alone");
    desktop.quit(window);
}

#[test]
fn a_download_goes_to_the_download_directory_and_overwrites_nothing() {
    let desktop = Desktop::open();
    let window = desktop.app();
    window.shows("@composer");
    for (said, name) in [("first", "chat.md"), ("second", "chat (1).md")] {
        window.script_with(
            r"
            const link = document.createElement('a');
            link.href = URL.createObjectURL(new Blob([arguments[0]]));
            link.download = 'chat.md';
            link.click();
            ",
            &[json!(said)],
        );
        let file = desktop.home().join(name);
        let saved = wait::until("the file is there", || {
            std::fs::read_to_string(&file).ok().filter(|text| !text.is_empty())
        });
        assert_eq!(saved, said);
    }
    desktop.quit(window);
}

#[test]
fn an_exported_chat_returns_with_its_kv() {
    let desktop = Desktop::open();
    let window = desktop.app();
    window.ask("Say this: what is kept of this has some thousand bytes, and not one may differ");
    window.choose("@chat-menu", "Export with KV cache");
    let saved = || {
        std::fs::read_dir(desktop.home()).ok()?.flatten().map(|it| it.path()).find(|it| is_tar(it))
    };
    let file = wait::until("the file is there", saved);
    window.choose("@chat-menu", "Delete");
    window.hides("@chat");

    window.import(&file);
    window.reads("@toast", "The chat was imported.");
    window.answered(1); // Its messages come a moment after the toast.
    window.ask("Say this: and on it goes");
    let numbers = window.last_figures();
    assert!(numbers.contains("from disk") || numbers.contains(" hot"), "{numbers}");
    desktop.quit(window);
}

#[test]
fn the_app_attaches_to_a_running_daemon_and_replaces_it_when_it_ends() {
    let mut hobd = Hobd::start(Model::Fake);
    let desktop = Desktop::beside(hobd.directory());
    let window = desktop.app();
    window.reads("@banner", "another process");
    window.ask("Say this: From the other one.");

    hobd.stop();
    window.reads("@toast", "continues on its own");
    let daemon = wait::until("the app has announced itself", || desktop.announced());
    assert_ne!(daemon["address"], json!(hobd.client.address.to_string()));
    window.ask("Say this: And from here.");
    desktop.quit(window);
}

#[test]
fn the_app_stays_attached_to_a_daemon_that_switches_models() {
    let hobd = Hobd::start(Model::Fake);
    let desktop = Desktop::beside(hobd.directory());
    let window = desktop.app();
    window.reads("@banner", "another process");
    let before = desktop.announced().expect("hobd has announced itself");

    window.click("@to-models");
    window.click("@model[data-id=\"fake:second\"] @run");
    window.click("@yes");
    window.until("it runs", "one('@model.current')?.dataset.id === 'fake:second'");

    let now = wait::until("hobd has announced itself again", || desktop.announced());
    assert_eq!((&now["pid"], &now["address"]), (&before["pid"], &before["address"]));
    window.reads("@banner", "another process");
    window.click(".brand");
    window.press("Alt+1");
    window.ask("Say this: From the other model.");
    // The app must not end the other daemon.
    window.script("setTimeout(() => window.__TAURI__.core.invoke('quit'), 100)");
}

#[test]
fn the_smoke_test_passes() {
    let desktop = Desktop::open();
    let tried = desktop.run(&["--smoke-test"]);
    let said = String::from_utf8_lossy(&tried.stdout);
    let log = String::from_utf8_lossy(&tried.stderr);
    println!("{said}");
    assert!(tried.status.success(), "{said}\n{log}");
    assert!(said.lines().count() >= 7 && said.contains("tokens from disk"), "{said}");
}

fn is_tar(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "tar")
}

/// The result of a command that the page calls: `{done}` or `{error}`.
fn invoke(window: &Page, command: &str, arguments: Value) -> Value {
    let answer = window.run_async(
        r"
        const [command, words, done] = arguments;
        window.__TAURI__.core.invoke(command, words)
            .then((value) => done({done: value ?? null}), (error) => done({error: String(error)}));
        ",
        &[json!(command), arguments],
    );
    answer.expect("the page answers")
}
