//! Random weights in the shape of a known model, so that speed is measured without a download.
//!
//! - For speed only: a forward pass costs as much as in the real model; the text is noise.
//! - The same shape gives the same bytes on every machine.
//! - A file is written once, under a temporary name, and renamed: it exists whole or not at all. A
//!   file of another version of this code is written again.
//! - The tokenizer is the bundled model's, padded with unused entries to the shape's vocabulary; or a
//!   real one, whose tokens that are no plain words are never the likeliest, see [`speaking`].
//!
//! [`layout`] has the tensors and the metadata of a shape, [`gguf`] the bytes of the container,
//! [`random`] the numbers.

mod gguf;
mod layout;
mod random;
mod speaking;
mod tensor;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gguf::{Header, Metadata};
use speaking::Quiet;
use tensor::Tensor;

/// The bundled model, whose tokenizer every shape copies.
const TOKENIZER: &[u8] = include_bytes!("../../../assets/hob-tiny-f16.gguf");

/// Rows are made and written this many bytes at a time, or one row where that is longer.
const CHUNK_BYTES: usize = 1 << 20;

/// The dimensions of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// As `--model` has it.
    pub name: &'static str,
    /// As headings have it.
    pub title: &'static str,
    pub architecture: Architecture,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    Qwen2,
    /// Qwen2 without biases.
    Llama,
    /// Short convolutions, whose state is a running one, and attention in the layers of [`LFM2_ATTENTION`].
    Lfm2,
}

/// The layers with attention in LFM2-350M.
const LFM2_ATTENTION: [usize; 6] = [2, 5, 8, 10, 12, 14];

/// A real tokenizer.
pub struct Tokenizer {
    /// A GGUF that has it, with weights or without.
    pub file: PathBuf,
    /// A chat template in place of the file's own.
    pub template: Option<PathBuf>,
}

impl Shape {
    /// The shapes that have a name for a person.
    pub const KNOWN: [Self; 6] = [
        Self::QWEN2_5_0_5B,
        Self::QWEN2_5_0_5B_LONG,
        Self::LFM2_350M,
        Self::LLAMA_3_2_1B,
        Self::QWEN2_5_7B,
        Self::LLAMA_3_1_8B,
    ];

    /// Qwen2.5-0.5B: 494 million weights, 529 MB.
    pub const QWEN2_5_0_5B: Self = Self {
        name: "qwen2.5-0.5b",
        title: "Qwen2.5-0.5B",
        architecture: Architecture::Qwen2,
        embedding: 896,
        layers: 24,
        heads: 14,
        kv_heads: 2,
        feed_forward: 4864,
        vocabulary: 151_936,
        rope_base: 1e6,
        context: 32_768,
    };

    /// The same for prompts beyond the context that Qwen2.5-0.5B was trained with.
    pub const QWEN2_5_0_5B_LONG: Self = Self {
        name: "qwen2.5-0.5b-long",
        title: "Qwen2.5-0.5B with a context of 131,072 tokens",
        context: 131_072,
        ..Self::QWEN2_5_0_5B
    };

    /// LFM2-350M, a hybrid: 354 million weights, 377 MB.
    pub const LFM2_350M: Self = Self {
        name: "lfm2-350m",
        title: "LFM2-350M",
        architecture: Architecture::Lfm2,
        embedding: 1024,
        layers: 16,
        heads: 16,
        kv_heads: 8,
        feed_forward: 4608,
        vocabulary: 65_536,
        rope_base: 1e6,
        context: 128_000,
    };

    /// Llama-3.2-1B: 1.24 billion weights, 1.3 GB.
    pub const LLAMA_3_2_1B: Self = Self {
        name: "llama-3.2-1b",
        title: "Llama-3.2-1B",
        architecture: Architecture::Llama,
        embedding: 2048,
        layers: 16,
        heads: 32,
        kv_heads: 8,
        feed_forward: 8192,
        vocabulary: 128_256,
        rope_base: 5e5,
        context: 131_072,
    };

