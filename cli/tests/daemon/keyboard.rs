//! Keys and signals while `hob chat` waits for an answer: what the terminal shows of them, and its mode
//! afterwards.

use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;
use serde_json::json;

use super::common::Home;
use super::fake::{CLOSED, Daemon};
use super::terminal::Terminal;

const SAID: &str = "POST /v1/chat/completions";

/// A chat whose answer has begun and does not end.
fn answering(home: &Home) -> (Daemon, Terminal) {
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "I count: one, two"}}]});
    let daemon = Daemon::new(home)
        .answer("GET /v1/conversations/c", 200, json!({"id": "c", "messages": []}))
        .open_stream(SAID, &[chunk]);
    let mut hob = Terminal::start(home, &["chat", "--conversation", "c"]);
    hob.reads("> ");
    hob.types("Count.\r");
    hob.reads("one, two");
    daemon.received(SAID);
    (daemon, hob)
}

/// A private chat whose daemon hangs: the system accepts connections to it, and no one answers.
fn hung(home: &Home) -> (Daemon, TcpListener, Terminal) {
    let daemon = Daemon::new(home); // It has the token.
    let hung = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = hung.local_addr().unwrap().to_string();
    let mut hob = Terminal::start(home, &["chat", "--private", "--address", &address]);
    hob.reads("> ");
    (daemon, hung, hob)
}

#[test]
fn keys_typed_while_an_answer_streams_wait_for_the_next_line() {
    let home = Home::new();
    let (daemon, mut hob) = answering(&home);
    hob.types("And bakc\u{7f}\u{7f}ck");
    hob.interrupt();
    let shown = hob.reads("stopped");
    assert!(!shown.contains("And"), "the answer shows no keys: {shown:?}");
    daemon.received(CLOSED);

    let daemon = daemon.stream(SAID, &[]);
    hob.reads("And bakc"); // The editor repeats them, the correction too.
    hob.reads("ck");
    hob.types(" again\r");
    let messages = daemon.received(SAID).body["messages"].clone();
    assert_eq!(messages[0]["content"], "And back again");
    hob.reads("> ");
    hob.types("\u{4}");
    assert_eq!(hob.wait().code(), Some(0));
    assert!(hob.echoes(), "the terminal is as before");
}

#[test]
fn a_pasted_backslash_stays_and_one_in_front_of_enter_continues_the_message() {
    let home = Home::new();
    let daemon = Daemon::new(&home)
        .answer("GET /v1/conversations/c", 200, json!({"id": "c", "messages": []}))
        .stream(SAID, &[json!({"choices": [{"index": 0, "delta": {"content": "Yes."}}]})]);
    let mut hob = Terminal::start(&home, &["chat", "--conversation", "c"]);
    hob.reads("> ");
    let pasted = "RUN make \\\n    && make install";
    for (keys, message) in [
        (format!("\u{1b}[200~{pasted}\u{1b}[201~\r"), pasted),
        ("one\\\rtwo\r".to_owned(), "one\ntwo"),
    ] {
        hob.types(&keys);
        assert_eq!(daemon.received(SAID).body["messages"][0]["content"], message);
        hob.reads("Yes.");
        hob.reads("> ");
    }
    hob.types("\u{4}");
    assert_eq!(hob.wait().code(), Some(0));
}

#[test]
fn a_signal_ends_the_program_and_leaves_the_terminal_as_it_was() {
    let home = Home::new();
    for is_answering in [true, false] {
        for signal in [Signal::TERM, Signal::HUP, Signal::QUIT] {
            let (daemon, mut hob) = answering(&home);
            assert!(!hob.echoes());
            if !is_answering {
                hob.interrupt();
                daemon.received(CLOSED);
                hob.reads("> ");
            }
            hob.signal(signal);
            assert_eq!(hob.wait().signal(), Some(signal.as_raw()));
            assert!(hob.echoes(), "after {signal:?}, answering: {is_answering}");
        }
    }
}

#[test]
fn a_signal_within_a_line_leaves_the_terminal_without_its_colours() {
    let home = Home::new();
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "# The head of an answer"}}]});
    let daemon = Daemon::new(&home)
        .answer("GET /v1/conversations/c", 200, json!({"id": "c", "messages": []}))
        .open_stream(SAID, &[chunk]);
    for words in [&["ask", "What?"][..], &["chat", "--conversation", "c"]] {
        let mut hob = Terminal::start(&home, words);
        if words[0] == "chat" {
            hob.reads("> ");
            hob.types("What?\r");
        }
        hob.reads("\u{1b}[1mThe head");
        hob.signal(Signal::TERM);
        hob.reads("\u{1b}[0m");
        assert_eq!(hob.wait().signal(), Some(Signal::TERM.as_raw()), "{words:?}");
        daemon.received(CLOSED);
    }
}

/// `hob chat` at its prompt, with a daemon that never ends its list of models.
fn in_a_chat(home: &Home) -> (Daemon, Terminal) {
    let daemon = Daemon::new(home)
        .answer("GET /v1/conversations/c", 200, json!({"id": "c", "messages": []}))
        .open_stream("GET /v1/models/local", &[]);
    let mut hob = Terminal::start(home, &["chat", "--conversation", "c"]);
    hob.reads("> ");
    (daemon, hob)
}

