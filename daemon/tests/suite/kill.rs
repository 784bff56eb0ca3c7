//! `kill -9` at random moments: hobd loses no text, restores no wrong KV, and does not recompute
//! saved KV.
//!
//! Runs 20 rounds on the bundled model, or `HOB_TEST_KILL_ROUNDS`. Each round starts hobd on the
//! directory of the last one, runs all checks, sends a few messages, and kills it: during an
//! answer, right after one, after all writes, or during the start. Every answer is compared token
//! by token with that of a hobd that is never killed.

#![cfg(feature = "llama")]

mod answer;
pub mod hobd;
mod talk;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use answer::Token;
use hob_slots::store::StoreReader;
use hob_testkit::client::Event;
use hob_testkit::{Client, Hobd, wait};
use hobd::{conversation, launch, model};
use serde_json::{Value, json};
use talk::{MAX_TOKENS, Pending, Talk};

use crate::common::chance::{Chance, from_env};

const SEED: u64 = 8642;

/// When hobd is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kill {
    /// After this many events of an answer.
    Events(usize),
    /// This many milliseconds after a request.
    Millis(u64),
    /// As soon as the end of an answer arrives.
    Ended,
    /// After all timelines are on disk.
    Quiet,
    /// This many milliseconds after its start.
    Starting(u64),
}

impl Kill {
    fn random(chance: &mut Chance) -> Self {
        match chance.within(0..5) {
            0 => Self::Events(chance.within(1..14)),
            1 => Self::Millis(chance.within(0..60) as u64),
            2 => Self::Ended,
            3 => Self::Quiet,
            _ => Self::Starting(chance.within(0..120) as u64),
        }
    }
}

#[test]
fn kills_at_random_moments_lose_no_text_and_restore_nothing_wrong() {
    let rounds = from_env("HOB_TEST_KILL_ROUNDS", 20);
    let mut world = World::new();
    for round in 0..rounds {
        let moment = Kill::random(&mut world.chance);
        println!("round {round}: {moment:?}");
        world.start_and_look();
        for _ in 0..world.chance.within(1..4) {
            let which = world.chance.within(0..world.talks.len());
            world.say(which);
        }
        world.die(moment);
    }
    world.start_and_look();
    for which in 0..world.talks.len() {
        world.say(which);
    }
    world.check_counters();
    assert!(world.resumed > rounds / 2, "only {} turns restored KV from disk", world.resumed);
}

