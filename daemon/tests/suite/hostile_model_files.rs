//! Model files that llama.cpp does not survive, given to the built hobd: it refuses each by name, with
//! the reason, and goes on with the model that it runs.
//!
//! 60 changed files; `HOB_TEST_ALL=1`: 600; `HOB_TEST_MODELS=10000`: as many; `HOB_TEST_SEED=7` changes them otherwise.
#![cfg(feature = "llama")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use hob_testkit::{Client, Gguf, Hobd, Launch, Memory, asset, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::chance::from_env;

/// Files that the sweep makes; `HOB_TEST_ALL=1` makes the second number.
const SWEEP: (usize, usize) = (60, 600);

/// After any number of them, the bundled model's KV included.
const MAX_RESIDENT_MIB: u64 = 512;

/// A running hobd on the bundled model, and a directory for models.
struct World {
    directory: TempDir,
    launch: Launch,
    hobd: Hobd,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
        let launch = launch.args(["--threads", "1", "--ctx", "512"]);
        let hobd = launch.start();
        Self { directory, launch, hobd }
    }

    fn client(&self) -> &Client {
        &self.hobd.client
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.gguf"))
    }

    /// Chooses the model and waits until it runs, or until hobd says why it does not.
    fn switch(&self, path: &Path) -> Result<(), String> {
        let before = self.client().get("/v1/status");
        let request = json!({"model": path, "force": true});
        let answer = self.client().call("POST", "/v1/models/switch").json(&request).send();
        if answer.status != 202 {
            let error = &answer.json()["error"];
            assert_eq!((answer.status, &error["code"]), (400, &json!("model_unusable")));
            return Err(text(&error["message"]));
        }
        wait::until("the model runs or is refused", || {
            let now = self.client().try_status()?;
            let failure = &now["switch_error"];
            if !failure.is_null() && *failure != before["switch_error"] {
                assert_eq!(now["pid"], before["pid"]);
                return Some(Err(text(&now["switch_error"]["message"])));
            }
            // Two files may have one fingerprint: a change need not change a model.
            let is_new = ["model", "fingerprint"].iter().any(|it| now[it] != before[it]);
            is_new.then_some(Ok(()))
        })
    }

    fn say(&self) {
        say(self.client());
    }

    /// Probes so far.
    fn probes(&self) -> usize {
        self.launch.log().matches("the model file was probed").count()
    }
}

#[test]
fn a_file_that_ends_llama_cpp_is_refused_by_name_and_the_present_model_stays() {
    let world = World::new();
    let started = world.client().get("/v1/status")["started_at"].clone();
    for (name, model, reason) in fatal() {
        let path = world.path(name);
        model.write(&path);
        let probes = world.probes();
        let refused = world.switch(&path).unwrap_err();
        assert!(refused.contains(path.to_str().unwrap()), "{name}: {refused}");
        assert!(refused.contains(reason), "{name}: {refused}");
        assert!(refused.contains("choose another model"), "{name}: {refused}");
        assert_eq!(world.probes(), probes + 1, "{name}");

        // Its content is known now, also under another name.
        let copy = world.path("copy");
        for again in [&path, &copy] {
            fs::copy(&path, &copy).unwrap();
            let refused = world.switch(again).unwrap_err();
            assert!(refused.contains(reason), "{name}: {refused}");
        }
        assert_eq!(world.probes(), probes + 1, "{name}: a second child");
    }
    let now = world.client().get("/v1/status");
    assert_eq!((&now["started_at"], &now["demo"]), (&started, &json!(true)), "it never restarted");
    world.say();

    let good = fixture("qwen2");
    let path = world.path("good");
    good.write(&path);
    world.switch(&path).unwrap();
    world.say();
}

#[test]
fn a_start_with_such_a_file_says_why_and_tries_it_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hostile.gguf");
    fixture("qwen2").number("qwen2.block_count", 0).write(&path);
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--model".into(), path.into_os_string()]);
    for _ in 0..2 {
        assert!(launch.spawn().ready().is_none());
    }
    let log = launch.log();
    assert_eq!(log.matches("the model file was probed").count(), 1, "{log}");
    assert_eq!(log.matches("hobd: cannot use").count(), 2, "{log}");
}

#[test]
fn a_model_whose_mtp_head_ends_llama_cpp_is_served_without_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    with_whole_numbers(fixture("mtp-plain"), "blk.2.nextn.enorm.weight").write(&path);
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--threads", "1", "--ctx", "512"]);
    let launch = launch.args(["--model".into(), path.into_os_string()]);
    for _ in 0..2 {
        let hobd = launch.start();
        say(&hobd.client);
        let refused = text(&hobd.client.get("/v1/status")["mtp"]["refused"]);
        assert!(refused.contains("while it computed a few tokens with it (signal 6"), "{refused}");
    }
    let log = launch.log();
    let probes = log.matches("the model file was probed").count();
    assert_eq!(probes, 2, "with the head and without it, at the first start alone: {log}");
}

