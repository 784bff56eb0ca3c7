//! `kill -9` at random moments: no text is lost, no KV comes back wrong, and what was saved is not
//! computed again.
//!
//! Twenty rounds on the bundled model, or `HOB_TEST_KILL_ROUNDS`. Each round starts hobd over what
//! the last one left, looks at everything, talks a little, and kills it: while it answers, right
//! after an answer, after a quiet moment, or while it starts. Every answer is compared with that of
//! a hobd that was never touched, token by token.

#![cfg(feature = "llama")]

#[path = "kill/answer.rs"]
mod answer;
#[path = "kill/chance.rs"]
mod chance;
#[path = "kill/hobd.rs"]
mod hobd;
#[path = "kill/talk.rs"]
mod talk;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use answer::Token;
use chance::Chance;
use hob_slots::store::StoreReader;
use hob_testkit::client::Event;
use hob_testkit::{Client, Hobd, wait};
use hobd::{conversation, launch, model};
use serde_json::{Value, json};
use talk::{MOST_TOKENS, Pending, Talk};

const SEED: u64 = 8642;

/// When hobd dies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kill {
    /// After so many events of an answer.
    Events(usize),
    /// So many milliseconds after a question.
    Millis(u64),
    /// As soon as the end of an answer was seen.
    Ended,
    /// When everything has been written.
    Quiet,
    /// So many milliseconds after its start; then it is started again.
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
    let rounds = std::env::var("HOB_TEST_KILL_ROUNDS").map_or(20, |n| n.parse().unwrap());
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
    assert!(world.resumed > rounds / 2, "only {} turns resumed from disk", world.resumed);
}

struct World {
    directory: tempfile::TempDir,
    chance: Chance,
    talks: Vec<Talk>,
    hobd: Option<Hobd>,
    /// Never killed, and asked without a conversation's name.
    untouched: Hobd,
    /// Turns that found their KV on disk.
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
        &self.hobd.as_ref().expect("it runs between two kills").client
    }

    /// Starts it and looks at all that the last one left: text, timelines, files.
    fn start_and_look(&mut self) {
        let hobd = launch(self.directory.path()).start();
        let reader = reader(self.directory.path());
        for talk in &mut self.talks {
            talk.timeline = 0;
            talk.meet(conversation(&hobd.client, &talk.name()).as_ref());
            let Ok(record) = reader.get_slot(model(&hobd), &talk.id()) else { continue };
            if talk.whole {
                // What a whole answer left behind is the beginning of whatever is said next.
                assert!(record.tokens.len() >= talk.saved, "{}: KV is gone", talk.name());
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

    /// A whole turn.
    fn say(&mut self, which: usize) {
        let (asked, request) = self.next_request(which);
        let events: Vec<Event> = self.client().events(&request).collect();
        let pending = Pending::of(asked, &events);
        let [.., Event::Data(last), Event::Done] = events.as_slice() else {
            panic!("an answer broke off by itself: {events:?}")
        };
        self.check_tokens(which, last);
        self.compare(&self.talks[which].history, &pending.asked, &Token::of_events(&events));

        let talk = &mut self.talks[which];
        talk.pending = Some(pending);
        talk.timeline = number(&last["usage"]["total_tokens"]);
        let kept = conversation(self.client(), &self.talks[which].name());
        self.talks[which].meet(kept.as_ref());
    }

    /// The tokens that came back and those that were computed.
    fn check_tokens(&mut self, which: usize, last: &Value) {
        let talk = &mut self.talks[which];
        let (tokens, prompt) = (&last["hob"]["tokens"], number(&last["usage"]["prompt_tokens"]));
        let [shared, memory, disk, computed] =
            ["shared", "memory", "disk", "computed"].map(|place| number(&tokens[place]));
        let told = format!("{}, {} tokens were saved: {last}", talk.name(), talk.saved);
        assert_eq!(shared + memory + disk + computed, prompt, "{told}");
        assert!(computed <= prompt - talk.saved.min(prompt - 1), "saved, but computed: {told}");
        if std::mem::take(&mut talk.quiet) {
            assert_eq!(computed, prompt - talk.saved, "{told}");
        }
        if talk.whole {
            assert_eq!(last["hob"]["miss"], Value::Null, "{told}");
        }
        self.resumed += usize::from(disk > 0);
    }

    /// The same history must make the same answer where nothing was ever killed.
    fn compare(&self, history: &[Value], words: &str, heard: &[Token]) {
        let messages = [history, &[json!({"role": "user", "content": words})]].concat();
        let request = json!({"messages": messages, "temperature": 0, "max_tokens": MOST_TOKENS,
            "logprobs": true, "top_logprobs": 5});
        let answer = self.untouched.client.chat(&request);
        let expected = Token::of_choice(&answer["choices"][0]);
        if let Err(difference) = answer::agree(&expected, heard) {
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
        let (asked, request) = self.next_request(which);
        self.talks[which].quiet = false;
        let (client, (tell, listen)) = (self.client().clone(), mpsc::channel());
        let client = thread::spawn(move || {
            // An error: the process died before it took the request.
            client.events(&request).for_each(|event| tell.send(event).unwrap());
        });
        let mut events = Vec::new();
        match moment {
            Kill::Millis(millis) => thread::sleep(Duration::from_millis(millis)),
            Kill::Events(most) => events.extend(listen.iter().take(most)),
            _ => unreachable!("the others answer nothing"),
        }
        self.hobd = None;
        events.extend(listen); // What was under way already.
        client.join().unwrap();
        self.talks[which].pending = Some(Pending::of(asked, &events));
    }

    /// Waits until all that was said is on disk.
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

/// Files that nobody asked for: half-written ones, and ones that were put aside as damaged. What the
/// process that runs is writing is none: each start begins a sweep, which writes too.
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
            let aside = path.components().any(|part| part.as_os_str() == "quarantine");
            match path.is_dir() {
                true => directories.push(path),
                false
                    if aside || name.contains("tmp") || path.parent().unwrap().ends_with("tmp") =>
                {
                    found.push(path);
                }
                false => {}
            }
        }
    }
    found
}
