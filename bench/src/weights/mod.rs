//! Random weights in the shape of a known model, so that speed is measured without a download.
//!
//! - For speed only: a forward pass costs as much as in the real model; the text is noise.
//! - The same shape gives the same bytes on every machine.
//! - A file is written once, under a temporary name, and renamed: it exists whole or not at all. A
//!   file of another version of this code is written again.
//! - The tokenizer is the bundled model's, padded with unused entries to the shape's vocabulary; or a
//!   real one, whose tokens that are no plain words are never the likeliest, see [`speaking`].
//!
//! [`shape`] has the dimensions, [`layout`] the tensors and the metadata of a shape, [`qwen35`] those of one
//! architecture, [`gguf`] the bytes of the container, [`random`] the numbers.

mod gguf;
mod layout;
mod qwen35;
mod random;
mod shape;
mod speaking;
mod tensor;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gguf::{Header, Metadata};
use layout::Scales;
use shape::Architecture;
pub use shape::{Guesses, Shape};
use speaking::Quiet;
use tensor::Tensor;

/// The bundled model, whose tokenizer every shape copies.
const TOKENIZER: &[u8] = include_bytes!("../../../assets/hob-tiny-f16.gguf");

/// Rows are made and written this many bytes at a time, or one row where that is longer.
const CHUNK_BYTES: usize = 1 << 20;

/// A real tokenizer.
pub struct Tokenizer {
    /// A GGUF that has it, with weights or without.
    pub file: PathBuf,
    /// A chat template in place of the file's own.
    pub template: Option<PathBuf>,
}

fn scales(shape: &Shape) -> Scales {
    match shape.architecture {
        Architecture::Qwen2 | Architecture::Llama | Architecture::Lfm2 => layout::SCALES,
        Architecture::Qwen35(Guesses::Seldom) => speaking::scales(shape.embedding),
        Architecture::Qwen35(Guesses::Always) => layout::SCALES_OF_TOKENS,
    }
}

/// Writes the weights of `shape` to `path`, unless they are there.
pub fn ensure(shape: Shape, path: &Path) -> io::Result<()> {
    let tensors = layout::tensors(&shape, scales(&shape));
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
    let mut numbers = random::Numbers::of(tensor, index);
    let mut chunk = Vec::new();
    let mut written_bytes = 0;
    while written_bytes < tensor.bytes() {
        chunk.clear();
        let first = written_bytes / tensor.row_bytes();
        let rows = rows_at_once.min((tensor.bytes() - written_bytes) / tensor.row_bytes());
        random::fill(&mut chunk, tensor, first..first + rows, &mut numbers);
        if tensor.name == layout::EMBEDDINGS {
            quiet.silence(&mut chunk, tensor, first);
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
    fn a_shape_with_an_mtp_head_has_it_behind_its_layers() {
        let [seldom, always] = [Shape::QWEN3_5_0_8B, Shape::QWEN3_5_0_8B_RIGHT].map(|shape| {
            let tensors = layout::tensors(&shape, scales(&shape));
            let weights = |tensor: &Tensor| tensor.width * tensor.rows.unwrap_or(1);
            let head = tensors.iter().filter(|tensor| tensor.name.starts_with("blk.24."));
            let of_head: usize = head.map(weights).sum();
            (of_head, tensors.iter().map(weights).sum::<usize>())
        });
        assert_eq!(seldom, (20_452_864, 585_675_072));
        assert_eq!(always, (20_452_864, 585_675_072 + 65_536 * 1024));
        // Six layers with two heads of 256 numbers. The head's own KV is not counted.
        assert_eq!(Shape::QWEN3_5_0_8B.kv_bytes(), 2 * 2 * 6 * 2 * 256);
    }

    #[test]
    fn where_a_token_decides_what_follows_its_output_is_the_embedding_of_the_one_before() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let path = directory.path().join("small.gguf");
        let shape = Shape::small_with_head(Guesses::Always);
        ensure(shape, &path).expect("written");

        let bytes = fs::read(&path).expect("it is there");
        let tensors = layout::tensors(&shape, scales(&shape));
        let padded = |tensor: &Tensor| tensor.bytes() + gguf::padding(tensor.bytes());
        let data = bytes.len() - tensors.iter().map(padded).sum::<usize>();
        let row = |name: &str, row: usize| {
            let before = tensors.iter().take_while(|tensor| tensor.name != name);
            let start = data + before.map(padded).sum::<usize>() + row * 68;
            // The numbers of a row of 64 without their scales.
            [&bytes[start + 2..start + 34], &bytes[start + 36..start + 68]].concat()
        };
        for token in [0, 7, shape.vocabulary - 2] {
            let following = row("output.weight", token + 1);
            assert_eq!(following, row(layout::EMBEDDINGS, token), "{token}");
        }
        let joined = tensors.iter().find(|tensor| tensor.name == "blk.4.nextn.eh_proj.weight");
        assert_eq!(joined.map(|it| it.content), Some(tensor::Content::FirstHalf));
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
