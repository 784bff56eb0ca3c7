//! Moved K against llama.cpp: against its own shift of positions, and against K that it computes there.

use std::fs;
use std::ops::Range;

use hob_slots::Token;

use super::super::context::Context;
use super::super::{LlamaModel, LlamaOptions};
use super::*;
use crate::backend::rotate::NumberType;
use crate::backend::state::PlainState;
use crate::backend::{Backend, ContextShape, Model, Row, Sequence};

const LIVE: Sequence = Sequence(0);
const OTHER: Sequence = Sequence(1);

/// Cells that are moved at once.
const CELLS: usize = 8;

/// Metadata that a fixture gets in addition.
enum Value {
    Text(&'static str),
    Number(u32),
    Short(u16),
    Signed(i32),
    Float(f32),
    /// Four whole numbers.
    Sections([i32; 4]),
}

fn fixture(file: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets").join(file);
    fs::read(path).expect("the fixture is there")
}

fn number(bytes: &[u8], at: usize) -> usize {
    usize::try_from(u64::from_le_bytes(*bytes[at..].first_chunk().unwrap())).unwrap()
}

fn short(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().unwrap())
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// Where the value of this type at `at` ends.
fn value_end(bytes: &[u8], kind: u32, at: usize) -> usize {
    match kind {
        0 | 1 | 7 => at + 1,
        2 | 3 => at + 2,
        4..=6 => at + 4,
        8 => at + 8 + number(bytes, at),
        9 => {
            let (kind, count) = (short(bytes, at), number(bytes, at + 4));
            (0..count).fold(at + 12, |at, _| value_end(bytes, kind, at))
        }
        _ => at + 8,
    }
}

/// Where each entry of the metadata has its key, and where it ends. The type of its value is behind the key.
fn entries(file: &[u8]) -> Vec<(Range<usize>, usize)> {
    let mut start = 24;
    let entries = (0..number(file, 16)).map(|_| {
        let key = start + 8..start + 8 + number(file, start);
        start = value_end(file, short(file, key.end), key.end + 4);
        (key, start)
    });
    entries.collect()
}

/// Where the metadata ends, and where the names and places of the tensors do.
fn ends(file: &[u8]) -> (usize, usize) {
    let metadata_end = entries(file).last().map_or(24, |(_, end)| *end);
    let infos_end = (0..number(file, 8)).fold(metadata_end, |start, _| {
        let dimensions = start + 8 + number(file, start);
        dimensions + 4 + 8 * short(file, dimensions) as usize + 12
    });
    (metadata_end, infos_end)
}

/// The file with more metadata, and with a tensor of factors, if any.
fn changed(file: &[u8], metadata: &[(&str, Value)], factors: &[f32]) -> Vec<u8> {
    let (tensors, count) = (number(file, 8), number(file, 16));
    let (metadata_end, infos_end) = ends(file);
    let data = &file[infos_end.next_multiple_of(32)..];
    let new_tensors = tensors + usize::from(!factors.is_empty());
    let mut bytes = file[..8].to_vec();
    bytes.extend((new_tensors as u64).to_le_bytes());
    bytes.extend(((count + metadata.len()) as u64).to_le_bytes());
    bytes.extend_from_slice(&file[24..metadata_end]);
    for (key, value) in metadata {
        bytes.extend(text(key));
        match value {
            Value::Text(value) => bytes.extend([&8_u32.to_le_bytes()[..], &text(value)].concat()),
            Value::Number(value) => bytes.extend([4, *value].map(u32::to_le_bytes).concat()),
            Value::Short(value) => {
                bytes.extend(2_u32.to_le_bytes());
                bytes.extend(value.to_le_bytes());
            }
            Value::Signed(value) => {
                bytes.extend(5_u32.to_le_bytes());
                bytes.extend(value.to_le_bytes());
            }
            Value::Float(value) => {
                bytes.extend([6, value.to_bits()].map(u32::to_le_bytes).concat())
            }
            Value::Sections(values) => {
                bytes.extend([9_u32, 5].map(u32::to_le_bytes).concat());
                bytes.extend((values.len() as u64).to_le_bytes());
                values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
            }
        }
    }
    bytes.extend_from_slice(&file[metadata_end..infos_end]);
    let behind = data.len().next_multiple_of(32);
    if !factors.is_empty() {
        bytes.extend(text(FACTORS));
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend((factors.len() as u64).to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend((behind as u64).to_le_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    let start = bytes.len();
    bytes.extend_from_slice(data);
    bytes.resize(start + behind, 0);
    factors.iter().for_each(|factor| bytes.extend(factor.to_le_bytes()));
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes
}

/// The file with other numbers in its metadata.
fn patched(file: &[u8], numbers: &[(&str, u32)]) -> Vec<u8> {
    let mut bytes = file.to_vec();
    for (key, number) in numbers {
        let key = text(key);
        let at = bytes.windows(key.len()).position(|it| it == key).expect("it has the key");
        let value = at + key.len() + 4;
        bytes[value..value + 4].copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// The bundled model with half as many heads of twice as many numbers.
fn of_wide_heads(tiny: &[u8]) -> Vec<u8> {
    let numbers = [
        ("llama.attention.head_count", 3),
        ("llama.attention.head_count_kv", 1),
        ("llama.attention.key_length", 64),
        ("llama.attention.value_length", 64),
        ("llama.rope.dimension_count", 64),
    ];
    patched(tiny, &numbers)
}

/// The file as one of another architecture.
fn relabelled(file: &[u8], from: &str, to: &str) -> Vec<u8> {
    let (metadata_end, infos_end) = ends(file);
    let own = format!("{from}.");
    let mut bytes = file[..24].to_vec();
    for (key, end) in entries(file) {
        let name = String::from_utf8_lossy(&file[key.clone()]);
        let value = match &*name {
            "general.architecture" => [&8_u32.to_le_bytes()[..], &text(to)].concat(),
            _ => file[key.end..end].to_vec(),
        };
        match name.strip_prefix(&own) {
            Some(field) => bytes.extend(text(&format!("{to}.{field}"))),
            None => bytes.extend(text(&name)),
        }
        bytes.extend(value);
    }
    bytes.extend_from_slice(&file[metadata_end..infos_end]);
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes.extend_from_slice(&file[infos_end.next_multiple_of(32)..]);
    bytes
}

/// The bundled model as one of the architecture `gemma`, which rotates half of each head.
fn of_half_rotated_heads(tiny: &[u8]) -> Vec<u8> {
    relabelled(&patched(tiny, &[("llama.rope.dimension_count", 16)]), "llama", "gemma")
}

/// The file as two shards: the first has the metadata, and the second the tensors.
fn in_shards(file: &[u8], factors: &[f32]) -> [Vec<u8>; 2] {
    let (metadata_end, _) = ends(file);
    let mut bare = [&file[..8], &[0_u8; 8], &file[16..metadata_end]].concat();
    bare.resize(bare.len().next_multiple_of(32), 0);
    let tensors = number(file, 8) + usize::from(!factors.is_empty());
    let of_shard = |shard: u16| {
        [
            ("split.no", Value::Short(shard)),
            ("split.count", Value::Short(2)),
            ("split.tensors.count", Value::Signed(i32::try_from(tensors).unwrap())),
        ]
    };
    [changed(&bare, &of_shard(0), &[]), changed(file, &of_shard(1), factors)]
}

fn load(bytes: &[u8], cache_type: &str) -> LlamaModel {
    load_files(&[("model.gguf", bytes)], cache_type)
}

/// Loads the first of the files; the others are beside it.
fn load_files(files: &[(&str, &[u8])], cache_type: &str) -> LlamaModel {
    let directory = tempfile::tempdir().expect("a directory can be made");
    for (name, bytes) in files {
        fs::write(directory.path().join(name), bytes).expect("there is room");
    }
    let path = directory.path().join(files[0].0);
    let cache_type = cache_type.to_owned();
    let options = LlamaOptions {
        threads: 1,
        cache_type_k: cache_type.clone(),
        cache_type_v: cache_type,
        ..LlamaOptions::default()
    };
    LlamaModel::load(&path, options).expect("the fixture loads")
}

fn context(model: &LlamaModel) -> Context<'_> {
    let shape = ContextShape { context_tokens: 256, sequences: 3, micro_batch: 32 };
    Context::new(model, shape).expect("it fits")
}

fn compute(context: &mut Context<'_>, sequence: Sequence, positions: Range<usize>) {
    let row = |position| Row {
        token: Token(i32::try_from(300 + position * 37 % 900).unwrap()),
        position,
        sequence,
        wants_logits: position + 1 == positions.end,
    };
    let rows: Vec<Row> = positions.clone().map(row).collect();
    context.decode(&rows).expect("there is room");
}

/// The K of all layers, by heads.
fn keys(state: &[u8], head: usize) -> Vec<Vec<f32>> {
    let (mut heads, mut row) = (Vec::new(), Vec::new());
    for section in PlainState::parse(state).expect("it is plain").keys() {
        for bytes in state[section.rows].chunks_exact(section.row_bytes) {
            NumberType::of(section.number_type).unwrap().read(bytes, &mut row);
            heads.extend(row.chunks(head).map(<[f32]>::to_vec));
        }
    }
    heads
}

/// The furthest number, as a part of the largest one of its head.
fn furthest(ours: &[u8], theirs: &[u8], head: usize, factor: f32) -> f32 {
    let (ours, theirs) = (keys(ours, head), keys(theirs, head));
    assert_eq!(ours.len(), theirs.len());
    let apart = |(ours, theirs): (&Vec<f32>, &Vec<f32>)| {
        let most = theirs.iter().fold(f32::MIN_POSITIVE, |most, it| most.max(it.abs()));
        let apart = ours.iter().zip(theirs).map(|(ours, theirs)| (ours * factor - theirs).abs());
        apart.fold(0.0, f32::max) / most
    };
    ours.iter().zip(&theirs).map(apart).fold(0.0, f32::max)
}

/// Llama.cpp moves the cells of a state by `delta`.
fn shifted(context: &mut Context<'_>, state: &[u8], delta: i32) -> Vec<u8> {
    context.import(LIVE, state).expect("it fits");
    // SAFETY: the sequence is valid; -1 stands for its whole length.
    unsafe { sys::llama_memory_seq_add(context.memory(), LIVE.0, -1, -1, delta) };
    compute(context, OTHER, 0..1); // Applies it.
    context.clear(OTHER);
    let moved = context.export(LIVE, Vec::new()).expect("it has cells");
    context.clear(LIVE);
    moved
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Compares moved K with `deltas` shifts of llama.cpp, whose K is `factor` times as long. `rounding`: of the
/// type, as a part of a head's largest number.
fn check_shifts(model: &LlamaModel, deltas: usize, factor: f32, rounding: f32, what: &str) {
    let head = model.facts().rope.as_ref().unwrap_or_else(|why| panic!("{what}: {why}")).head;
    let mut context = context(model);
    compute(&mut context, LIVE, 0..CELLS);
    let state = context.export(LIVE, Vec::new()).unwrap();
    let mut random = Random(deltas as u64);
    let mut worst = 0.0_f32;
    for _ in 0..deltas {
        let delta = i32::try_from(random.below(30_000)).unwrap();
        let ours = model.move_state(&state, &(0..CELLS), delta.into()).unwrap();
        let theirs = shifted(&mut context, &state, delta);
        assert_eq!(
            PlainState::parse(&ours).unwrap().positions().collect::<Vec<_>>(),
            PlainState::parse(&theirs).unwrap().positions().collect::<Vec<_>>(),
        );
        worst = worst.max(furthest(&ours, &theirs, head, factor));
        let back = model.move_state(&theirs, &range(delta, CELLS), -i64::from(delta)).unwrap();
        worst = worst.max(furthest(&back, &state, head, 1.0 / factor) / 2.0);
    }
    println!("{what}: {worst:.5} of a head's largest number in {deltas} shifts");
    assert!(worst <= rounding, "{what}: {worst}");
}

fn range(start: i32, len: usize) -> Range<usize> {
    let start = usize::try_from(start).unwrap();
    start..start + len
}

/// A token that is alone in its sequence sees itself: its K differs by the rotation alone.
fn check_computed(model: &LlamaModel, rounding: f32, what: &str) {
    let head = model.facts().rope.as_ref().unwrap().head;
    let mut context = context(model);
    let mut at = |position: usize| {
        let row = Row { token: Token(400), position, sequence: LIVE, wants_logits: true };
        context.decode(&[row]).expect("there is room");
        let state = context.export(LIVE, Vec::new()).unwrap();
        context.clear(LIVE);
        state
    };
    let mut random = Random(3);
    for _ in 0..20 {
        let [from, to] = [(); 2].map(|()| usize::try_from(random.below(4000)).unwrap());
        let delta = i64::try_from(to).unwrap() - i64::try_from(from).unwrap();
        let moved = model.move_state(&at(from), &(from..from + 1), delta).unwrap();
        let worst = furthest(&moved, &at(to), head, 1.0);
        assert!(worst <= rounding, "{what}, {from} to {to}: {worst}");
    }
}

/// Two roundings to 11 bits, and angles of 32 bits.
const F16: f32 = 0.002;

#[test]
fn moved_k_is_that_of_llama_cpps_own_shifts() {
    for (file, pairing) in [
        ("hob-tiny-f16.gguf", Pairing::Neighbours),
        ("fixtures/qwen2.gguf", Pairing::Halves),
        ("fixtures/qwen3.gguf", Pairing::Halves),
    ] {
        let bytes = fixture(file);
        let model = load(&bytes, "f16");
        assert_eq!(model.facts().rope.as_ref().unwrap().pairing, pairing, "{file}");
        check_shifts(&model, 200, 1.0, F16, file);
        check_computed(&model, F16, file);
    }
}

#[test]
fn each_type_of_k_is_moved() {
    let tiny = fixture("hob-tiny-f16.gguf");
    let wide = of_wide_heads(&tiny);
    // Eight bits of a block's largest number; in heads of 64, a Hadamard rotation mixes it with others.
    for (cache_type, bytes, rounding) in [("f32", &tiny, 1e-4), ("q8_0", &wide, 0.05)] {
        let model = load(bytes, cache_type);
        check_shifts(&model, 100, 1.0, rounding, cache_type);
        check_computed(&model, rounding, cache_type);
    }
    // llama.cpp ends the process where it is to shift these.
    check_computed(&load(&tiny, "bf16"), 0.02, "bf16");
    check_computed(&load(&tiny, "q8_0"), 0.05, "q8_0 without a Hadamard rotation");
    let model = load(&tiny, "q4_0");
    assert_eq!(model.facts().rope, Err(Immovable::CacheType("q4_0".to_owned())));
}

#[test]
fn scaling_yarn_factors_and_a_part_of_a_head_are_honoured() {
    let tiny = fixture("hob-tiny-f16.gguf");
    let linear = [
        ("llama.rope.scaling.type", Value::Text("linear")),
        ("llama.rope.scaling.factor", Value::Float(4.0)),
    ];
    let yarn = [
        ("llama.rope.scaling.type", Value::Text("yarn")),
        ("llama.rope.scaling.factor", Value::Float(4.0)),
        ("llama.rope.scaling.original_context_length", Value::Number(512)),
    ];
    let half = load(&tiny, "f16").facts().rope.as_ref().unwrap().rotated / 2;
    let factors: Vec<f32> = (0..half).map(|pair| 1.0 + pair as f32 / 4.0).collect();
    // llama.cpp's shift makes K of YaRN longer, each time; the K that it computes has that once.
    let longer = 1.0 + 0.1 * 4.0_f32.ln();
    for (what, bytes, factor) in [
        ("linear", changed(&tiny, &linear, &[]), 1.0),
        ("yarn", changed(&tiny, &yarn, &[]), longer),
        ("factors", changed(&tiny, &[], &factors), 1.0),
        ("yarn and factors", changed(&tiny, &yarn, &factors), longer),
        ("a part", of_half_rotated_heads(&tiny), 1.0),
    ] {
        let model = load(&bytes, "f16");
        check_shifts(&model, 100, factor, F16, what);
        check_computed(&model, F16, what);
    }
}

#[test]
fn factors_in_another_shard_are_honoured() {
    let tiny = fixture("hob-tiny-f16.gguf");
    let half = load(&tiny, "f16").facts().rope.as_ref().unwrap().rotated / 2;
    let factors: Vec<f32> = (0..half).map(|pair| 1.0 + pair as f32 / 4.0).collect();
    let [first, second] = in_shards(&tiny, &factors);
    let files = [
        ("model-00001-of-00002.gguf", first.as_slice()),
        ("model-00002-of-00002.gguf", second.as_slice()),
    ];
    let model = load_files(&files, "f16");
    assert_eq!(model.facts().rope.as_ref().unwrap().factors, factors);
    check_shifts(&model, 20, 1.0, F16, "factors in another shard");
}

#[test]
fn what_cannot_be_moved_is_refused_by_name() {
    let tiny = fixture("hob-tiny-f16.gguf");
    let qwen2vl = relabelled(&fixture("fixtures/qwen2.gguf"), "qwen2", "qwen2vl");
    let sections = [("qwen2vl.rope.dimension_sections", Value::Sections([2, 3, 3, 0]))];
    let longrope = [("llama.rope.scaling.type", Value::Text("longrope"))];
    let latent = [("llama.attention.kv_lora_rank", Value::Number(32))];
    for (bytes, word) in [
        (fixture("fixtures/gemma3.gguf"), "sliding-window"),
        (fixture("fixtures/lfm2.gguf"), "hybrid"),
        (fixture("fixtures/mamba.gguf"), "recurrent"),
        (changed(&qwen2vl, &sections, &[]), "M-RoPE"),
        (changed(&tiny, &longrope, &[]), "LongRoPE"),
        (changed(&tiny, &latent, &[]), "MLA"),
        // Each fourth layer of it rotates nothing.
        (relabelled(&tiny, "llama", "smollm3"), "`smollm3`"),
    ] {
        let why = load(&bytes, "f16").facts().rope.clone();
        let why = why.expect_err(word).to_string();
        assert!(why.contains(word), "{word}: {why}");
    }
}