#[test]
fn a_second_ctrl_c_ends_what_does_not_stop_and_leaves_the_terminal_as_it_was() {
    let home = Home::new();
    let (daemon, mut hob) = in_a_chat(&home);
    let daemon = daemon.answer("GET /v1/status", 200, json!({"model": "m"}));
    hob.types("/model\r");
    daemon.received("GET /v1/models/local");
    hob.interrupt();
    assert_eq!(hob.interrupt_until_it_ends().signal(), Some(Signal::INT.as_raw()));
    assert!(hob.echoes());
}

#[test]
fn a_ctrl_c_from_before_the_prompt_is_not_the_first_of_two() {
    let home = Home::new();
    let (daemon, mut hob) = in_a_chat(&home);
    hob.interrupt();
    hob.types("/stats\r");
    hob.reads("no answer yet");
    hob.reads("> ");
    let daemon = daemon.answer("GET /v1/status", 200, json!({"model": "m"}));
    hob.types("/model\r");
    daemon.received("GET /v1/models/local");
    hob.interrupt();
    hob.signal(Signal::TERM); // Handled after the other, which has the lower number.
    assert_eq!(hob.wait().signal(), Some(Signal::TERM.as_raw()));
}

#[test]
fn a_ctrl_c_from_before_does_not_end_the_wait_for_another_model() {
    let home = Home::new();
    let status =
        |model: &str, pid: u32| json!({"model": model, "pid": pid, "residency": "resident"});
    let local = json!({"data": [{"id": "/m/smol.gguf", "name": "SmolLM2", "current": false}]});
    let switched = json!({"model": "/m/smol.gguf", "name": "SmolLM2", "restarts": true});
    let daemon = Daemon::new(&home)
        .answer("GET /v1/conversations/c", 200, json!({"id": "c", "messages": []}))
        .answer("GET /v1/status", 200, status("tiny", 1))
        .answer("GET /v1/models/local", 200, local)
        .answer("POST /v1/models/switch", 202, switched);
    let mut hob = Terminal::start(&home, &["chat", "--conversation", "c"]);
    hob.reads("> ");
    hob.interrupt();
    for (command, shown) in [("/stats\r", "no answer yet"), ("/model\r", "others: SmolLM2")] {
        hob.types(command);
        hob.reads(shown);
        hob.reads("> ");
    }
    hob.types("/model smol\r");
    daemon.received("POST /v1/models/switch");
    let _daemon = daemon.answer("GET /v1/status", 200, status("SmolLM2", 2));
    hob.reads("conversations stay");
    let shown = hob.reads("> ");
    assert!(shown.contains("SmolLM2 runs"), "{shown}");
    hob.types("\u{4}");
    assert_eq!(hob.wait().code(), Some(0));
}

#[test]
fn a_daemon_that_hangs_does_not_hold_the_end_of_a_private_chat() {
    let home = Home::new();
    let (_daemon, _hung, mut hob) = hung(&home);
    hob.signal(Signal::TERM);
    hob.reads("the private chat was not ended");
    assert_eq!(hob.wait().signal(), Some(Signal::TERM.as_raw()));
}

#[test]
fn a_daemon_that_hangs_does_not_hold_the_end_of_a_line() {
    let home = Home::new();
    let (_daemon, hung, mut hob) = hung(&home);
    hob.types("Hello there ");
    let _words = hung.accept().unwrap();
    hob.types("\u{3}");
    hob.reads("Ctrl-D ends");
}

#[test]
fn a_dumb_terminal_gets_no_control_sequences() {
    let home = Home::new();
    let progress = json!({"phase": "reading", "tokens_total": 3784, "tokens_ready": 1204});
    let chunks = [
        json!({"choices": [], "hob": {"progress": progress}}),
        json!({"choices": [{"index": 0, "delta": {"content": "**Yes.**"}}]}),
    ];
    let _daemon = Daemon::new(&home)
        .answer("GET /v1/conversations/c", 200, json!({"id": "c", "messages": []}))
        .stream(SAID, &chunks);
    let words = ["chat", "--conversation", "c"];
    let mut hob = Terminal::start_with(&home, &words, &[("TERM", "dumb")]);
    let mut shown = hob.reads("> ");
    assert!(hob.echoes(), "no editor shows the keys");
    hob.types("What?\r");
    shown += &hob.reads("**Yes.**");
    shown += &hob.reads("> ");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    hob.types("/quit\r");
    assert_eq!(hob.ends(), 0);
    let top = Terminal::start_with(&home, &["slots", "top"], &[("TERM", "dumb")]);
    assert_eq!(top.ends(), 2, "a screen that is drawn again needs them");
}

#[cfg(target_os = "linux")]
#[test]
fn a_line_that_a_dumb_terminal_cut_is_not_sent() {
    let home = Home::new();
    let _daemon = Daemon::new(&home).answer(
        "GET /v1/conversations/c",
        200,
        json!({"id": "c", "messages": []}),
    );
    let words = ["chat", "--conversation", "c"];
    let mut hob = Terminal::start_with(&home, &words, &[("TERM", "dumb")]);
    hob.reads("> ");
    hob.types(&format!("{}\r", "x".repeat(5_000)));
    hob.reads("not sent: the terminal cut this line short");
    hob.types("/quit\r");
    assert_eq!(hob.ends(), 0);
}
