//! The slots directory is deleted every 20 ms while several conversations run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::common::*;

const CONVERSATIONS: usize = 6;
const TURNS: usize = 12;

/// The answers of each conversation, turn by turn.
fn talk(world: &World) -> Vec<Vec<String>> {
    let speak = |conversation: usize| {
        let say = |turn: usize| {
            let question = format!("Turn {turn} of {conversation}: {}", "and so on ".repeat(turn));
            let extra =
                json!({"conversation": format!("chat-{conversation}"), "hob": {"append": true}});
            text(&world.chat(json!([user(&question)]), extra))
        };
        (0..TURNS).map(say).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let speakers: Vec<_> = (0..CONVERSATIONS)
            .map(|conversation| scope.spawn(move || speak(conversation)))
            .collect();
        speakers.into_iter().map(|speaker| speaker.join().unwrap()).collect()
    })
}

#[test]
fn every_conversation_continues_with_the_same_text_after_its_directory_vanished() {
    let undisturbed = talk(&Plan::new().slots(2).start());

    let world = Plan::new().slots(2).start();
    let slots = world.directory.join("slots");
    let done = AtomicBool::new(false);
    let answers = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // An error is expected: the daemon may be writing to the directory.
                let _ = std::fs::remove_dir_all(&slots);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let answers = talk(&world);
        done.store(true, Ordering::Relaxed);
        answers
    });
    assert_eq!(answers, undisturbed);
    let metrics = world.get("/metrics").text();
    assert!(metrics.contains("hob_restore_full_prefill_total 0"), "{metrics}");
}