struct World {
    directory: tempfile::TempDir,
    chance: Chance,
    talks: Vec<Talk>,
    hobd: Option<Hobd>,
    /// Never killed; its requests name no conversation.
    untouched: Hobd,
    /// Turns that restored KV from disk.
    resumed: usize,
    _elsewhere: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let elsewhere = tempfile::tempdir().unwrap();
        Self {
            directory: tempfile::tempdir().unwrap(),
            chance: Chance(SEED),
            talks: (0..3).map(Talk::new).collect(),
            hobd: None,
            untouched: launch(elsewhere.path()).start(),
            resumed: 0,
            _elsewhere: elsewhere,
        }
    }

    fn client(&self) -> &Client {
        &self.hobd.as_ref().expect("hobd runs between two kills").client
    }

    /// Starts hobd and checks the text, timelines and files of the last one.
    fn start_and_look(&mut self) {
        let hobd = launch(self.directory.path()).start();
        let reader = reader(self.directory.path());
        for talk in &mut self.talks {
            talk.timeline = 0;
            talk.meet(conversation(&hobd.client, &talk.name()).as_ref());
            let Ok(record) = reader.get_slot(model(&hobd), &talk.id()) else { continue };
            if talk.complete {
                // The timeline of a complete answer is a prefix of the next prompt.
                assert!(record.tokens.len() >= talk.saved, "{}: saved KV was lost", talk.name());
                talk.saved = record.tokens.len();
            }
        }
        assert_eq!(strays(self.directory.path(), hobd.process.id()), Vec::<PathBuf>::new());
        self.hobd = Some(hobd);
    }

    fn next_request(&mut self, which: usize) -> (String, Value) {
        let (talk, chance) = (&mut self.talks[which], &mut self.chance);
        talk.renew();
        let words = talk.next_words(chance);
        let append = chance.within(0..2) == 0;
        let request = talk.request(&words, append);
        (words, request)
    }

    /// Runs a complete turn and checks its answer.
    fn say(&mut self, which: usize) {
        let (question, request) = self.next_request(which);
        let events: Vec<Event> = self.client().events(&request).collect();
        let pending = Pending::of(question, &events);
        let [.., Event::Data(last), Event::Done] = events.as_slice() else {
            panic!("an answer ended early without a kill: {events:?}")
        };
        self.check_tokens(which, last);
        self.compare(&self.talks[which].history, &pending.question, &Token::of_events(&events));

        let talk = &mut self.talks[which];
        talk.pending = Some(pending);
        talk.timeline = number(&last["usage"]["total_tokens"]);
        let stored = conversation(self.client(), &self.talks[which].name());
        self.talks[which].meet(stored.as_ref());
    }

    /// Checks the counts of restored and computed tokens.
    fn check_tokens(&mut self, which: usize, last: &Value) {
        let talk = &mut self.talks[which];
        let (tokens, prompt) = (&last["hob"]["tokens"], number(&last["usage"]["prompt_tokens"]));
        let [shared, memory, disk, computed] =
            ["shared", "memory", "disk", "computed"].map(|place| number(&tokens[place]));
        let context = format!("{}, {} tokens were saved: {last}", talk.name(), talk.saved);
        assert_eq!(shared + memory + disk + computed, prompt, "{context}");
        assert!(
            computed <= prompt - talk.saved.min(prompt - 1),
            "saved KV was recomputed: {context}"
        );
        if std::mem::take(&mut talk.quiet) {
            assert_eq!(computed, prompt - talk.saved, "{context}");
        }
        if talk.complete {
            assert_eq!(last["hob"]["miss"], Value::Null, "{context}");
        }
        self.resumed += usize::from(disk > 0);
    }

    /// Asserts that the hobd that is never killed gives the same answer.
    fn compare(&self, history: &[Value], words: &str, received: &[Token]) {
        let messages = [history, &[json!({"role": "user", "content": words})]].concat();
        let request = json!({"messages": messages, "temperature": 0, "max_tokens": MAX_TOKENS,
            "logprobs": true, "top_logprobs": 5});
        let answer = self.untouched.client.chat(&request);
        let expected = Token::of_choice(&answer["choices"][0]);
        if let Err(difference) = answer::agree(&expected, received) {
            panic!("{words} after {}: {difference}", Value::from(history));
        }
    }

    fn die(&mut self, moment: Kill) {
        self.check_counters();
        match moment {
            Kill::Events(_) | Kill::Millis(_) => self.die_answering(moment),
            Kill::Ended => {}
            Kill::Quiet => self.become_quiet(),
            Kill::Starting(millis) => {
                self.hobd = None;
                let starting = launch(self.directory.path()).spawn();
                thread::sleep(Duration::from_millis(millis));
                drop(starting);
            }
        }
        self.hobd = None; // Dropping it is `kill -9`.
    }

    fn die_answering(&mut self, moment: Kill) {
        let which = self.chance.within(0..self.talks.len());
        let (question, request) = self.next_request(which);
        self.talks[which].quiet = false;
        let (client, (sender, receiver)) = (self.client().clone(), mpsc::channel());
        let client = thread::spawn(move || {
            // No events: the process died before it accepted the request.
            client.events(&request).for_each(|event| sender.send(event).unwrap());
        });
        let mut events = Vec::new();
        match moment {
            Kill::Millis(millis) => thread::sleep(Duration::from_millis(millis)),
            Kill::Events(count) => events.extend(receiver.iter().take(count)),
            _ => unreachable!("only these two kill during an answer"),
        }
        self.hobd = None;
        events.extend(receiver); // Events that arrived before the kill.
        client.join().unwrap();
        self.talks[which].pending = Some(Pending::of(question, &events));
    }

    /// Waits until all timelines are on disk.
    fn become_quiet(&mut self) {
        let (reader, model) = (reader(self.directory.path()), model(self.hobd.as_ref().unwrap()));
        for talk in self.talks.iter_mut().filter(|talk| talk.timeline > 0) {
            wait::until("the timeline is on disk", || {
                let record = reader.get_slot(model, &talk.id()).ok()?;
                (record.tokens.len() == talk.timeline).then_some(())
            });
            talk.quiet = true;
        }
    }

    fn check_counters(&self) {
        let counters = &self.client().get("/v1/status")["counters"];
        for bad in
            ["wasted_restores", "import_failures", "rejected_files", "write_errors", "failed"]
        {
            assert_eq!(counters[bad], 0, "{bad}");
        }
        let page = self.client().get_text("/metrics");
        assert!(page.contains("\nhob_restore_full_prefill_total 0\n"), "{page}");
    }
}

fn reader(directory: &Path) -> StoreReader {
    StoreReader::open(directory.join("slots")).unwrap()
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

/// Leftover files: partly written ones and quarantined ones. Files that process `running` is
/// writing do not count: the sweep at each start writes, too.
fn strays(directory: &Path, running: u32) -> Vec<PathBuf> {
    let own = format!("{running}-");
    let mut found = Vec::new();
    let mut directories = vec![directory.join("slots"), directory.join("data")];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.parent().unwrap().ends_with("tmp") && name.starts_with(&own) {
                continue;
            }
            let is_quarantined = path.components().any(|part| part.as_os_str() == "quarantine");
            let is_temporary = name.contains("tmp") || path.parent().unwrap().ends_with("tmp");
            if path.is_dir() {
                directories.push(path);
            } else if is_quarantined || is_temporary {
                found.push(path);
            }
        }
    }
    found
}
