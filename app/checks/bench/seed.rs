//! Chats to measure with.

use std::thread;

use hob_testkit::Client;
use serde_json::json;

/// Messages of the long chat.
pub const MESSAGES: usize = 500;
/// Chats of the long list.
pub const CHATS: usize = 10_000;

/// When the latest of them was used, in seconds since 1970: in November 2025.
const NOW: usize = 1_763_700_000;

/// Enough context for the long chat.
pub const CONTEXT: &str = "49152";

const ANSWERS: [&str; 5] = [
    "It depends on **how** one looks at it, and on `what` is asked.",
    "Three things:\n\n- the first\n- the second, with [a link](https://example.org)\n- the third",
    "```rust\nfn main() {\n    println!(\"Hello\");\n}\n```\n\nThat is all.",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\nAnd so on.",
    "Yes. A kettle that stands on the hob stays warm, and so does what was said; that is the idea.",
];

/// A chat of [`MESSAGES`] messages, the last of which is an answer.
pub fn long_chat(client: &Client, id: &str) {
    let said = |n: usize| {
        let (role, text) = match n % 2 {
            0 => ("user", format!("And what about number {}?", n / 2)),
            _ => ("assistant", ANSWERS[n / 2 % ANSWERS.len()].to_owned()),
        };
        json!({"role": role, "content": text})
    };
    let messages: Vec<_> = (0..MESSAGES - 2).map(said).collect();
    let last = json!({"role": "user", "content": "Say this: That was the last one."});
    let messages: Vec<_> = messages.into_iter().chain([last]).collect();
    client.post("/v1/chat/completions", &json!({"conversation": id, "messages": messages}));
}

/// [`CHATS`] chats with titles of a few words each.
pub fn many_chats(client: &Client) {
    const AT_ONCE: usize = 8;
    let words = ["bread", "garden", "piano", "harbour", "invoice", "letter", "winter", "journey"];
    let word = |n: usize| words[n % words.len()];
    thread::scope(|scope| {
        for first in 0..AT_ONCE {
            scope.spawn(move || {
                for n in (first..CHATS).step_by(AT_ONCE) {
                    let title = format!("{} and {} {n}", word(n), word(n / words.len()));
                    let at = NOW - n;
                    let message = |id: usize, parent: Option<usize>, role: &str, text: &str| {
                        json!({
                            "id": id, "parent": parent, "status": "complete", "created_at": at,
                            "message": {"role": role, "content": text},
                        })
                    };
                    let chat = json!({
                        "format": "hob conversation", "version": 1, "id": format!("seed-{n}"),
                        "title": title, "created_at": at, "updated_at": at, "pinned": false,
                        "head": 2, "messages": [
                            message(1, None, "user", &title), message(2, Some(1), "assistant", "Yes."),
                        ],
                    });
                    client.post("/v1/conversations/import", &chat);
                }
            });
        }
    });
}
