//! The slots directory is deleted, again and again, while everybody speaks.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::*;
use serde_json::json;

const CONVERSATIONS: usize = 6;
const TURNS: usize = 12;

/// What everybody is told, turn by turn.
fn talk(world: &World) -> Vec<Vec<String>> {
    let speak = |who: usize| {
        let say = |turn: usize| {
            let question = format!("Turn {turn} of {who}: {}", "and so on ".repeat(turn));
            let extra = json!({"conversation": format!("chat-{who}"), "hob": {"append": true}});
            text(&world.chat(json!([user(&question)]), extra))
        };
        (0..TURNS).map(say).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let speakers: Vec<_> =
            (0..CONVERSATIONS).map(|who| scope.spawn(move || speak(who))).collect();
        speakers.into_iter().map(|speaker| speaker.join().unwrap()).collect()
    })
}

#[test]
fn every_conversation_continues_with_the_same_text_after_its_directory_vanished() {
    let undisturbed = talk(&Plan::new().slots(2).start());

    let world = Plan::new().slots(2).start();
    let slots = world.directory.join("slots");
    let done = AtomicBool::new(false);
    let told = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // It may be written to at this very moment.
                let _ = std::fs::remove_dir_all(&slots);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let told = talk(&world);
        done.store(true, Ordering::Relaxed);
        told
    });
    assert_eq!(told, undisturbed);
    let metrics = world.get("/metrics").text();
    assert!(metrics.contains("hob_restore_full_prefill_total 0"), "{metrics}");
}
