//! KV and devices: what one computes, the other continues.
//!
//! - The tests of a device skip themselves where none is. `cargo xtask test --gpu` sets
//!   `HOB_TEST_DEVICE`, with which a missing device fails.
//! - It also runs `kv_of_another_build` in a build without and in one with a device, over one
//!   directory, which `HOB_TEST_EXCHANGE` names.

#![cfg(feature = "llama")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hob_runtime::backend::llama::{GpuLayers, LlamaModel, LlamaOptions, Placement, largest_tensor};
use hob_runtime::backend::{ContextShape, Device, devices};
use hob_runtime::{Model, TurnEvent, TurnRequest};
use hob_slots::Token;
use serde::{Deserialize, Serialize};
use support::*;

const FAMILIES: [&str; 6] = [
    "hob-tiny-f16.gguf",
    "fixtures/qwen2.gguf",
    "fixtures/qwen3.gguf",
    "fixtures/gemma3.gguf",
    "fixtures/lfm2.gguf",
    "fixtures/mamba.gguf",
];

/// Devices round otherwise than the processor. Two tokens whose log probabilities differ by less may
/// change places.
const NEAR: f32 = 0.1;

const PROCESSOR: GpuLayers = GpuLayers::Count(0);
const DEVICE: GpuLayers = GpuLayers::Count(99);

fn device() -> Option<Device> {
    let device = devices().into_iter().next();
    let is_wanted = std::env::var_os("HOB_TEST_DEVICE").is_some();
    assert!(device.is_some() || !is_wanted, "this build or this machine has no device");
    device
}

fn load(file: &str, placement: Placement) -> Arc<dyn Model> {
    let options = LlamaOptions { threads: 1, placement, ..LlamaOptions::default() };
    Arc::new(LlamaModel::load(&asset(file), options).expect("the fixture loads"))
}

fn on(layers: GpuLayers) -> Placement {
    Placement { layers, ..Placement::default() }
}

/// Vulkan promises 128 MiB.
#[test]
fn a_device_of_vulkan_may_say_which_tensors_are_too_large_for_it() {
    let Some(device) = device() else { return };
    let may = device.name.starts_with("Vulkan");
    let largest = largest_tensor(&asset(FAMILIES[0]), &on(DEVICE));
    assert!(largest.is_none_or(|bytes| may && bytes >= 128 << 20), "{}: {largest:?}", device.name);
}

#[test]
fn a_number_says_how_many_layers_are_on_the_device() {
    let Some(device) = device() else { return };
    let offload = |layers| load(FAMILIES[0], on(layers)).offload();
    let all = offload(DEVICE).expect("layers are on the device");
    assert_eq!((all.layers, all.kv), (all.all_layers, true));
    assert_eq!(all.devices, [device.name]);
    assert_eq!(all.split, [all.layers]);
    assert_eq!(offload(GpuLayers::Count(2)).map(|two| two.layers), Some(2));
    assert_eq!(offload(PROCESSOR), None);
}

#[test]
fn auto_leaves_a_margin_free() {
    let Some(device) = device() else { return };
    let offload = |margin_bytes| {
        let context = ContextShape { context_tokens: 2048, sequences: 4, micro_batch: 128 };
        let placement = Placement { context: Some(context), margin_bytes, ..Placement::default() };
        load(FAMILIES[0], placement).offload()
    };
    let all = offload(1 << 20).expect("it fits");
    assert_eq!(all.layers, all.all_layers);
    let none_free = offload(usize::try_from(device.total_bytes).unwrap());
    assert!(none_free.as_ref().is_none_or(|some| some.layers < all.layers), "{none_free:?}");
}

#[test]
fn a_device_that_is_not_here_is_refused_with_those_that_are() {
    let placement = Placement { devices: vec!["CUDA7".to_owned()], ..Placement::default() };
    let options = LlamaOptions { placement, ..LlamaOptions::default() };
    let error = LlamaModel::load(&asset(FAMILIES[0]), options).err().expect("it is refused");
    let told = error.to_string();
    let remedy = device().map_or("leave the setting `device` out".to_owned(), |here| here.name);
    assert!(told.contains("CUDA7") && told.contains(&remedy), "{told}");
}

#[test]
fn layers_without_a_device_are_computed_by_the_processor() {
    if device().is_none() {
        assert_eq!(load(FAMILIES[0], on(DEVICE)).offload(), None);
    }
}

#[test]
fn kv_of_the_processor_continues_on_the_device_and_the_other_way_round() {
    if device().is_none() {
        return;
    }
    for (from, to) in [(PROCESSOR, DEVICE), (DEVICE, PROCESSOR), (DEVICE, DEVICE)] {
        for file in FAMILIES {
            let directory = tempfile::tempdir().unwrap();
            let before = begin(file, on(from), directory.path());
            check(file, on(to), directory.path(), &before);
        }
    }
}

