//! Embedding models on llama.cpp: a fixture with a pooling type.

#![cfg(feature = "llama")]

use std::sync::Arc;

use hob_runtime::backend::{Backend, ContextShape, DecodeError, Sequence};
use hob_runtime::{EngineOptions, Model, TurnError};
use tempfile::TempDir;

use crate::support::*;

// Ways of pooling, as llama.cpp numbers them.
const MEAN: u32 = 1;
const LAST: u32 = 3;
const RANK: u32 = 4;

#[test]
fn an_embedding_model_gives_vectors_of_length_1_and_answers_no_prompts() {
    let (_directory, model) = pooling(LAST);
    assert_eq!(model.facts().pooling.as_deref(), Some("last"));
    let engine = engine(&model, None, options());
    let embed = |text: &str| block_on(engine.embed(tokens(&model, text))).expect("it embeds");
    let (one, again, other) = (embed("a kettle"), embed("a kettle"), embed("a shelf by the fire"));
    assert_eq!(one, again);
    assert_ne!(one, other);
    assert!((one.iter().map(|value| value * value).sum::<f32>() - 1.0).abs() < 1e-4);

    let refused = engine.submit(request("chat", &tokens(&model, "hello"), 1)).unwrap_err();
    assert_eq!(refused, TurnError::NotGenerative);
}

#[test]
fn a_text_longer_than_a_micro_batch_is_embedded_as_in_one() {
    for (kind, name) in [(MEAN, "mean"), (LAST, "last")] {
        let (_directory, model) = pooling(kind);
        assert_eq!(model.facts().pooling.as_deref(), Some(name));
        let text = tokens(&model, &"a kettle on a shelf by the fire ".repeat(200));
        let (small, one) = [64, 2048]
            .map(|micro_batch| engine(&model, None, EngineOptions { micro_batch, ..options() }))
            .into();
        let most = small.conversation_tokens();
        for len in [100, most] {
            let text = &text[..len.min(text.len())];
            let (parts, whole) = (
                block_on(small.embed(text.to_vec())).unwrap(),
                block_on(one.embed(text.to_vec())).unwrap(),
            );
            let cosine: f32 = parts.iter().zip(&whole).map(|(a, b)| a * b).sum();
            assert!(cosine > 0.9999, "{name}, {} tokens: {cosine}", text.len());
        }
        assert!(text.len().min(most) > 512, "{most}");
    }
}

#[test]
fn a_text_for_which_the_cache_has_no_room_leaves_no_cell_of_it() {
    let (_directory, model) = pooling(LAST);
    let text = tokens(&model, &"a kettle on a shelf by the fire ".repeat(200));
    // llama.cpp rounds up to a multiple of 256 cells.
    let shape = ContextShape { context_tokens: 256, sequences: 1, micro_batch: 64 };
    let mut is_run = false;
    let mut run = |backend: &mut dyn Backend| {
        let before = backend.embed(&text[..10]).expect("there is room");
        let refused = backend.embed(&text[..300]);
        assert!(matches!(refused, Err(DecodeError::NoRoom { .. })), "{refused:?}");
        assert_eq!(backend.end(Sequence(0)), 0, "its first four micro-batches had room");
        let after = backend.embed(&text[..10]).expect("there is room again");
        let cosine: f32 = before.iter().zip(&after).map(|(a, b)| a * b).sum();
        assert!(cosine > 0.9999, "{cosine}");
        is_run = true;
    };
    model.with_context(shape, &mut run).expect("the context fits");
    assert!(is_run, "the test ran");
}

#[test]
fn a_ranking_model_makes_no_embeddings() {
    let (_directory, model) = pooling(RANK);
    let engine = engine(&model, None, options());
    for _ in 0..2 {
        let refused = block_on(engine.embed(tokens(&model, "hello"))).unwrap_err();
        assert!(refused.to_string().contains("ranks"), "{refused}");
    }
}

#[test]
fn a_chat_model_refuses_to_embed() {
    let model = load("hob-tiny-f16.gguf");
    let engine = engine(&model, None, options());
    let refused = block_on(engine.embed(tokens(&model, "hello"))).unwrap_err();
    assert_eq!(refused, TurnError::NotEmbedding);
}

/// A model that pools in this way, and the directory of its file.
fn pooling(kind: u32) -> (TempDir, Arc<dyn Model>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pooling.gguf");
    let plain = std::fs::read(asset("fixtures/qwen3.gguf")).unwrap();
    std::fs::write(&path, with_number(&plain, "qwen3.pooling_type", kind)).unwrap();
    let model = load(&path);
    (directory, model)
}

/// The GGUF with one more number in its metadata. The insertion is a multiple of the alignment (32
/// bytes) long, so the tensors stay at the offsets of the header.
fn with_number(gguf: &[u8], key: &str, number: u32) -> Vec<u8> {
    const COUNT_AT: std::ops::Range<usize> = 16..24; // After magic, version and tensor count.
    const U32: u32 = 4; // Types of values, as GGUF numbers them.
    const STRING: u32 = 8;
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let mut entry = [text(key), U32.to_le_bytes().to_vec(), number.to_le_bytes().to_vec()].concat();
    let filler = [text("test.filler"), STRING.to_le_bytes().to_vec()].concat();
    let spaces = (32 - (entry.len() + filler.len() + 8) % 32) % 32;
    entry.extend(filler.into_iter().chain(text(&" ".repeat(spaces))));

    let count = u64::from_le_bytes(gguf[COUNT_AT].try_into().unwrap());
    let mut out = gguf.to_vec();
    out[COUNT_AT].copy_from_slice(&(count + 2).to_le_bytes());
    out.splice(COUNT_AT.end..COUNT_AT.end, entry);
    out
}
