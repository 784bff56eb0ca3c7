//! Sessions in the language of Hob's small model: facts, files and secrets whose values are drawn
//! at random, between questions, small talk and prose.

/// Random numbers that repeat (splitmix64).
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    fn word(&mut self, list: &'static str) -> &'static str {
        let words: Vec<&str> = list.split(' ').collect();
        words[self.below(words.len())]
    }
}

const COLORS: &str = "red blue green yellow purple orange black white silver golden pink brown teal violet crimson ivory";
const CITIES: &str = "Oslo Lima Cairo Paris Quito Delhi Tokyo Berlin Madrid Vienna Lagos Nairobi Sydney Dublin Prague Athens Havana Seoul Hanoi Accra Lisbon Boston Denver Austin Geneva Milan Krakow Porto Zurich Bergen";
const FOODS: &str = "pizza sushi pasta curry tacos ramen salad soup bread cheese rice noodles pancakes dumplings waffles lasagna falafel paella risotto gnocchi";
const ANIMALS: &str = "dog cat horse rabbit parrot turtle hamster fox owl wolf bear eagle dolphin tiger lion zebra panda goose otter badger";
const DAYS: &str = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday";
const JOBS: &str =
    "baker pilot nurse teacher painter farmer lawyer sailor doctor singer plumber chemist";
const GENRES: &str = "jazz rock blues folk opera techno reggae soul";
const THINGS: &str = "bridge river market boat school clock museum lantern letter valley apple winter summer north old new first second last small secret main spare travel work kitchen bedroom bathroom garage hallway office garden basement attic lounge";
const NUMBERS: &str = "favorite number|lucky number|locker code|bike lock code|door code|phone extension|apartment number|badge number|bus number";
const CODES: &str = "flight number|booking code|wifi password|parking spot|license plate|seat";
const NAMES: &str = "name|dog's name|cat's name|sister's name|brother's name|boss's name|doctor's name|neighbor's name|teacher's name|project name|street";
const OTHERS: &str = "favorite color|car color|front door color|home city|birth city|next trip|favorite food|usual lunch|pet|favorite animal|job|meeting day|gym day|trash day|favorite music";
const HEADS: &str = "code number pin passkey password key ticket name word place day color";
const KEYS: &str = "port host timeout retries user path limit cache level region token workers batch seed mode theme depth width";
const STEMS: &str =
    "config server notes main build deploy app test data index router setup report budget schema";
const EXTENSIONS: &str = "py toml json yaml txt md rs cfg";
const SUBJECTS: &str = "The river|The mayor|A baker|The old bridge|My neighbor|The market|A small boat|The library|The north wind|The school|A painter|The harbor|The morning train|The clock tower|A farmer|The museum|The long road|A sailor|The winter|The garden";
const VERBS: &str = "opened closed followed crossed painted carried watched reached found crowded warmed left built kept repaired visited";
const OBJECTS: &str = "the quiet square|a narrow street|the wooden gate|seven old boats|the empty hall|a bright lantern|the green hills|a box of apples|the frozen lake|many small houses|the late ferry|an iron fence|the tall grass|a new roof|the last letter|the deep valley";
const TIMES: &str = "in the morning|before noon|after the rain|at dusk|every summer|in early spring|on a cold day|without a sound|for many years|near the sea|late at night|during the fair";

