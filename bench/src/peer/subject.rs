//! The model that both serve.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::record::Unit;
use crate::weights::{self, Shape, Tokenizer};

/// llama.cpp's source, which `cargo xtask peer` fetches: it has vocabularies and chat templates.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/peer/source/models");

/// A shape, and its tokenizer in llama.cpp's source.
struct KnownShape {
    shape: Shape,
    vocabulary: &'static str,
    template: Option<&'static str>,
}

const KNOWN: [KnownShape; 3] = [
    KnownShape { shape: Shape::QWEN2_5_0_5B, vocabulary: "ggml-vocab-qwen2.gguf", template: None },
    KnownShape { shape: Shape::QWEN2_5_7B, vocabulary: "ggml-vocab-qwen2.gguf", template: None },
    KnownShape {
        shape: Shape::LLAMA_3_2_1B,
        vocabulary: "ggml-vocab-llama-bpe.gguf",
        template: Some("templates/meta-llama-Llama-3.2-3B-Instruct.jinja"),
    },
];

pub struct Subject {
    pub path: PathBuf,
    pub title: String,
    /// For the name of the run's file.
    pub file_stem: String,
    pub weights_bytes: u64,
    pub kv_bytes: Option<usize>,
    pub has_bars: bool,
}

impl Subject {
    /// `named`: one of the shapes, a path, or a name among the models that were fetched for the tests.
    pub fn of(named: &str) -> Result<Self> {
        let Some(known) = KNOWN.iter().find(|known| known.shape.name == named) else {
            let found = crate::Subject::of(Some(named))?;
            let file_stem = found.path.file_stem().unwrap_or_default().to_string_lossy();
            let file_stem = file_stem.into_owned();
            let weights_bytes = bytes(&found.path)?;
            let (path, title) = (found.path, found.title);
            return Ok(Self {
                path,
                title,
                file_stem,
                weights_bytes,
                kv_bytes: None,
                has_bars: false,
            });
        };
        let source = Path::new(SOURCE);
        let file = source.join(known.vocabulary);
        ensure!(
            file.is_file(),
            "no vocabulary at {}: `cargo xtask peer` fetches it",
            file.display()
        );
        let template = known.template.map(|template| source.join(template));
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("../target/bench/{named}-random-real-vocabulary-q8_0.gguf"));
        weights::ensure_with(known.shape, &Tokenizer { file, template }, &path)
            .with_context(|| format!("cannot write the weights to {}", path.display()))?;
        Ok(Self {
            title: format!(
                "random weights in the shape of {} (Q8_0), with its vocabulary of {} tokens",
                known.shape.title,
                Unit::Tokens.show(known.shape.vocabulary as f64)
            ),
            file_stem: named.to_owned(),
            weights_bytes: bytes(&path)?,
            path,
            kv_bytes: Some(known.shape.kv_bytes()),
            has_bars: true,
        })
    }
}

fn bytes(path: &Path) -> Result<u64> {
    Ok(fs::metadata(path).with_context(|| path.display().to_string())?.len())
}
