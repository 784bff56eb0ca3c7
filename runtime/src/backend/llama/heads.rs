//! Which files have MTP heads that guess here, and llama.cpp's functions for their hidden states.
//!
//! - llama.cpp ends the process where a graph lacks a tensor of a head, or has several. So [`ARCHITECTURES`] lists the
//!   tensors that the graphs of the pinned version assert, and [`find`] looks for them before llama.cpp loads the weights.
//! - The functions are in the staging header `src/llama-ext.h`, which the bindings leave out. They are C++, so their
//!   symbols have the names that Itanium's ABI gives them; a version that changes one does not link.

use std::path::Path;

use llama_cpp_sys_2 as sys;

use super::header::Header;
use crate::backend::{MtpHeads, NoMtp};

/// Each architecture, and the tensors of the head's layer that its graph asserts.
const ARCHITECTURES: [(&str, &[&str]); 5] = [
    ("glm4moe", &["ffn_gate_inp"]),
    ("hy_v3", &[]),
    ("qwen35", &[]),
    ("qwen35moe", &["ffn_gate_inp"]),
    ("qwen3next", &["ffn_gate_inp"]),
];

/// The graph of this architecture's head rotates by one position for each token, also where the model has a position for
/// each of several axes. ggml asserts that such a rotation has its sections.
const ONE_AXIS: &str = "glm4moe";

/// Joins the token and the hidden state. Files without heads may name their number all the same.
const JOINS: &str = "nextn.eh_proj";

const OF_ALL: [&str; 2] = ["nextn.enorm", "nextn.hnorm"];

/// The heads in the `files` of a model, the first shard first. They are not in memory yet.
pub(super) fn find<'f>(mut files: impl Iterator<Item = &'f Path>) -> MtpHeads {
    let Some(first) = files.next().and_then(Header::open) else { return MtpHeads::None };
    let architecture = first.text("general.architecture").unwrap_or_default();
    let number = |key: &str| first.number(&format!("{architecture}.{key}"));
    let count = number("nextn_predict_layers").filter(|&count| count > 0);
    let layer = count.and_then(|count| number("block_count")?.checked_sub(count));
    let (Some(count), Some(layer)) = (count, layer) else { return MtpHeads::None };
    let tensor = |name: &str| format!("blk.{layer}.{name}.weight");
    let others: Vec<Header> = files.filter_map(Header::open).collect();
    let has = |name: &str| {
        let name = tensor(name);
        first.has_tensor(&name) || others.iter().any(|file| file.has_tensor(&name))
    };
    if !has(JOINS) {
        return MtpHeads::None;
    }
    let known = ARCHITECTURES.iter().find(|(name, _)| *name == architecture);
    let Some((_, own)) = known else {
        return MtpHeads::Refused(NoMtp::Architecture(architecture));
    };
    if count > 1 {
        return MtpHeads::Refused(NoMtp::Several(count));
    }
    if architecture == ONE_AXIS && first.has(&format!("{architecture}.rope.dimension_sections")) {
        return MtpHeads::Refused(NoMtp::Axes);
    }
    match OF_ALL.iter().chain(*own).find(|name| !has(name)) {
        Some(missing) => MtpHeads::Refused(NoMtp::Tensor(tensor(missing))),
        None => MtpHeads::Loaded,
    }
}

unsafe extern "C" {
    /// `value`: later micro-batches keep hidden states; with `masked`, those of rows with logits alone.
    #[link_name = "_Z26llama_set_embeddings_nextnP13llama_contextbb"]
    pub(super) fn set_embeddings_nextn(context: *mut sys::llama_context, value: bool, masked: bool);

    /// The hidden state of the row `row` of the last micro-batch; null where llama.cpp kept none.
    #[link_name = "_Z30llama_get_embeddings_nextn_ithP13llama_contexti"]
    pub(super) fn get_embeddings_nextn_ith(context: *mut sys::llama_context, row: i32) -> *mut f32;
}

#[cfg(test)]
mod tests {
    use std::{fs, iter};

    use super::*;

    fn found(file: &Path) -> MtpHeads {
        find(iter::once(file))
    }

    #[test]
    fn a_head_is_not_loaded_where_its_graph_lacks_the_axes_of_the_models_positions() {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/fixtures/glm4moe.gguf");
        assert_eq!(found(&fixture), MtpHeads::Loaded);
        let file = fs::read(&fixture).unwrap();
        let key = "glm4moe.rope.dimension_sections";
        let entries = u64::from_le_bytes(*file[16..].first_chunk().unwrap());
        let mut changed = file[..16].to_vec();
        changed.extend((entries + 1).to_le_bytes());
        changed.extend((key.len() as u64).to_le_bytes());
        changed.extend_from_slice(key.as_bytes());
        changed.extend([9_u32, 5].map(u32::to_le_bytes).concat()); // An array of whole numbers: four.
        changed.extend(4_u64.to_le_bytes());
        changed.extend([3_u32, 3, 2, 0].map(u32::to_le_bytes).concat());
        changed.extend_from_slice(&file[24..]);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model.gguf");
        fs::write(&path, changed).unwrap();
        assert_eq!(found(&path), MtpHeads::Refused(NoMtp::Axes));
    }
}