    /// Qwen2.5-7B but for its output matrix, which is the embedding here: 7.07 billion weights, 7.5 GB.
    pub const QWEN2_5_7B: Self = Self {
        name: "qwen2.5-7b",
        title: "Qwen2.5-7B",
        architecture: Architecture::Qwen2,
        embedding: 3584,
        layers: 28,
        heads: 28,
        kv_heads: 4,
        feed_forward: 18_944,
        vocabulary: 152_064,
        rope_base: 1e6,
        context: 32_768,
    };

    /// Llama-3.1-8B but for its output matrix, which is the embedding here: 7.5 billion weights, 8.0 GB.
    pub const LLAMA_3_1_8B: Self = Self {
        name: "llama-3.1-8b",
        title: "Llama-3.1-8B",
        architecture: Architecture::Llama,
        embedding: 4096,
        layers: 32,
        heads: 32,
        kv_heads: 8,
        feed_forward: 14_336,
        vocabulary: 128_256,
        rope_base: 5e5,
        context: 131_072,
    };

    /// Small enough to compare many answers: 36 million weights, 39 MB.
    pub const RANDOM_36M: Self = Self {
        name: "random-36m",
        title: "a small Llama",
        architecture: Architecture::Llama,
        embedding: 512,
        layers: 12,
        heads: 8,
        kv_heads: 2,
        feed_forward: 1536,
        vocabulary: 2048,
        rope_base: 1e4,
        context: 8192,
    };

    /// Small enough for a test: under 200 thousand weights.
    #[cfg(test)]
    pub const SMALL: Self = Self {
        name: "small",
        title: "a Qwen2 for tests",
        architecture: Architecture::Qwen2,
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

    /// Whether the layer has attention.
    fn attends(&self, layer: usize) -> bool {
        self.architecture != Architecture::Lfm2 || LFM2_ATTENTION.contains(&layer)
    }

    /// Bytes of f16 KV a token.
    pub fn kv_bytes(&self) -> usize {
        let layers = (0..self.layers).filter(|&layer| self.attends(layer)).count();
        2 * 2 * layers * self.kv_heads * self.head_size()
    }
}

/// Writes the weights of `shape` to `path`, unless they are there.
pub fn ensure(shape: Shape, path: &Path) -> io::Result<()> {
    let tensors = layout::tensors(&shape, layout::SCALES);
    let header = layout::header(&shape, &tensors, &Metadata::read(TOKENIZER)?, None)?;
    ensure_written(path, &header, &tensors, &Quiet::default())
}

/// [`ensure`] with a real tokenizer.
pub fn ensure_with(shape: Shape, tokenizer: &Tokenizer, path: &Path) -> io::Result<()> {
    let lender = fs::read(&tokenizer.file)?;
    let lender = Metadata::read(&lender)?;
    let template = tokenizer.template.as_deref().map(fs::read_to_string).transpose()?;
    let quiet = Quiet::of(&lender)?;
    let tensors = layout::tensors(&shape, speaking::scales(shape.embedding));
    let header = layout::header(&shape, &tensors, &lender, template.as_deref())?;
    ensure_written(path, &header, &tensors, &quiet)
}

fn ensure_written(
    path: &Path,
    header: &Header,
    tensors: &[Tensor],
    quiet: &Quiet,
) -> io::Result<()> {
    if is_written(path, header)? {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let unfinished = unfinished(path);
    let written =
        write(&unfinished, header, tensors, quiet).and_then(|()| fs::rename(&unfinished, path));
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

/// Each core makes and writes a tensor at a time: the numbers of one depend on no other.
fn write(path: &Path, header: &Header, tensors: &[Tensor], quiet: &Quiet) -> io::Result<()> {
    let file = File::create(path)?;
    // What no tensor writes is padding, zeros.
    file.set_len(header.file_bytes())?;
    file.write_all_at(header.bytes(), 0)?;
    let mut end = header.bytes().len();
    let starts: Vec<usize> = tensors
        .iter()
        .map(|tensor| {
            let start = end;
            end += tensor.bytes() + gguf::padding(tensor.bytes());
            start
        })
        .collect();
    let next = AtomicUsize::new(0);
    let write_some = || loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(tensor) = tensors.get(index) else { return Ok(()) };
        write_tensor(&file, starts[index], (index, tensor), quiet)?;
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..cores).map(|_| scope.spawn(write_some)).collect();
        let written = writers.into_iter().map(|writer| writer.join().expect("it does not panic"));
        written.collect::<io::Result<()>>()
    })?;
    file.sync_all()
}

