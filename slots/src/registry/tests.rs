//! The registry in examples and against a naive model.

#![allow(unused_must_use, reason = "examples pin for the effect")]

use proptest::prelude::*;

use super::*;
use crate::key::derive_slot_id;

/// A registry and a clock in seconds.
struct World {
    registry: Registry,
    now: Timestamp,
}

impl World {
    fn new(n_slots: u32) -> Self {
        Self { registry: Registry::new(n_slots), now: Timestamp(1_000_000) }
    }

    fn pass(&mut self, seconds: u64) -> &mut Self {
        self.now = self.now.after(Duration::from_secs(seconds));
        self
    }

    fn step_back(&mut self, seconds: u64) -> &mut Self {
        self.now = Timestamp(self.now.0 - seconds * 1_000);
        self
    }

    fn pin(&mut self, name: &str) -> Pin {
        self.registry.pin(&id(name), self.now)
    }

    /// A turn that ends at once.
    fn speak(&mut self, name: &str) -> Pin {
        let pin = self.pin(name);
        self.registry.begin(&id(name));
        self.registry.end(&id(name), self.now);
        pin
    }

    fn idle(&self) -> Vec<(String, u64)> {
        let idle = self.registry.idle(self.now);
        idle.map(|(id, span)| (id.as_str().to_owned(), span.as_secs())).collect()
    }
}

fn id(name: &str) -> ConversationId {
    name.parse().unwrap()
}

fn parks(slot: SlotId, name: &str) -> Pin {
    Pin::Parks { slot, conversation: id(name) }
}

fn slot_of(pin: &Pin) -> SlotId {
    match *pin {
        Pin::Existing(slot) | Pin::Free(slot) | Pin::Parks { slot, .. } => slot,
        Pin::Full => panic!("no slot"),
    }
}

#[test]
fn an_open_conversation_keeps_its_slot() {
    let mut world = World::new(2);
    let first = slot_of(&world.speak("chat"));
    world.speak("other");
    assert_eq!(world.pass(3_600).speak("chat"), Pin::Existing(first));
}

#[test]
fn among_equally_loaded_slots_the_derived_one_is_taken() {
    // Golden values of `derive_slot_id("conv:room-1", n)`.
    assert_eq!(World::new(8).pin("room-1"), Pin::Free(SlotId(2)));
    assert_eq!(World::new(16).pin("room-1"), Pin::Free(SlotId(10)));
}

#[test]
fn the_least_loaded_free_slot_is_taken_before_the_derived_one() {
    let mut world = World::new(8);
    for slot in 0..8 {
        world.registry.set_load(SlotId(slot), 100);
    }
    world.registry.set_load(SlotId(5), 20);
    assert_eq!(world.pin("room-1"), Pin::Free(SlotId(5)));
}

#[test]
fn when_the_derived_slot_is_taken_the_lowest_of_equals_is() {
    let mut world = World::new(8);
    assert_eq!(world.pin("room-1"), Pin::Free(SlotId(2)));
    // Also derives slot 2 of 8.
    assert_eq!(world.pin("__system_prefix__"), Pin::Free(SlotId(0)));
}

#[test]
fn no_conversation_is_parked_while_a_slot_is_free() {
    let mut world = World::new(3);
    for name in ["a", "b", "c"] {
        assert!(matches!(world.pass(60).speak(name), Pin::Free(_)));
    }
}

#[test]
fn the_longest_idle_conversation_is_parked() {
    let mut world = World::new(2);
    let slot = slot_of(&world.speak("first"));
    world.pass(10).speak("second");
    assert_eq!(world.pass(10).pin("third"), parks(slot, "first"));
    assert_eq!(world.registry.slot_of(&id("first")), None);
    assert!(world.registry.pinned().any(|pinned| pinned == (slot, &id("third"))));
}