#[test]
fn kv_in_host_memory_continues_with_layers_on_the_device() {
    if device().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let before = begin(FAMILIES[1], on(DEVICE), directory.path());
    let split = Placement { kv_offload: false, ..on(GpuLayers::Count(2)) };
    check(FAMILIES[1], split, directory.path(), &before);
}

#[test]
fn kv_of_another_build_continues_in_this_one() {
    let Some(exchange) = std::env::var_os("HOB_TEST_EXCHANGE").map(PathBuf::from) else { return };
    let this = if devices().is_empty() { "processor" } else { "device" };
    for file in FAMILIES {
        let place = |build: &str| exchange.join(build).join(file.replace('/', "-"));
        let other = place(if this == "device" { "processor" } else { "device" });
        let note = other.join("begun.json");
        if let Ok(text) = fs::read_to_string(&note) {
            // The check saves the conversation on, so it is made once.
            fs::remove_file(&note).unwrap();
            check(file, on(DEVICE), &other, &serde_json::from_str(&text).unwrap());
            println!("{file}: read by the {this} build");
        }
        let own = place(this);
        fs::create_dir_all(&own).unwrap();
        let begun = begin(file, on(DEVICE), &own);
        fs::write(own.join("begun.json"), serde_json::to_string(&begun).unwrap()).unwrap();
    }
}

/// A saved conversation, and how the engine that saved it continued it.
#[derive(Serialize, Deserialize)]
struct Begun {
    timeline: Vec<i32>,
    prompt: Vec<i32>,
    next: Vec<Step>,
}

/// A token, and the likeliest ones in its place.
#[derive(Serialize, Deserialize)]
struct Step {
    token: i32,
    likely: BTreeMap<i32, f32>,
}

/// Begins a conversation, and saves it to `directory`.
fn begin(file: &str, placement: Placement, directory: &Path) -> Begun {
    let model = load(file, placement);
    // Longer than gemma3's window of 128.
    let story = "My locker code is 48213. The capital of France is Paris. ".repeat(12);
    let story = tokens(&model, &user(&story));
    let prompt_of = |timeline: &[Token]| then(&model, timeline, "What is my locker code?");
    let saving = engine(&model, Some(directory), options());
    let first = ask(&saving, endless("chat", &story, 24));
    saving.shutdown();
    // The continuation is not saved.
    let going_on = engine(&model, None, options());
    ask(&going_on, endless("chat", &story, 24));
    let prompt = prompt_of(&first.timeline);
    let next = steps(&going_on, &prompt);
    going_on.shutdown();
    Begun { timeline: numbers(&first.timeline), prompt: numbers(&prompt), next }
}

/// Continues it: from the saved KV, and with the same tokens up to a near tie.
fn check(file: &str, placement: Placement, directory: &Path, begun: &Begun) {
    let model = load(file, placement);
    let prompt: Vec<Token> = begun.prompt.iter().map(|&token| Token(token)).collect();
    let engine = engine(&model, Some(directory), options());
    let report = ask(&engine, endless("chat", &prompt, 0)).report;
    assert_eq!(report.tokens.disk, begun.timeline.len(), "{file}: {report:?}");
    let next = steps(&engine, &prompt);
    engine.shutdown();
    let differs = begun.next.iter().zip(&next).position(|(a, b)| a.token != b.token);
    let Some(at) = differs else { return };
    let (before, now) = (&begun.next[at], &next[at]);
    let margin = |likely: &BTreeMap<i32, f32>, token| {
        likely.get(&token).map_or(f32::INFINITY, |logprob| {
            likely.values().fold(f32::MIN, |most, value| most.max(*value)) - logprob
        })
    };
    let margin = margin(&before.likely, now.token).max(margin(&now.likely, before.token));
    assert!(margin < NEAR, "{file}, token {at}: {before:?} and then {now:?}");
    println!("{file}: equal up to token {at}, where two are {margin} apart");
}

/// 64 greedy tokens, past end tokens.
fn steps(engine: &hob_runtime::Engine, prompt: &[Token]) -> Vec<Step> {
    let request = TurnRequest { logprobs: Some(5), ..endless("chat", prompt, 64) };
    let mut turn = engine.submit(request).expect("a valid turn");
    let mut steps = Vec::new();
    while let Some(event) = turn.next_blocking() {
        match event {
            TurnEvent::Token { token, logprobs, .. } => {
                let top = logprobs.expect("they were asked for").top;
                let likely = top.iter().map(|it| (it.token.0, it.logprob)).collect();
                steps.push(Step { token: token.0, likely });
            }
            TurnEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
    assert_eq!(steps.len(), 64);
    steps
}

fn numbers(tokens: &[Token]) -> Vec<i32> {
    tokens.iter().map(|token| token.0).collect()
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {:?}", self.token, self.likely)
    }
}