#[test]
fn a_file_that_was_probed_is_not_probed_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("good.gguf");
    fixture("qwen2").write(&path);
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--threads", "1", "--ctx", "512"]);
    let launch = launch.args(["--model".into(), path.into_os_string()]);
    for _ in 0..2 {
        say(&launch.start().client);
    }
    assert_eq!(launch.log().matches("the model file was probed").count(), 1);
}

#[test]
fn a_model_file_that_is_replaced_by_such_a_file_leaves_the_daemon_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    fixture("qwen2").write(&path);
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--threads", "1", "--ctx", "512"]);
    let launch = launch.args(["--model".into(), path.clone().into_os_string()]);
    let hobd = launch.start();
    let next = directory.path().join("next");
    fixture("qwen2").float(EPSILON, f32::NAN).write(&next);
    fs::rename(next, path).unwrap();
    let failure = wait::until("the file is refused", || {
        let now = hobd.client.get("/v1/status");
        now["switch_error"]["message"].as_str().map(str::to_owned)
    });
    assert!(failure.contains("GGML_ASSERT(eps >= 0.0f) failed"), "{failure}");
    say(&hobd.client);
}

#[test]
fn what_is_no_file_is_refused_and_does_not_hang() {
    let world = World::new();
    let pipe = world.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [pipe.as_path(), Path::new("/dev/zero")] {
        let refused = world.switch(path).unwrap_err();
        assert!(refused.contains("is no regular file"), "{refused}");
    }
    let models = world.directory.path().join("data/models");
    fs::create_dir_all(&models).unwrap();
    fs::rename(&pipe, models.join("pipe.gguf")).unwrap();
    assert_eq!(world.client().get("/v1/models/local")["object"], "list");
    let launch = world.launch.clone().args(["--model", "/dev/zero"]);
    drop(world.hobd);
    assert!(launch.spawn().ready().is_none());
    assert!(launch.log().contains("/dev/zero is no regular file"), "{}", launch.log());
}

#[test]
fn no_randomly_changed_file_ends_hangs_or_swells_the_daemon() {
    let world = World::new();
    let pid = world.client().get("/v1/status")["pid"].clone();
    let all = std::env::var_os("HOB_TEST_ALL").is_some();
    let count = from_env("HOB_TEST_MODELS", if all { SWEEP.1 } else { SWEEP.0 });
    let seed = from_env("HOB_TEST_SEED", 0_u64);
    let families = ["qwen2", "qwen3", "gemma3", "lfm2", "mamba"];
    let (mut refused, mut slowest) = (0, Duration::ZERO);
    for at in 0..count {
        // Each file has a sequence of its own, so that one can be repeated alone.
        let mut random = Random::of((seed << 32) + at as u64);
        let mut model = fixture(families[at % families.len()]);
        let changes: Vec<String> =
            (0..=random.below(2)).map(|_| change(&mut model, &mut random)).collect();
        let path = world.path(&format!("changed-{at}"));
        model.write(&path);
        let damage = if random.below(4) == 0 { damage(&path, &mut random) } else { String::new() };
        let what = || format!("file {at}: {changes:?} {damage}");
        let began = Instant::now();
        match world.switch(&path) {
            Ok(()) => {
                let messages = json!([{"role": "user", "content": "Hello <|im_end|> é 水"}]);
                let request =
                    json!({"messages": messages, "max_tokens": 4, "conversation": "room"});
                world.client().call("POST", "/v1/chat/completions").json(&request).send();
            }
            Err(_) => refused += 1,
        }
        slowest = slowest.max(began.elapsed());
        if at > 2 {
            fs::remove_file(world.path(&format!("changed-{}", at - 2))).unwrap();
        }
        assert_eq!(world.client().get("/v1/status")["pid"], pid, "{}", what());
        assert!(!world.launch.log().contains("the engine is dead"), "{}", what());
        let resident = resident_mib(&pid);
        assert!(resident < MAX_RESIDENT_MIB, "{}: {resident} MiB", what());
    }
    println!("{count} files, {refused} refused, {slowest:?} at most, {} MiB", resident_mib(&pid));
}

fn resident_mib(pid: &Value) -> u64 {
    Memory::of(pid).resident_bytes >> 20
}

fn say(client: &Client) {
    let messages = json!([{"role": "user", "content": "Hello"}]);
    client.chat(&json!({"messages": messages, "max_tokens": 4}));
}

const EPSILON: &str = "qwen2.attention.layer_norm_rms_epsilon";

