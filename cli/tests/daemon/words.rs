//! What a user types wrongly into `hob chat`, and what is shown to be pasted.

use serde_json::json;

use super::common::Home;
use super::fake::Daemon;
use super::terminal::Terminal;

#[test]
fn a_mistyped_command_ends_a_script() {
    let home = Home::new();
    let _daemon = Daemon::new(&home)
        .answer("GET /v1/conversations/c", 404, json!({"error": {"message": "none"}}))
        .stream("POST /v1/chat/completions", &[]);
    let ran = home.run(&["chat", "--conversation", "c"], &[], "/modle tiny\nHello\n");
    assert_eq!(ran.out, "", "the message behind it is not sent");
    ran.fails(2, &["/modle is not a command", "did you mean /model?"]);
}

#[test]
fn the_way_on_is_pasted_into_a_shell_as_it_stands() {
    let home = Home::new();
    let _daemon = Daemon::new(&home)
        .answer("GET /v1/conversations", 200, json!({"data": []}))
        .answer("GET /v1/conversations/my%20room", 200, json!({"id": "my room", "messages": []}));
    let mut hob = Terminal::start(&home, &["chat", "--conversation", "my room"]);
    hob.reads("> ");
    hob.types("/quit\r");
    hob.reads("--conversation 'my room'");
    assert_eq!(hob.ends(), 0);
}
