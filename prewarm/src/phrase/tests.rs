//! The promises of the module, as examples and over random histories.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[test]
fn the_most_recently_wanted_voice_gets_its_phrases_first_and_in_order() {
    let mut phrases = Phrases::new(2, 1_000);
    phrases.want(&voice("ada"), at(1));
    phrases.want(&voice("bob"), at(2));
    let mut made = Vec::new();
    while let Some(spoken) = phrases.next(at(3)) {
        phrases.insert(&spoken, 10).unwrap();
        made.push(spoken);
    }
    assert_eq!(made, [said("bob", 0), said("bob", 1), said("ada", 0), said("ada", 1)]);
}

#[test]
fn the_same_phrase_is_never_said_twice_in_a_row() {
    let mut phrases = holding(3, 1_000, "ada", 10);
    let ada = voice("ada");
    let said: Vec<_> = (0..7).map(|_| phrases.choose(&ada).unwrap().0).collect();
    assert_eq!(said, [0, 1, 2, 0, 1, 2, 0]);

    let mut single = holding(1, 1_000, "ada", 10);
    assert_eq!(single.choose(&ada), Some(PhraseId(0)));
    assert_eq!(single.choose(&ada), None);
}

#[test]
fn a_phrase_without_sound_is_not_said() {
    let mut phrases = Phrases::new(3, 1_000);
    assert_eq!(phrases.choose(&voice("ada")), None);
    phrases.want(&voice("ada"), at(1));
    assert_eq!(phrases.choose(&voice("ada")), None);
}

#[test]
fn a_failed_voice_is_retried_after_doubling_pauses() {
    let mut phrases = Phrases::new(1, 1_000);
    let ada = voice("ada");
    phrases.want(&ada, at(0));
    phrases.failed(&ada, at(0));
    assert_eq!((phrases.next(at(59)), phrases.next_retry(at(59))), (None, Some(at(60))));
    assert_eq!(phrases.next(at(60)), Some(said("ada", 0)));
    phrases.failed(&ada, at(60));
    assert_eq!((phrases.next(at(179)), phrases.next_retry(at(100))), (None, Some(at(180))));
    phrases.insert(&said("ada", 0), 10).unwrap();
    assert_eq!((phrases.next(at(999)), phrases.next_retry(at(999))), (None, None));
}

#[test]
fn a_failed_voice_is_retried_when_the_clock_has_stepped_back() {
    let mut phrases = Phrases::new(1, 1_000);
    let ada = voice("ada");
    phrases.want(&ada, at(3_600));
    phrases.failed(&ada, at(3_600));
    assert_eq!((phrases.next(at(1)), phrases.next_retry(at(1))), (Some(said("ada", 0)), None));
    phrases.failed(&ada, at(1));
    assert_eq!((phrases.next(at(2)), phrases.next_retry(at(2))), (None, Some(at(121))));
}

#[test]
fn a_wanted_voice_evicts_the_least_recently_wanted_one() {
    let mut phrases = holding(2, 40, "ada", 20);
    phrases.choose(&voice("ada"));
    phrases.want(&voice("bob"), at(5));
    assert_eq!(phrases.next(at(5)), Some(said("bob", 0)));
    let left = phrases.insert(&said("bob", 0), 20).unwrap();
    assert_eq!(left, [said("ada", 1)], "the most recently said phrase stays longest");
    let left = phrases.insert(&said("bob", 1), 20).unwrap();
    assert_eq!((left, phrases.cached_bytes()), (vec![said("ada", 0)], 40));
    assert_eq!(phrases.next(at(7)), None, "no phrase is synthesised only to be evicted");

    phrases.want(&voice("ada"), at(8));
    assert_eq!(phrases.next(at(8)), Some(said("ada", 0)));
}

