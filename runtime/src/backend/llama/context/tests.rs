//! Of llama.cpp on the processor.

use std::path::Path;

use hob_slots::Token;
use llama_cpp_sys_2 as sys;

use super::super::{LlamaModel, LlamaOptions};
use super::Context;
use crate::backend::{Backend, ContextShape, Row, Sequence};

/// llama.cpp counts tokens when it has waited for them. To read logits would wait too, so no row wants any.
#[test]
fn a_micro_batch_is_computed_when_decode_returns() {
    let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../assets/hob-tiny-f16.gguf"));
    let options = LlamaOptions { threads: 1, ..LlamaOptions::default() };
    let model = LlamaModel::load(file, options).expect("the bundled model loads");
    let shape = ContextShape { context_tokens: 256, sequences: 2, micro_batch: 32 };
    let mut context = Context::new(&model, shape).expect("there is memory for a small context");
    let row =
        |position| Row { token: Token(1), position, sequence: Sequence(0), wants_logits: false };
    let mut counted = Vec::new();
    for positions in [0..2, 2..5] {
        let rows: Vec<Row> = positions.map(row).collect();
        context.decode(&rows).expect("there is room");
        // SAFETY: the context is alive.
        let counts = unsafe { sys::llama_perf_context(context.pointer.as_ptr()) };
        counted.push(counts.n_p_eval);
    }
    assert_eq!(counted, [2, 5]);
}
