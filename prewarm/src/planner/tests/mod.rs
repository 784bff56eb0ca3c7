//! The planner's promises, as examples with a clock of their own.

mod prefixes;
mod rounds;
mod unload;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const MINUTE: u64 = 60;

/// A planner and a clock in seconds.
struct World {
    planner: Planner,
    now: Timestamp,
}

impl World {
    fn new() -> Self {
        Self { planner: Planner::new(Settings::default()), now: Timestamp(1_000_000_000) }
    }

    fn start(&mut self, name: &str) -> &mut Self {
        self.planner.handle(Event::TurnStarted { conversation: Some(id(name)) }, self.now);
        self
    }

    fn end(&mut self, name: &str) -> &mut Self {
        self.planner.handle(Event::TurnEnded { conversation: Some(id(name)) }, self.now);
        self
    }

    fn forget(&mut self, name: &str) -> &mut Self {
        self.planner.handle(Event::Forgotten { conversation: id(name) }, self.now);
        self
    }

    fn speak(&mut self, name: &str) -> &mut Self {
        self.start(name).end(name)
    }

    /// Lets time pass without asking the planner.
    fn sleep(&mut self, seconds: u64) -> &mut Self {
        self.now = self.now.after(Duration::from_secs(seconds));
        self
    }

    fn step_back(&mut self, seconds: u64) -> &mut Self {
        self.now = Timestamp(self.now.0 - seconds * 1_000);
        self
    }

    fn parked_now(&mut self) -> Vec<String> {
        let parked = |action| match action {
            Action::Park(id) => Some(id.as_str().to_owned()),
            _ => None,
        };
        self.wake().into_iter().filter_map(parked).collect()
    }

    /// Renewals change nothing that is hot, and have a test of their own.
    fn next_action(&mut self) -> Option<Action> {
        let mut actions = std::iter::from_fn(|| self.planner.next_action());
        actions.find(|action| !matches!(action, Action::Renew(_)))
    }

    fn tell(&mut self, event: Event) -> &mut Self {
        self.planner.handle(event, self.now);
        self
    }

    /// Wakes the planner and drains its actions.
    fn wake(&mut self) -> Vec<Action> {
        self.planner.wake(self.now);
        std::iter::from_fn(|| self.next_action()).collect()
    }
}

fn id(name: &str) -> ConversationId {
    name.parse().unwrap()
}

#[test]
fn a_conversation_is_parked_five_minutes_after_its_last_turn() {
    let mut world = World::new();
    world.speak("chat");
    assert!(world.sleep(5 * MINUTE - 1).parked_now().is_empty());
    assert_eq!(world.sleep(1).parked_now(), ["chat"]);
}

#[test]
fn a_conversation_is_parked_once() {
    let mut world = World::new();
    world.speak("chat").sleep(5 * MINUTE).parked_now();
    assert!(world.sleep(60 * MINUTE).parked_now().is_empty());
    assert_eq!(world.planner.next_wake(), None);
}

#[test]
fn another_turn_restarts_the_five_minutes() {
    let mut world = World::new();
    world.speak("chat").sleep(4 * MINUTE).speak("chat");
    assert!(world.sleep(4 * MINUTE).parked_now().is_empty());
    assert_eq!(world.sleep(MINUTE).parked_now(), ["chat"]);
}

#[test]
fn a_conversation_with_a_turn_running_or_queued_is_never_parked() {
    let mut world = World::new();
    world.start("chat").start("chat").sleep(60 * MINUTE).end("chat");
    assert!(world.sleep(60 * MINUTE).parked_now().is_empty(), "one of two turns still runs");
    assert_eq!(world.planner.next_wake(), None);
    world.end("chat");
    assert_eq!(world.sleep(5 * MINUTE).parked_now(), ["chat"]);
}

#[test]
fn a_new_turn_withdraws_a_pending_park() {
    let mut world = World::new();
    world.speak("chat").speak("other").sleep(5 * MINUTE).start("chat");
    assert_eq!(world.parked_now(), ["other"]);
}

#[test]
fn conversations_due_together_are_parked_longest_idle_first() {
    let mut world = World::new();
    world.speak("zoo").sleep(1).speak("mint").sleep(1).speak("apple");
    assert_eq!(world.sleep(60 * MINUTE).parked_now(), ["zoo", "mint", "apple"]);
}

#[test]
fn the_next_wake_is_when_the_first_one_is_due() {
    let mut world = World::new();
    assert_eq!(world.planner.next_wake(), None);
    let first = world.speak("first").now.after(Duration::from_secs(5 * MINUTE));
    world.sleep(MINUTE).speak("second");
    assert_eq!(world.planner.next_wake(), Some(first));
}

#[test]
fn a_forgotten_conversation_is_not_parked() {
    let mut world = World::new();
    world.speak("chat").forget("chat");
    assert_eq!(world.planner.next_wake(), None);
    assert!(world.sleep(60 * MINUTE).parked_now().is_empty());
}

