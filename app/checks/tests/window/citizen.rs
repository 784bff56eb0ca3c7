//! The app on the desktop: a single instance, the tray, autostart, and notifications.

use std::thread;

use hob_checks::Page;
use hob_checks::bus::Notice;
use hob_checks::chat::slowly;
use hob_checks::desktop::Desktop;
use hob_checks::screen::Area;
use hob_testkit::Client;
use hob_testkit::wait;
use serde_json::{Value, json};

use super::invoke;

const SHOW: &str = "Show Hob";
const KEEP: &str = "Keep running when closed";
const QUIT: &str = "Quit";

#[test]
fn a_second_start_shows_the_window_of_the_first_and_ends() {
    let desktop = Desktop::open();
    let window = desktop.app();
    window.shows("@composer");
    set(&window, json!({"close": "tray"}));
    desktop.close_window();
    desktop.hides_window();
    let first = desktop.announced();

    let second = desktop.run(&[]);

    assert!(second.status.success(), "{second:?}");
    desktop.shows_window();
    assert_eq!(desktop.announced(), first);
    desktop.quit(window);
}

#[test]
fn an_app_started_while_another_ends_gets_its_own_window() {
    let desktop = Desktop::open();
    let mut first = desktop.start(&[]);
    let before = wait::until("the first has announced itself", || desktop.announced());
    desktop.shows_window();
    // An answer to another client delays the end.
    let client = Client::of(&before);
    let other = client.clone();
    let words = slowly(60);
    let answer = thread::spawn(move || other.say("other", &words));
    wait::until("it is answered", || client.is_busy("other").then_some(()));
    desktop.bus.choose(QUIT);
    desktop.hides_window();

    let _second = desktop.start(&[]);

    answer.join().expect("the question is answered");
    wait::until("the first has ended", || first.exit_status());
    wait::until("the second has announced itself", || {
        desktop.announced().filter(|now| now["pid"] != before["pid"])
    });
    desktop.shows_window();
}

#[test]
fn closing_the_window_ends_the_app_unless_the_tray_keeps_it_running() {
    let desktop = Desktop::open();
    let window = desktop.app();
    window.shows("@composer");
    assert_eq!(desktop.bus.menu(), [SHOW, KEEP, QUIT]);
    let close = || invoke(&window, "settings_get", json!({}))["done"]["close"].clone();
    assert_eq!(close(), "quit");

    desktop.bus.choose(KEEP);
    wait::until("it is to keep running", || (close() == "tray").then_some(()));
    desktop.close_window();
    desktop.hides_window();
    // The page still answers, and its window returns unchanged.
    assert_eq!(close(), "tray");
    desktop.bus.choose(SHOW);
    desktop.shows_window();
    window.shows("@composer");

    desktop.bus.choose(KEEP);
    wait::until("it is to end", || (close() == "quit").then_some(()));
    desktop.close_window();
    desktop.hides_window();
    desktop.ended();
}

#[test]
fn the_window_returns_to_its_position_and_size() {
    let desktop = Desktop::open();
    let mut app = desktop.start(&[]);
    wait::until("the daemon has announced itself", || desktop.announced());
    let area = Area { x: 60, y: 40, width: 900, height: 640 };
    desktop.arrange_window(area);
    desktop.has_window_at(area);
    desktop.close_window();
    wait::until("it has ended", || app.exit_status());

    let _again = desktop.start(&[]);

    desktop.has_window_at(area);
}

#[test]
fn with_hidden_the_app_starts_in_the_tray_and_ends_from_there() {
    let desktop = Desktop::open();
    let mut app = desktop.start(&["--hidden"]);
    wait::until("the daemon has announced itself", || desktop.announced());
    assert_eq!(desktop.bus.menu(), [SHOW, KEEP, QUIT]);
    assert!(!desktop.has_window());

    desktop.bus.choose(SHOW);
    desktop.shows_window();
    desktop.bus.choose(QUIT);

    let status = wait::until("it has ended", || app.exit_status());
    assert!(status.success(), "{status}");
    assert_eq!(desktop.announced(), None);
}

#[test]
fn autostart_is_off_until_the_user_enables_it() {
    let desktop = Desktop::open();
    let window = desktop.app();
    window.shows("@composer");
    let entry = desktop.home().join(".config/autostart/Hob.desktop");
    assert_eq!(invoke(&window, "settings_get", json!({}))["done"]["autostart"], false);
    assert!(!entry.exists());

    set(&window, json!({"autostart": true}));
    let said = std::fs::read_to_string(&entry).expect("the session has it");
    assert!(said.contains("hob-desktop --hidden"), "{said}");
    set(&window, json!({"autostart": false}));
    assert!(!entry.exists());
    desktop.quit(window);
}

#[test]
fn a_setting_that_cannot_be_written_shows_what_is_stored() {
    let desktop = Desktop::open();
    // No file can replace a directory with something in it.
    let taken = desktop.home().join("data/desktop.toml/taken");
    std::fs::create_dir_all(taken).expect("the directory can be written");
    let window = desktop.app();
    window.open_page("settings");
    window.click("@set-notifications");
    window.reads("@toast", "cannot write");
    window.until("it is still checked", "one('@set-notifications').checked");
    assert_eq!(invoke(&window, "settings_get", json!({}))["done"]["notifications"], true);
    desktop.quit(window);
}

#[test]
fn a_notification_announces_only_a_long_answer_behind_an_unfocused_window() {
    let desktop = Desktop::open();
    let window = desktop.app();
    window.shows("@composer");
    let long = || {
        // 10 ms per letter: longer than the eight seconds after which the page notifies.
        let answers = window.count("@answer");
        window.put("@composer", &slowly(180));
        window.click("@send");
        window.answered(answers + 1);
    };

    desktop.focus_window();
    window.until("the window has the focus", "document.hasFocus()");
    long();
    desktop.look_away();
    window.until("the window has lost the focus", "!document.hasFocus()");
    window.ask("Say this: short");
    assert_eq!(desktop.bus.notices(), []);

    long();
    let notice = wait::until("a notification shows", || desktop.bus.notices().pop());
    let title = window.text("@title");
    assert_eq!(notice, Notice { title: "Hob has answered".to_owned(), body: title });
    assert_eq!(desktop.bus.notices().len(), 1);
    desktop.quit(window);
}

/// Changes settings of the app as its page does.
fn set(window: &Page, settings: Value) {
    let said = invoke(window, "settings_set", json!({"settings": settings}));
    assert!(said["done"].is_object(), "{said}");
}