/// Files that end llama.cpp, and a part of the reason.
fn fatal() -> Vec<(&'static str, Gguf, &'static str)> {
    let qwen = || fixture("qwen2");
    let experts = |count| qwen().number("qwen2.expert_count", count);
    let tokenizer = |name| qwen().text("tokenizer.ggml.model", name);
    let equal = vec!["a"; 1536];
    let (loaded, computed) = ("while it loaded the file (signal 6: GGML_ASSERT", "computed a few");
    vec![
        ("blocks-0", qwen().number("qwen2.block_count", 0), loaded),
        ("blocks-999", qwen().number("qwen2.block_count", 999), loaded),
        ("blocks-max", qwen().number("qwen2.block_count", u32::MAX), loaded),
        ("experts-1", experts(1), loaded),
        ("experts-3", experts(3), loaded),
        ("experts-7", experts(7), loaded),
        ("experts-used", qwen().number("qwen2.expert_used_count", 5), loaded),
        ("tokens-equal", qwen().texts("tokenizer.ggml.tokens", &equal), loaded),
        ("tokenizer-none", tokenizer("none"), loaded),
        ("tokenizer-no-vocab", tokenizer("no_vocab"), loaded),
        ("tokenizer-llama", tokenizer("llama"), "tokenized a text with it (signal 6: an exception"),
        ("tokenizer-unknown", tokenizer("xyz"), "unknown tokenizer: 'xyz'"),
        ("epsilon-nan", qwen().float(EPSILON, f32::NAN), computed),
        ("epsilon-negative", qwen().float(EPSILON, -1.0), computed),
        ("heads-3", qwen().number("qwen2.attention.head_count", 3), computed),
        ("rope-0", qwen().number("qwen2.rope.dimension_count", 0), computed),
        ("rope-base-0", qwen().float("qwen2.rope.freq_base", 0.0), "are not numbers"),
        ("architecture", qwen().text("general.architecture", "xyz"), "unknown model architecture"),
    ]
}

/// Makes whole numbers of a list of 32-bit floats. llama.cpp loads it, and ends where it multiplies floats by it.
fn with_whole_numbers(mut model: Gguf, tensor: &str) -> Gguf {
    const WHOLE: u32 = 26;
    let tensors = model.tensors_mut();
    let name = tensors.windows(tensor.len()).position(|name| name == tensor.as_bytes());
    // Behind the name, the number of its dimensions, and its length in the only one.
    let kind = name.expect("the file has the tensor") + tensor.len() + 4 + 8;
    tensors[kind..kind + 4].copy_from_slice(&WHOLE.to_le_bytes());
    model
}

/// Changes one entry, or one of the bytes that name, measure, type and place the tensors. Returns which.
fn change(model: &mut Gguf, random: &mut Random) -> String {
    if random.below(4) == 0 {
        let tensors = model.tensors_mut();
        let at = random.below(tensors.len());
        let byte = [0, 1, 0x7f, 0xff, tensors[at] ^ 1 << random.below(8)][random.below(5)];
        tensors[at] = byte;
        return format!("byte {at} of the tensors: {byte}");
    }
    let entries = model.entries_mut();
    // Arrays are large: one of the rest as often.
    let at = random.below(entries.len());
    let entry = &mut entries[at];
    let extremes: [u64; 8] = [0, 1, 2, 3, 7, 0x7fff_ffff, 0xffff_ffff, 0x7fc0_0000];
    let value = extremes[random.below(extremes.len())].to_le_bytes();
    let is_array = entry.kind == 9;
    let head = if is_array { 12 } else { 0 };
    match (entry.kind, random.below(4)) {
        (8, _) => {
            let texts = ["", "x", "none", "llama", "gpt2", "\u{fffd}", "{{ messages }}", "bert"];
            let text = texts[random.below(texts.len())];
            entry.bytes = [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
        }
        (9, _) if entry.bytes[0] == 8 => {
            // A text of the vocabulary: its length stays.
            let at = head + 8 + random.below(entry.bytes.len() - head - 8);
            if entry.bytes[at] >= b' ' {
                entry.bytes[at] = b'a';
            }
        }
        _ if entry.bytes.len() <= head => {}
        (_, 0) => {
            let at = head + random.below(entry.bytes.len() - head);
            entry.bytes[at] ^= 1 << random.below(8);
        }
        _ => {
            let length = (entry.bytes.len() - head).min(4);
            entry.bytes[head..head + length].copy_from_slice(&value[..length]);
        }
    }
    entry.key.clone()
}

/// Changes bytes of the file, most at its beginning, or its length. Returns how.
fn damage(path: &Path, random: &mut Random) -> String {
    let mut file = fs::read(path).unwrap();
    let length = file.len();
    // Magic, version and counts; anything; the entries; the weights.
    let (start, end) = [(0, 24), (0, length), (24, 4096), (length / 2, length)][random.below(4)];
    let at = start + random.below(end - start);
    let how = random.below(6);
    match how {
        0 => file.truncate(at),
        1 => file[at] ^= 1 << random.below(8),
        2 => file[at..(at + 8).min(length)].fill(0xff),
        3 => file[at..(at + 8).min(length)].fill(0),
        4 => {
            let more = 1 + random.below(64);
            file.splice(at..at, std::iter::repeat_n(0xa5, more));
        }
        _ => drop(file.drain(at..(at + 1 + random.below(64)).min(length))),
    }
    fs::write(path, file).unwrap();
    format!("way {how} at {at} of {length}")
}

/// A generator of Marsaglia's: the same sequence in every run.
struct Random(u64);

impl Random {
    /// Neighbouring seeds have unlike sequences.
    fn of(seed: u64) -> Self {
        let mixed = (seed ^ 0x5eed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1)
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

fn fixture(family: &str) -> Gguf {
    Gguf::open(&asset(&format!("fixtures/{family}.gguf")))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