#[test]
fn an_anonymous_conversation_gives_way_before_a_named_one() {
    let mut world = World::new(3);
    world.speak("first");
    let nameless = ConversationId::anonymous(1);
    let slot = slot_of(&world.registry.pin(&nameless, world.now));
    world.speak("third");
    let idle: Vec<_> = world.registry.idle(world.now).map(|(id, _)| id.clone()).collect();
    assert_eq!(idle, [nameless.clone(), id("first"), id("third")]);
    assert_eq!(world.pin("fourth"), Pin::Parks { slot, conversation: nameless });
}

#[test]
fn a_new_turn_makes_a_conversation_the_most_recently_used() {
    let mut world = World::new(2);
    world.speak("first");
    let slot = slot_of(&world.pass(10).speak("second"));
    world.pass(10).speak("first");
    assert_eq!(world.pass(10).pin("third"), parks(slot, "second"));
}

#[test]
fn a_running_conversation_is_never_parked() {
    let mut world = World::new(2);
    world.pin("first");
    world.registry.begin(&id("first"));
    let slot = slot_of(&world.pass(10).speak("second"));
    assert_eq!(world.pass(3_600).pin("third"), parks(slot, "second"));
}

#[test]
fn when_every_slot_runs_a_turn_the_registry_is_full_until_one_ends() {
    let mut world = World::new(1);
    let slot = slot_of(&world.pin("first"));
    world.registry.begin(&id("first"));
    world.registry.begin(&id("first"));
    assert_eq!(world.pin("second"), Pin::Full);
    world.registry.end(&id("first"), world.now);
    assert_eq!(world.pin("second"), Pin::Full, "one of two turns is still queued");
    world.registry.end(&id("first"), world.now);
    assert_eq!(world.pin("second"), parks(slot, "first"));
}

#[test]
fn without_slots_the_registry_is_always_full() {
    assert_eq!(World::new(0).pin("chat"), Pin::Full);
}

#[test]
fn idle_conversations_are_listed_from_the_longest_idle() {
    let mut world = World::new(4);
    world.speak("first");
    world.pass(60).speak("second");
    world.pass(60).pin("running");
    world.registry.begin(&id("running"));
    world.pass(30);
    assert_eq!(world.idle(), [("first".into(), 150), ("second".into(), 90)]);
}

#[test]
fn a_clock_that_steps_back_changes_no_order_and_no_age() {
    let mut world = World::new(2);
    let slot = slot_of(&world.speak("first"));
    world.step_back(600).speak("second");
    assert_eq!(world.idle(), [("first".into(), 0), ("second".into(), 0)]);
    assert_eq!(world.pin("third"), parks(slot, "first"));
}

#[test]
fn an_unpinned_conversation_leaves_its_slot_free() {
    let mut world = World::new(1);
    let slot = slot_of(&world.speak("first"));
    assert_eq!(world.registry.unpin(&id("first")), Some(slot));
    assert_eq!(world.registry.unpin(&id("first")), None);
    assert_eq!(world.pin("second"), Pin::Free(slot));
}

