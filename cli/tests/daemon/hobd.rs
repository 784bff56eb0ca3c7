//! `hob chat` at a terminal, with the `hobd` that was built beside `hob`, and its fake model.

use std::fs;
use std::path::Path;

use hob_testkit::{Hobd, Launch, wait};
use serde_json::{Value, json};

use super::common::Home;
use super::terminal::Terminal;

/// In the line under each answer: `tokens read`, or `tokens remembered`.
const ANSWERED: &str = "tokens re";

/// Longer than the messages that fill a conversation.
const QUESTION: &str = "Say this: once more, and with a few words";

/// The home directory and its hobd, whose configuration file has `settings`.
fn start(settings: &str) -> (Home, Hobd) {
    let home = Home::new();
    let hobd = Path::new(env!("CARGO_BIN_EXE_hob")).with_file_name("hobd");
    assert!(hobd.exists(), "{} is missing: cargo build -p hob-daemon", hobd.display());
    let file = home.path("hob.toml");
    fs::write(&file, format!("model = 'fake'\n{settings}")).unwrap();
    let launch = Launch::new(hobd, &home.path("")).args([Path::new("--config"), &file]);
    let hobd = launch.start();
    (home, hobd)
}

/// Types a line, waits for `shown` and for the next prompt. Returns what was shown.
fn enter(hob: &mut Terminal, line: &str, shown: &str) -> String {
    hob.types(&format!("{line}\r"));
    let text = hob.reads(shown);
    text + &hob.reads("> ")
}

fn quit(mut hob: Terminal) {
    hob.types("/quit\r");
    assert_eq!(hob.ends(), 0);
}

fn messages(hobd: &Hobd, conversation: &str) -> Vec<Value> {
    let text = hobd.client.get(&format!("/v1/conversations/{conversation}"));
    text["messages"].as_array().unwrap().clone()
}

#[test]
fn the_commands_of_a_chat_do_what_they_say() {
    let (home, hobd) = start("");
    let mut hob = Terminal::start(&home, &["chat", "--conversation", "room"]);
    let greeting = hob.reads("> ");
    assert!(greeting.contains("fake · context"), "{greeting}");
    enter(&mut hob, "Say this: the code is 48213", ANSWERED);

    enter(&mut hob, "/retry", ANSWERED);
    let branches = hobd.client.get("/v1/conversations/room?branches=true");
    let branches = branches["messages"].as_array().unwrap();
    let answers = branches.iter().filter(|message| message["role"] == "assistant").count();
    assert_eq!(answers, 2, "a second answer stands beside the first");
    enter(&mut hob, "/stats", "2 answers");

    enter(&mut hob, "/system", "no instructions");
    enter(&mut hob, "/system You are Ember.", "the next message goes with these instructions");
    enter(&mut hob, "Say this: and now", ANSWERED);
    let stored = hobd.client.get("/v1/conversations/room");
    assert_eq!(stored["instructions"], "You are Ember.");
    let said = stored["messages"].as_array().unwrap();
    assert_eq!(said.len(), 4, "with what was said before: {said:?}");
    enter(&mut hob, "/system", "You are Ember.");
    // As the app sets them.
    hobd.client.patch("/v1/conversations/room", &json!({"instructions": "You are Ash."}));
    enter(&mut hob, "/system", "You are Ash.");
    enter(&mut hob, "/system You are Coal.", "the next message goes with these instructions");
    enter(&mut hob, "Say this: once more", ANSWERED);
    assert_eq!(hobd.client.get("/v1/conversations/room")["instructions"], "You are Coal.");

    let file = home.path("chat.md");
    enter(&mut hob, &format!("/save {}", file.display()), "saved in");
    let saved = fs::read_to_string(&file).unwrap();
    assert!(saved.contains("48213") && saved.contains("and now"), "{saved}");

    let models = enter(&mut hob, "/model", "others: ");
    assert!(models.contains("fake:second"), "{models}"); // A build with llama.cpp has more.
    enter(&mut hob, "/model fake:s", "fake:second runs");
    assert_eq!(hobd.client.get("/v1/status")["model"], "fake:second");
    enter(&mut hob, "Say this: still here", ANSWERED);
    assert_eq!(messages(&hobd, "room").len(), 8);
    quit(hob);
}

#[test]
fn an_answer_that_reached_its_limit_goes_on() {
    let (home, hobd) = start("");
    let words = ["chat", "--conversation", "room", "--max-tokens", "8", "--temperature", "0"];
    let mut hob = Terminal::start(&home, &words);
    hob.reads("> ");
    enter(&mut hob, "Say this: one two three four five", ANSWERED);
    let begun = messages(&hobd, "room")[1]["content"].as_str().unwrap().to_owned();
    assert!("one two three".starts_with(&begun), "{begun:?}");
    enter(&mut hob, "/continue", ANSWERED);
    let stored = messages(&hobd, "room");
    let text = stored[1]["content"].as_str().unwrap();
    assert!(text.starts_with(&begun) && text.len() > begun.len(), "{text:?} after {begun:?}");
    assert_eq!(stored.len(), 2, "it is one answer");
    quit(hob);
}

