//! The language of the haystacks: that of the bundled model, which other models understand as well.
//!
//! - Every value that is asked for is drawn, so that only the context tells it.
//! - The same seed always gives the same text.

/// Draws, by a linear congruential generator.
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Self {
        let mut draw = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed);
        draw.below(2);
        draw
    }

    pub fn below(&mut self, bound: usize) -> usize {
        // The multiplier is Knuth's for MMIX; the low bits of such a generator are poor.
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }

    pub fn of<'t>(&mut self, words: &[&'t str]) -> &'t str {
        words[self.below(words.len())]
    }

    /// `count` different ones of `words`.
    pub fn sample<'t>(&mut self, words: &[&'t str], count: usize) -> Vec<&'t str> {
        let mut left = words.to_vec();
        (0..count).map(|_| left.swap_remove(self.below(left.len()))).collect()
    }

    /// A number that cannot be guessed.
    pub fn digits(&mut self, count: usize) -> String {
        (0..count).map(|_| self.of(&DIGITS)).collect()
    }

    /// Sentences that tell nothing that is asked for.
    pub fn prose(&mut self, count: usize) -> Vec<String> {
        let mut sentence = |_| {
            let (who, did) = (self.of(&WHO), self.of(&DID));
            format!("{who} {did} {} {}.", self.of(&WHAT), self.of(&WHEN))
        };
        (0..count).map(&mut sentence).collect()
    }
}

const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

pub const CITIES: [&str; 20] = [
    "Oslo", "Lima", "Cairo", "Paris", "Quito", "Delhi", "Tokyo", "Berlin", "Madrid", "Vienna",
    "Lagos", "Nairobi", "Sydney", "Dublin", "Prague", "Athens", "Havana", "Seoul", "Hanoi",
    "Accra",
];

/// People of whom a text tells where they live.
pub const PEOPLE: [&str; 12] = [
    "Anna", "Boris", "Clara", "David", "Emma", "Felix", "Greta", "Henry", "Irene", "Jonas",
    "Karen", "Louis",
];

/// What a user has, each with a number.
pub const ATTRIBUTES: [&str; 8] = [
    "locker code",
    "favorite number",
    "door code",
    "badge number",
    "phone extension",
    "apartment number",
    "bike lock code",
    "lucky number",
];

/// What a user says of a number, and a question about it that shares no word with that but the most common.
pub const PARAPHRASES: [[&str; 2]; 10] = [
    ["My bicycle is secured with the combination", "How do I open the chain on this two-wheeler?"],
    ["The physician's surgery can be reached on", "Which phone should I ring if I need a doctor?"],
    ["Aunt Vera's puppy wears a tag engraved", "What is written upon the collar of that dog?"],
    ["The alarm in the cellar is disarmed by typing", "How could I silence a siren downstairs?"],
    ["My salary arrives in the account", "Where do they pay this month's wages?"],
    ["The parcel with my shoes is tracked under", "How do I find a delivery of new sneakers?"],
    ["The car in the garage has the plate", "What identifies this vehicle for police?"],
    ["The wireless at home wants the password", "What do guests enter if they go online?"],
    ["My passport was issued with the serial", "Which document number is needed at a border?"],
    ["My dentist wrote me down as patient", "Who am I when a tooth hurts?"],
];

pub const KEYS: [&str; 10] =
    ["port", "timeout", "retries", "limit", "cache", "level", "workers", "batch", "seed", "depth"];

pub const FILES: [&str; 12] = [
    "config.py",
    "server.toml",
    "notes.md",
    "build.yaml",
    "deploy.json",
    "app.rs",
    "test.py",
    "data.json",
    "index.md",
    "router.toml",
    "setup.cfg",
    "budget.txt",
];

const WHO: [&str; 14] = [
    "The river",
    "The mayor",
    "A baker",
    "The old bridge",
    "My neighbor",
    "The market",
    "A small boat",
    "The library",
    "The school",
    "A painter",
    "The harbor",
    "The clock tower",
    "A farmer",
    "The museum",
];

const DID: [&str; 12] = [
    "opened", "closed", "followed", "crossed", "painted", "carried", "watched", "reached", "found",
    "crowded", "repaired", "visited",
];

const WHAT: [&str; 14] = [
    "the quiet square",
    "a narrow street",
    "the wooden gate",
    "seven old boats",
    "the empty hall",
    "a bright lantern",
    "the green hills",
    "a box of apples",
    "the frozen lake",
    "many small houses",
    "the late ferry",
    "an iron fence",
    "the tall grass",
    "the last letter",
];

const WHEN: [&str; 10] = [
    "in the morning",
    "before noon",
    "after the rain",
    "at dusk",
    "every summer",
    "in early spring",
    "on a cold day",
    "for many years",
    "late at night",
    "during the fair",
];