fn phrase(draw: &mut Draw, list: &'static str) -> &'static str {
    let phrases: Vec<&str> = list.split('|').collect();
    phrases[draw.below(phrases.len())]
}

fn digits(draw: &mut Draw) -> String {
    (0..2 + draw.below(5)).map(|_| char::from(b'0' + draw.below(10) as u8)).collect()
}

fn code(draw: &mut Draw) -> String {
    let letters: String =
        (0..1 + draw.below(3)).map(|_| *draw.of(&['A', 'B', 'C', 'K', 'M', 'X', 'Z'])).collect();
    letters + &digits(draw)
}

fn name(draw: &mut Draw) -> String {
    let syllables = 1 + draw.below(2);
    let mut name = String::new();
    for _ in 0..syllables {
        name += draw.word("b c d f g h j k l m n p r s t v w z br cl dr fr gr kr pl st tr sh th");
        name += draw.word("a e i o u ai ea io");
    }
    name += *draw.of(&["", "n", "r", "l", "s", "m", "x", "ck", "nd"]);
    name[..1].to_uppercase() + &name[1..]
}

fn value(draw: &mut Draw) -> String {
    match draw.below(5) {
        0 => digits(draw),
        1 => draw.word(COLORS).into(),
        2 => draw.word(CITIES).to_lowercase(),
        3 => code(draw),
        _ => name(draw).to_lowercase(),
    }
}

fn fact(draw: &mut Draw) -> (String, String) {
    if draw.chance(60) {
        return match draw.below(41) {
            0..9 => (phrase(draw, NUMBERS).into(), digits(draw)),
            9..15 => (phrase(draw, CODES).into(), code(draw)),
            15..26 => (phrase(draw, NAMES).into(), name(draw)),
            _ => {
                let lists = [COLORS, CITIES, FOODS, ANIMALS, JOBS, DAYS, GENRES];
                let list = *draw.of(&lists);
                (phrase(draw, OTHERS).into(), draw.word(list).into())
            }
        };
    }
    let head = draw.word(HEADS);
    let lists = [COLORS, FOODS, ANIMALS, JOBS, THINGS, THINGS];
    let list = *draw.of(&lists);
    let attribute =
        if draw.chance(15) { head.into() } else { format!("{} {head}", draw.word(list)) };
    let value = match draw.below(3) {
        0 => digits(draw),
        1 => format!("{}-{}", draw.word(COLORS).to_uppercase(), digits(draw)),
        _ => name(draw),
    };
    (attribute, value)
}

fn prose(draw: &mut Draw) -> String {
    format!(
        "{} {} {} {}.",
        phrase(draw, SUBJECTS),
        draw.word(VERBS),
        phrase(draw, OBJECTS),
        phrase(draw, TIMES)
    )
}

fn small_talk(draw: &mut Draw) -> (String, String) {
    let talk = [
        ("What is the capital of France?", "The capital of France is Paris."),
        ("What color is the sky?", "The sky is blue."),
        ("What is the opposite of hot?", "The opposite of hot is cold."),
        ("What is a young dog called?", "A young dog is called a puppy."),
        ("What is 3 plus 4?", "3 plus 4 is 7."),
        ("What sound does a cat make?", "A cat says meow."),
        ("What number comes after four?", "After four comes five."),
        ("What day comes after Monday?", "After Monday comes Tuesday."),
        ("Hello!", "Hello! How can I help you?"),
        ("Thanks a lot!", "You are welcome."),
        ("What is the weather in Oslo?", "It is sunny in Oslo, 12 degrees."),
        ("Turn on the kitchen light.", "The kitchen light is now on."),
        ("What is your name?", "My name is Ember."),
    ];
    let (said, answer) = *draw.of(&talk);
    (said.into(), answer.into())
}

/// What a session was told, and the question for it.
#[derive(Clone, Debug)]
pub struct Probe {
    pub kind: &'static str,
    pub question: String,
    /// The message that says it, and the bytes in it that do.
    pub message: usize,
    pub bytes: std::ops::Range<usize>,
    pub value: String,
}

pub struct Session {
    pub messages: Vec<String>,
    /// One for each thing that was told, with its newest value, in any order.
    pub probes: Vec<Probe>,
}

/// A session of at least `messages` messages.
pub fn session(draw: &mut Draw, messages: usize) -> Session {
    let mut told: Vec<(String, Probe)> = Vec::new();
    let mut said: Vec<String> = Vec::new();
    let mut files: Vec<String> = Vec::new();
    while said.len() < messages {
        let at = said.len();
        let mut tell = |subject: String, kind, question, text: &str, proof: &str, value: &str| {
            let start = text.find(proof).expect("the proof is in the text");
            let bytes = start..start + proof.len();
            let probe = Probe { kind, question, message: at, bytes, value: value.into() };
            told.retain(|(known, _)| *known != subject);
            told.push((subject, probe));
        };
        let (text, answer) = match draw.below(100) {
            0..20 => {
                let (a, v) = fact(draw);
                let text = match draw.below(6) {
                    0 => format!("My {a} is {v}."),
                    1 => format!("Please remember that my {a} is {v}."),
                    2 => format!("By the way, my {a} is {v}."),
                    3 => format!("Remember my {a}: {v}."),
                    4 => format!("Actually, my {a} is now {v}."),
                    _ => format!("My {a} changed to {v}."),
                };
                let proof = &text[text.to_lowercase().find("my").unwrap()..];
                tell(format!("fact {a}"), "fact", fact_question(draw, &a), &text, proof, &v);
                let answers = [
                    format!("Okay, your {a} is {v}."),
                    format!("I will remember that your {a} is {v}."),
                ];
                (text.clone(), draw.of(&answers).clone())
            }
            20..45 => {
                let a = fact(draw).0;
                let known = told.iter().find(|(subject, _)| *subject == format!("fact {a}"));
                let answer = match known {
                    Some((_, probe)) => format!("Your {a} is {}.", probe.value),
                    None => format!("I do not know your {a}."),
                };
                (fact_question(draw, &a), answer)
            }
            45..58 => {
                let file = format!("{}.{}", draw.word(STEMS), draw.word(EXTENSIONS));
                let mut keys: Vec<&str> = KEYS.split(' ').collect();
                let mut text = format!("[file:{file}]\n");
                told.retain(|(subject, _)| !subject.ends_with(&format!(" in {file}")));
                let mut tell = |key: &str,
                                line: String,
                                text: &str,
                                value: &str,
                                draw: &mut Draw| {
                    let question = file_question(draw, key, &file);
                    let bytes = text.len() - line.len()..text.len();
                    let probe =
                        Probe { kind: "file", question, message: at, bytes, value: value.into() };
                    told.push((format!("{key} in {file}"), probe));
                };
                for _ in 0..1 + draw.below(12) {
                    let key = keys.swap_remove(draw.below(keys.len()));
                    let value = value(draw);
                    let line = format!("{key} = {value}");
                    text += &line;
                    tell(key, line, &text, &value, draw);
                    text += "\n";
                }
                files.push(file.clone());
                (text + "[end]", format!("I read {file}."))
            }
            58..66 if !files.is_empty() => {
                let file = draw.of(&files).clone();
                let key = draw.word(KEYS);
                let known = told.iter().find(|(subject, _)| *subject == format!("{key} in {file}"));
                let answer = match known {
                    Some((_, probe)) => format!("In {file}, {key} is {}.", probe.value),
                    None => format!("I do not see {key} in {file}."),
                };
                (file_question(draw, key, &file), answer)
            }
            66..73 => {
                let city = draw.word(CITIES);
                let secret = digits(draw);
                let proof = format!("The secret code of {city} is {secret}.");
                let mut parts: Vec<String> =
                    (0..*draw.of(&[2, 4, 8, 16])).map(|_| prose(draw)).collect();
                parts.insert(draw.below(parts.len() + 1), proof.clone());
                let text = format!("Read this. {}", parts.join(" "));
                let question = format!("What is the secret code of {city}?");
                tell(format!("secret {city}"), "secret", question, &text, &proof, &secret);
                (text, "I read it.".into())
            }
            73..78 => {
                let city = draw.word(CITIES);
                let known = told.iter().find(|(subject, _)| *subject == format!("secret {city}"));
                let answer = match known {
                    Some((_, probe)) => format!("The secret code of {city} is {}.", probe.value),
                    None => format!("I do not know the secret code of {city}."),
                };
                (format!("What is the secret code of {city}?"), answer)
            }
            _ => small_talk(draw),
        };
        said.extend([text, answer]);
    }
    let mut probes: Vec<Probe> = told.into_iter().map(|(_, probe)| probe).collect();
    (1..probes.len()).rev().for_each(|at| probes.swap(at, draw.below(at + 1)));
    Session { messages: said, probes }
}

fn fact_question(draw: &mut Draw, a: &str) -> String {
    match draw.below(4) {
        0 => format!("What is my {a}?"),
        1 => format!("Tell me my {a}."),
        2 => format!("Do you remember my {a}?"),
        _ => format!("What was my {a} again?"),
    }
}

fn file_question(draw: &mut Draw, key: &str, file: &str) -> String {
    match draw.below(2) {
        0 => format!("What is {key} in {file}?"),
        _ => format!("In {file}, what is {key}?"),
    }
}