#[test]
fn turns_of_an_unpinned_conversation_are_not_counted() {
    let mut world = World::new(1);
    world.registry.begin(&id("ghost"));
    world.registry.end(&id("ghost"), world.now);
    assert!(!world.registry.is_running(&id("ghost")));
    assert_eq!(world.registry.pinned().count(), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Pin(u8),
    Begin(u8),
    End(u8),
    Unpin(u8),
    Load(u8, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = || 0_u8..7;
    let step = prop_oneof![
        4 => who().prop_map(Step::Pin),
        2 => who().prop_map(Step::Begin),
        3 => who().prop_map(Step::End),
        1 => who().prop_map(Step::Unpin),
        1 => (0_u8..3, 0_usize..3).prop_map(|(slot, tokens)| Step::Load(slot, tokens)),
    ];
    prop::collection::vec(step, 0..80)
}

/// Pinned conversations by last use: name, slot, turns.
#[derive(Default)]
struct Naive {
    line: Vec<(u8, u32, usize)>,
    loads: [usize; 3],
}

impl Naive {
    fn pin(&mut self, who: u8) -> Pin {
        if let Some(at) = self.line.iter().position(|entry| entry.0 == who) {
            let entry = self.line.remove(at);
            self.line.push(entry);
            return Pin::Existing(SlotId(entry.1));
        }
        let taken: Vec<u32> = self.line.iter().map(|entry| entry.1).collect();
        let free: Vec<u32> = (0..3).filter(|slot| !taken.contains(slot)).collect();
        if let Some(least) = free.iter().map(|&slot| self.loads[slot as usize]).min() {
            let lightest = || free.iter().filter(|&&slot| self.loads[slot as usize] == least);
            let derived = derive_slot_id(Some(&format!("conv:{who}")), 3) as u32;
            let slot = *lightest().find(|&&slot| slot == derived).or(lightest().next()).unwrap();
            self.line.push((who, slot, 0));
            return Pin::Free(SlotId(slot));
        }
        match self.line.iter().position(|entry| entry.2 == 0) {
            None => Pin::Full,
            Some(at) => {
                let (leaving, slot, _) = self.line.remove(at);
                self.line.push((who, slot, 0));
                parks(SlotId(slot), &leaving.to_string())
            }
        }
    }

    fn end(&mut self, who: u8) {
        if let Some(at) = self.line.iter().position(|entry| entry.0 == who) {
            let (_, slot, turns) = self.line.remove(at);
            self.line.push((who, slot, turns.saturating_sub(1)));
        }
    }
}

proptest! {
    #[test]
    fn the_registry_decides_like_a_list_in_order_of_use(steps in steps()) {
        let (mut registry, mut naive) = (Registry::new(3), Naive::default());
        let now = Timestamp(0);
        for step in steps {
            match step {
                Step::Pin(who) => {
                    prop_assert_eq!(registry.pin(&id(&who.to_string()), now), naive.pin(who));
                }
                Step::Begin(who) => {
                    registry.begin(&id(&who.to_string()));
                    naive.line.iter_mut().filter(|e| e.0 == who).for_each(|e| e.2 += 1);
                }
                Step::End(who) => {
                    registry.end(&id(&who.to_string()), now);
                    naive.end(who);
                }
                Step::Unpin(who) => {
                    registry.unpin(&id(&who.to_string()));
                    naive.line.retain(|entry| entry.0 != who);
                }
                Step::Load(slot, tokens) => {
                    registry.set_load(SlotId(slot.into()), tokens);
                    naive.loads[usize::from(slot)] = tokens;
                }
            }
            let idle: Vec<_> = registry.idle(now).map(|(id, _)| id.clone()).collect();
            let still = naive.line.iter().filter(|e| e.2 == 0).map(|e| id(&e.0.to_string()));
            prop_assert_eq!(idle, still.collect::<Vec<_>>());
            for (slot, conversation) in registry.pinned() {
                prop_assert_eq!(registry.slot_of(conversation), Some(slot));
            }
            prop_assert_eq!(registry.pinned().count(), naive.line.len());
        }
    }
}

#[test]
fn each_copy_of_a_hint_has_a_slot_of_its_own() {
    let mut world = World::new(8);
    let hint = crate::key::CacheKey::V5("v5:abc".to_owned()).id();
    // Golden value of `derive_slot_id("v5:abc", 8)`.
    assert_eq!(world.registry.pin(&hint, world.now), Pin::Free(SlotId(4)));
    let none = |_: &ConversationId| false;
    let second = world.registry.unused_copy(&hint, none);
    assert!(second.is_copy_of(&hint) && second != hint);
    assert!(matches!(world.registry.pin(&second, world.now), Pin::Free(slot) if slot.0 != 4));
    assert_eq!(world.registry.copies(&hint).count(), 2);
    world.registry.unpin(&hint);
    assert_eq!(world.registry.unused_copy(&second, none), hint);
    assert_eq!(world.registry.unused_copy(&second, |copy| *copy == hint), hint.copy(3));
}
