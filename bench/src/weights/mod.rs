//! Random weights in the shape of a known model, so that speed is measured without a download.
//!
//! - For speed only: a forward pass costs as much as in the real model; the text is noise.
//! - The same shape gives the same bytes on every machine.
//! - A file is written once, under a temporary name, and renamed: it exists whole or not at all. A
//!   file of another version of this code is written again.
//! - The tokenizer is the bundled model's, padded with unused entries to the shape's vocabulary.
//!
//! [`layout`] has the tensors and the metadata of a shape, [`gguf`] the bytes of the container,
//! [`random`] the numbers.

mod gguf;
mod layout;
mod random;
mod tensor;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use gguf::Header;
use tensor::Tensor;

/// The bundled model, whose tokenizer every shape copies.
const TOKENIZER: &[u8] = include_bytes!("../../../assets/hob-tiny-f16.gguf");

/// Rows are made and written this many bytes at a time, or one row where that is longer.
const CHUNK_BYTES: usize = 1 << 20;

/// The dimensions of a model of the `qwen2` architecture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    pub name: &'static str,
    /// Width of the residual stream; a multiple of 32, like every other width.
    pub embedding: usize,
    pub layers: usize,
    /// Query heads; the head size is `embedding / heads`.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of the feed-forward part.
    pub feed_forward: usize,
    /// Entries of the vocabulary, at least as many as the bundled tokenizer has.
    pub vocabulary: usize,
    /// Base of the rotary frequencies.
    pub rope_base: f32,
    /// Trained context that the file declares.
    pub context: usize,
}

impl Shape {
    /// Qwen2.5-0.5B: 494 million weights, 529 MB.
    pub const QWEN2_5_0_5B: Self = Self {
        name: "qwen2.5-0.5b",
        embedding: 896,
        layers: 24,
        heads: 14,
        kv_heads: 2,
        feed_forward: 4864,
        vocabulary: 151_936,
        rope_base: 1e6,
        context: 32_768,
    };

    /// Small enough for a test: under 200 thousand weights.
    #[cfg(test)]
    pub const SMALL: Self = Self {
        name: "small",
        embedding: 64,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        feed_forward: 128,
        vocabulary: 1600,
        rope_base: 1e4,
        context: 4096,
    };

    fn head_size(&self) -> usize {
        self.embedding / self.heads
    }
}

/// Writes the weights of `shape` to `path`, unless they are there.
pub fn ensure(shape: Shape, path: &Path) -> io::Result<()> {
    let tensors = layout::tensors(&shape);
    let header = layout::header(&shape, &tensors, TOKENIZER)?;
    if is_written(path, &header)? {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let unfinished = unfinished(path);
    let written =
        write(&unfinished, &header, &tensors).and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// Whether this version of the code wrote the file: same length, same header. The header determines
/// the weights.
fn is_written(path: &Path, header: &Header) -> io::Result<bool> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    };
    if file.metadata()?.len() != header.file_bytes() {
        return Ok(false);
    }
    let mut found = vec![0; header.bytes().len()];
    file.read_exact(&mut found)?;
    Ok(found == header.bytes())
}

fn write(path: &Path, header: &Header, tensors: &[Tensor]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(header.bytes())?;
    let mut chunk = Vec::new();
    for (index, tensor) in tensors.iter().enumerate() {
        let rows_at_once = (CHUNK_BYTES / tensor.row_bytes()).max(1);
        let mut numbers = random::Numbers::of_tensor(index);
        let mut written_bytes = 0;
        while written_bytes < tensor.bytes() {
            chunk.clear();
            let rows = rows_at_once.min((tensor.bytes() - written_bytes) / tensor.row_bytes());
            random::fill(&mut chunk, tensor, rows, &mut numbers);
            written_bytes += chunk.len();
            file.write_all(&chunk)?;
        }
        file.write_all(&vec![0; gguf::padding(written_bytes)])?;
    }
    file.sync_all()
}

/// The temporary name; every process has its own.
fn unfinished(path: &Path) -> PathBuf {
    path.with_extension(format!("{}.unfinished", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_shape_gives_the_same_bytes() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let [first, second] = ["first.gguf", "second.gguf"].map(|name| directory.path().join(name));

        ensure(Shape::SMALL, &first).expect("written");
        ensure(Shape::SMALL, &second).expect("written");

        let bytes = fs::read(&first).expect("it is there");
        assert_eq!(bytes, fs::read(&second).expect("it is there"));
        assert_eq!(
            fs::read_dir(directory.path()).expect("readable").count(),
            2,
            "nothing is left over"
        );
    }

    #[test]
    fn a_file_that_is_there_is_kept_and_a_foreign_one_is_replaced() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let path = directory.path().join("deeper/small.gguf");
        ensure(Shape::SMALL, &path).expect("written");
        let written_at = || fs::metadata(&path).and_then(|m| m.modified()).expect("it is there");
        let first = written_at();

        ensure(Shape::SMALL, &path).expect("kept");
        assert_eq!(written_at(), first);

        fs::write(&path, b"GGUF of someone else").expect("writable");
        ensure(Shape::SMALL, &path).expect("written again");
        assert!(fs::metadata(&path).expect("it is there").len() > 100_000);
    }

    #[test]
    fn a_written_file_reads_as_the_model_that_it_imitates() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let path = directory.path().join("small.gguf");
        ensure(Shape::SMALL, &path).expect("written");

        let header = hob_models::Header::open(&path).expect("hob-models reads it");
        let summary = hob_models::Summary::of(&header);

        let found = header.tensors.iter().map(|t| (t.name.clone(), t.bytes as usize));
        let wanted =
            layout::tensors(&Shape::SMALL).into_iter().map(|t| (t.name.clone(), t.bytes()));
        assert_eq!(found.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
        let last = header.tensors.last().expect("it has tensors");
        assert_eq!(last.bytes, 64 * 128 / 32 * 34, "Q8_0 takes 34 bytes for 32 numbers");
        assert_eq!(summary.architecture, "qwen2");
        assert_eq!(summary.quantisation, "Q8_0");
        assert_eq!((summary.n_layer, summary.n_embd, summary.vocabulary_size), (2, 64, 1600));
        assert!(summary.chat_template);
    }

    #[test]
    fn the_large_shape_has_the_size_of_its_model() {
        let tensors = layout::tensors(&Shape::QWEN2_5_0_5B);
        let weights: usize = tensors.iter().map(|t| t.width * t.rows.unwrap_or(1)).sum();
        assert_eq!(weights, 494_032_768); // What the published model has.
    }
}