#[test]
fn a_voice_does_not_evict_its_own_phrases() {
    let mut phrases = Phrases::new(3, 50);
    phrases.want(&voice("ada"), at(1));
    assert_eq!(phrases.insert(&said("ada", 0), 30), Ok(vec![]));
    assert_eq!(phrases.insert(&said("ada", 1), 30), Err(NoRoom));
    assert_eq!((phrases.next(at(2)), phrases.cached_bytes()), (None, 30));
}

#[test]
fn tracked_voices_are_limited() {
    let mut phrases = holding(1, 1_000, "first", 10);
    for index in 1..MAX_VOICES {
        assert_eq!(phrases.want(&voice(&format!("v{index}")), at(10 + index as u64)), []);
    }
    assert_eq!(phrases.want(&voice("more"), at(99)), [said("first", 0)]);
    assert_eq!(phrases.cached_bytes(), 0);
}

#[test]
fn silence_is_distinguished_from_soft_speech() {
    assert!(is_silent(&[]));
    assert!(is_silent(&[0; 1_000]));
    let dither: Vec<_> = (0..1_000).map(|at| at % 2).collect();
    assert!(is_silent(&dither));
    let soft: Vec<_> = (0..1_000).map(|at| if at % 40 < 20 { 300 } else { -300 }).collect();
    assert!(!is_silent(&soft));
}

#[test]
fn a_voice_name_is_neither_an_option_nor_a_path() {
    for name in ["en", "en-us+f3", "Samantha", "en_GB-alba.medium"] {
        assert_eq!(name.parse::<VoiceName>().unwrap().as_str(), name);
    }
    for name in ["", "-w", "../x", "a/b", "a b", "{text}", ".hidden", &"x".repeat(65)] {
        assert_eq!(name.parse::<VoiceName>(), Err(VoiceNameError), "{name}");
    }
}

proptest! {
    #[test]
    fn the_budget_holds_and_only_cached_phrases_are_evicted(
        steps in prop::collection::vec((0_u8..4, 0_usize..10, 0_usize..4, 1_u64..60), 0..200),
    ) {
        let mut phrases = Phrases::new(4, 150);
        let mut held: BTreeSet<VoicePhrase> = BTreeSet::new();
        let mut last: BTreeMap<VoiceName, PhraseId> = Default::default();
        for (index, (kind, name, id, bytes)) in steps.into_iter().enumerate() {
            let (now, name) = (at(index as u64 * 30), voice(&format!("v{name}")));
            let left = match kind {
                0 => phrases.want(&name, now),
                1 => {
                    phrases.failed(&name, now);
                    vec![]
                }
                2 => {
                    let spoken = (name.clone(), PhraseId(id));
                    if held.contains(&spoken) {
                        vec![]
                    } else if let Ok(left) = phrases.insert(&spoken, bytes) {
                        held.insert(spoken);
                        left
                    } else {
                        vec![]
                    }
                }
                _ => {
                    if let Some(said) = phrases.choose(&name) {
                        prop_assert!(held.contains(&(name.clone(), said)));
                        prop_assert_ne!(last.insert(name, said), Some(said));
                    }
                    vec![]
                }
            };
            for spoken in left {
                prop_assert!(held.remove(&spoken));
                last.remove(&spoken.0);
            }
            prop_assert!(phrases.cached_bytes() <= 150);
            if let Some(next) = phrases.next(now) {
                prop_assert!(!held.contains(&next));
            }
        }
    }
}

fn holding(count: usize, budget_bytes: u64, name: &str, bytes: u64) -> Phrases {
    let mut phrases = Phrases::new(count, budget_bytes);
    phrases.want(&voice(name), at(1));
    for id in 0..count {
        phrases.insert(&said(name, id), bytes).unwrap();
    }
    phrases
}

fn voice(name: &str) -> VoiceName {
    name.parse().unwrap()
}

fn said(name: &str, id: usize) -> VoicePhrase {
    (voice(name), PhraseId(id))
}

fn at(secs: u64) -> Timestamp {
    Timestamp(secs * 1_000)
}