/// Writes a tensor, after its index among all, at the byte `start` of the file.
fn write_tensor(
    file: &File,
    start: usize,
    (index, tensor): (usize, &Tensor),
    quiet: &Quiet,
) -> io::Result<()> {
    let rows_at_once = (CHUNK_BYTES / tensor.row_bytes()).max(1);
    let mut numbers = random::Numbers::of_tensor(index);
    let mut chunk = Vec::new();
    let mut written_bytes = 0;
    while written_bytes < tensor.bytes() {
        chunk.clear();
        let rows = rows_at_once.min((tensor.bytes() - written_bytes) / tensor.row_bytes());
        random::fill(&mut chunk, tensor, rows, &mut numbers);
        if tensor.name == layout::EMBEDDINGS {
            quiet.silence(&mut chunk, tensor, written_bytes / tensor.row_bytes());
        }
        file.write_all_at(&chunk, (start + written_bytes) as u64)?;
        written_bytes += chunk.len();
    }
    Ok(())
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
        let wanted = layout::tensors(&Shape::SMALL, layout::SCALES)
            .into_iter()
            .map(|t| (t.name.clone(), t.bytes()));
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
        let weights = |shape| -> usize {
            let tensors = layout::tensors(&shape, layout::SCALES);
            tensors.iter().map(|t| t.width * t.rows.unwrap_or(1)).sum()
        };
        // What the published models have.
        assert_eq!(weights(Shape::QWEN2_5_0_5B), 494_032_768);
        assert_eq!(weights(Shape::LLAMA_3_2_1B), 1_235_814_400);
        // Published: 7,615,616,512 and 8,030,261,248 with an output matrix of their own.
        assert_eq!(weights(Shape::QWEN2_5_7B), 7_615_616_512 - 152_064 * 3584);
        assert_eq!(weights(Shape::LLAMA_3_1_8B), 8_030_261_248 - 128_256 * 4096);
        assert_eq!(Shape::QWEN2_5_0_5B.kv_bytes(), 12_288);
    }

    #[test]
    fn tokens_that_are_no_words_are_quiet_in_a_model_with_a_lent_tokenizer() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let [lender, path] = ["lender.gguf", "small.gguf"].map(|name| directory.path().join(name));
        fs::write(&lender, TOKENIZER).expect("writable");

        let tokenizer = Tokenizer { file: lender, template: None };
        ensure_with(Shape::SMALL, &tokenizer, &path).expect("written");

        let bytes = fs::read(&path).expect("it is there");
        let header = hob_models::Header::open(&path).expect("hob-models reads it");
        let at = header.tensors.iter().find(|t| t.name == layout::EMBEDDINGS).expect("it has them");
        assert_eq!(at.bytes, 1600 * 64 / 32 * 34);
        let tensors: usize =
            header.tensors.iter().map(|t| (t.bytes as usize).next_multiple_of(32)).sum();
        let scale = |token: usize| {
            let at = bytes.len() - tensors + token * 2 * 34;
            u16::from_le_bytes([bytes[at], bytes[at + 1]])
        };
        // Of the bundled tokenizer: an end token, a word, and an entry that nothing uses.
        assert_eq!([scale(2), scale(1599)], [speaking::QUIET; 2]);
        assert!(scale(1535) > 4 * speaking::QUIET, "{}", scale(1535));
    }
}