#[test]
fn a_conversation_longer_than_its_cells_says_what_was_brought_back_for_an_answer() {
    let (home, hobd) = start("ctx = 512\nslots = 1\n");
    let say = |text: &str| {
        let messages = json!([{"role": "user", "content": text}]);
        let hob = json!({"append": true});
        let body =
            json!({"conversation": "room", "messages": messages, "max_tokens": 8, "hob": hob});
        hobd.client.chat(&body);
    };
    say("Hello");
    say("The word is aardvark, says the second message.");
    (0..12).for_each(|n| say(&format!("Question {n} is about number {} alone.", n * 7919)));
    let mut hob = Terminal::start(&home, &["chat", "--conversation", "room"]);
    hob.reads("> ");
    let shown = enter(&mut hob, "What was it about the aardvark?", ANSWERED);
    let (_, back) = shown.rsplit_once("tokens remembered · ").expect("it was told before");
    assert!(back.contains(" brought back, "), "{shown}");
    quit(hob);
    let status = home.hob(&["status"]).ok();
    for words in [" blocks left the cells of their chats, ", " tokens away"] {
        assert!(status.contains(words), "{words}: {status}");
    }
    let explained = home.hob(&["explain", "room"]).ok();
    for words in ["It is longer than its cells.", "  left: no room  ", "  cells  "] {
        assert!(explained.contains(words), "{words}: {explained}");
    }
    // Its record is written behind the answer.
    wait::until("`hob slots show` names what is away", || {
        let shown = home.hob(&["slots", "show", "room", "--all"]).out;
        (shown.contains("tokens away") && shown.contains("  away")).then_some(())
    });
}

#[test]
fn a_full_conversation_goes_on_in_each_way_that_is_offered() {
    let (home, hobd) = start("ctx = 640\nslots = 1\neviction = \"off\"\n");
    let full = |conversation: &str| {
        let count = fill(&hobd, conversation);
        let mut hob = Terminal::start(&home, &["chat", "--conversation", conversation]);
        hob.reads("> ");
        let offer = enter(&mut hob, QUESTION, "Or choose:");
        for way in ["Enter answers with the newest part", "/summarise", "/branch", "/context 1280"]
        {
            assert!(offer.contains(way), "{way} is missing: {offer}");
        }
        assert_eq!(messages(&hobd, conversation).len(), count, "nothing is stored yet");
        (hob, count)
    };
    let is_answered = |conversation: &str, count: usize| {
        let stored = messages(&hobd, conversation);
        assert_eq!(stored.len(), count + 2, "{stored:?}");
        assert_eq!(stored[count]["content"], QUESTION);
    };

    let (mut hob, count) = full("summary");
    hob.types("/summarise\r");
    hob.reads("older messages, whose text stays");
    hob.reads(ANSWERED);
    is_answered("summary", count);
    let stored = messages(&hobd, "summary");
    assert!(stored.iter().any(|message| message["summary"].is_string()), "{stored:?}");
    quit(hob);

    let (mut hob, count) = full("branch");
    let shown = enter(&mut hob, "/branch 2", ANSWERED);
    assert!(shown.contains("(continued) · 2 messages"), "{shown}");
    assert_eq!(messages(&hobd, "branch").len(), count, "it stays as it is");
    let newest = hobd.client.get("/v1/conversations")["data"][0]["id"].clone();
    is_answered(newest.as_str().unwrap(), 2);
    quit(hob);

    let (mut hob, count) = full("larger");
    let shown = enter(&mut hob, "/context 1280", ANSWERED);
    assert!(shown.contains("the context has 1,280 tokens"), "{shown}");
    is_answered("larger", count);
    enter(&mut hob, "/context", "of 1,280 tokens");
    quit(hob);
}

/// Says something until the conversation is full. Returns how many messages it has.
fn fill(hobd: &Hobd, conversation: &str) -> usize {
    for turn in 0.. {
        let text = format!("Say this: turn number {turn}");
        let request = json!({
            "conversation": conversation, "hob": {"append": true},
            "messages": [{"role": "user", "content": text}],
        });
        let answer = hobd.client.call("POST", "/v1/chat/completions").json(&request).send();
        if answer.status != 200 {
            assert_eq!(answer.error()["code"], "context_length_exceeded");
            break;
        }
    }
    messages(hobd, conversation).len()
}