#[test]
fn a_turn_that_was_never_announced_still_leaves_its_conversation_hot() {
    let mut world = World::new();
    world.end("chat");
    assert_eq!(world.sleep(5 * MINUTE).parked_now(), ["chat"]);
}

#[test]
fn a_clock_step_back_neither_parks_early_nor_leaves_a_conversation_hot_forever() {
    let mut world = World::new();
    world.speak("chat");
    assert!(world.step_back(24 * 60 * MINUTE).parked_now().is_empty());
    assert!(world.sleep(5 * MINUTE - 1).parked_now().is_empty());
    assert_eq!(world.sleep(1).parked_now(), ["chat"]);
}

#[test]
fn a_due_conversation_is_parked_at_once_after_a_laptops_sleep() {
    let mut world = World::new();
    world.speak("chat");
    assert_eq!(world.sleep(9 * 60 * MINUTE).parked_now(), ["chat"]);
}

/// Three rooms in turn, one every few minutes by day. The loop only ever sleeps until the next turn
/// or the planner's next wake, like the daemon's.
#[test]
fn every_five_idle_minutes_in_a_week_of_use_end_in_one_park() {
    let mut world = World::new();
    let end_of_week = world.now.after(Duration::from_secs(7 * 24 * 60 * MINUTE));
    let five_minutes = Duration::from_secs(5 * MINUTE);
    let (mut turns, mut parks) = (0, 0);
    let mut hot: BTreeMap<String, Timestamp> = BTreeMap::new();
    while world.now < end_of_week {
        let room = ["kitchen", "study", "porch"][turns % 3];
        world.speak(room);
        turns += 1;
        if let Some(spoke_at) = hot.insert(room.to_owned(), world.now) {
            assert!(spoke_at.age(world.now) < five_minutes, "{room} was left hot");
        }
        // From 20 seconds to 10 minutes by day, and eight hours after every hundredth turn.
        let by_day = 20 + (turns as u64 * 37 % 580);
        let silence = if turns % 100 == 0 { 8 * 60 * MINUTE } else { by_day };
        let next_turn = world.now.after(Duration::from_secs(silence));
        while let Some(wake) = world.planner.next_wake().filter(|wake| *wake <= next_turn) {
            world.now = wake;
            for parked in world.parked_now() {
                let spoke_at = hot.remove(&parked).expect("no conversation is parked twice");
                assert_eq!(spoke_at.age(world.now), five_minutes, "{parked}");
                parks += 1;
            }
        }
        world.now = next_turn;
    }
    assert_eq!((turns, parks), (1_033, 960));
}

#[derive(Clone, Debug)]
enum Step {
    Start(u8),
    End(u8),
    Forget(u8),
    Pass(u64),
    Rewind(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let conversation = || 0_u8..4;
    let step = prop_oneof![
        3 => conversation().prop_map(Step::Start),
        3 => conversation().prop_map(Step::End),
        1 => conversation().prop_map(Step::Forget),
        4 => (0_u64..400).prop_map(Step::Pass),
        1 => (0_u64..400).prop_map(Step::Rewind),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    /// Counted second by second instead of by timestamps.
    #[test]
    fn parking_agrees_with_a_count_of_seconds(steps in steps()) {
        let mut world = World::new();
        // Turns and seconds of silence of each.
        let mut naive: BTreeMap<u8, (usize, u64)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Start(n) => {
                    world.start(&n.to_string());
                    naive.entry(n).or_default().0 += 1;
                }
                Step::End(n) => {
                    world.end(&n.to_string());
                    let (turns, silence) = naive.entry(n).or_default();
                    *turns = turns.saturating_sub(1);
                    *silence = 0;
                }
                Step::Forget(n) => {
                    world.forget(&n.to_string());
                    naive.remove(&n);
                }
                Step::Pass(seconds) => {
                    world.sleep(seconds);
                    naive.values_mut().for_each(|(_, silence)| *silence += seconds);
                }
                Step::Rewind(seconds) => {
                    world.step_back(seconds);
                    // The clock still shows the idle time beyond the step.
                    naive.values_mut().for_each(|(_, s)| *s = s.saturating_sub(seconds));
                }
            }
            let due = |(turns, silence): &(usize, u64)| *turns == 0 && *silence >= 5 * MINUTE;
            let mut expected: Vec<_> = naive.iter().filter(|(_, state)| due(state)).collect();
            expected.sort_by_key(|(_, (_, silence))| std::cmp::Reverse(*silence));
            let expected: Vec<_> = expected.into_iter().map(|(n, _)| n.to_string()).collect();
            prop_assert_eq!(world.parked_now(), expected);
            naive.retain(|_, state| !due(state));
        }
    }
}
