//! A trial of a model: every call that a chat makes of it, in a small context.
//!
//! - For a child process: llama.cpp answers a hostile file with an abort as often as with an error.
//! - It asks for nothing that a usable model lacks, whatever its memory, tokenizer or pooling.

use std::fmt;
use std::path::Path;

use hob_slots::{FileDigest, Lora, Token};
use serde::{Deserialize, Serialize};

use crate::adapters::{AdapterFile, Adapters, FileIdentity};
use crate::backend::{
    Backend, ContextShape, DecodeError, GuessRow, LoadError, Model, Row, Sequence,
};
use crate::vocabulary::Vocabulary;

/// Cells of the context. Its compute buffers stay small.
const CELLS: usize = 256;
/// Rows of a micro-batch.
const ROWS: usize = 32;
const SHAPE: ContextShape = ContextShape { context_tokens: CELLS, sequences: 3, micro_batch: ROWS };
/// Length of the prompt. Each further token takes noticeable time with a large model.
const PROMPT_TOKENS: usize = 8;
/// Tokens that are computed one by one behind the prompt.
const ANSWER_TOKENS: usize = 2;
/// Control tokens whose written form is tokenized.
const MAX_MARKS: usize = 32;

/// Tokens of a vocabulary, and bytes of all of them together, at most. Real ones have some 300,000 tokens and 3 MB. What a
/// daemon makes of them, to find marks in texts and for grammars, takes up to a hundred times as much memory.
const MAX_TOKENS: usize = 1 << 22;
const MAX_TOKENS_BYTES: usize = 8 << 20;

/// What texts are made of: letters, digits, scripts without spaces, marks on letters, symbols beyond
/// 16 bits, control characters, nothing.
const TEXTS: [&str; 8] = [
    "Hello, how are you? I'd say 3.14 or 48213; it's fine.",
    "Grüße aus Köln — naïve café, œuvre, Ωμέγα, Привет, שלום, مرحبا",
    "水は低きに流れる。你好,世界! 안녕하세요 ไทย हिन्दी",
    "🫖👩‍👩‍👧‍👦🇩🇪 e\u{301}\u{308} \u{200b}\u{200d}\u{feff}\u{fffd}\u{10ffff}",
    "a\0b\u{1}\u{7f}\t\r\n\n   \u{a0}\u{2028}x",
    "<s></s><unk><pad><0x00><|x|>[INST]<|im_start|>",
    "fn main() { let x = [1, 2]; /* \\ \"quoted\" */ }\n\n\t\tend",
    "",
];

/// The steps of a probe, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Loading,
    Tokenizing,
    Computing,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loading => "loaded the file",
            Self::Tokenizing => "tokenized a text with it",
            Self::Computing => "computed a few tokens with it",
        })
    }
}

/// Why a model cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    #[error("its vocabulary is empty")]
    NoVocabulary,
    #[error(
        "its vocabulary has {tokens} tokens of {bytes} bytes in all: more than {MAX_TOKENS} tokens or \
         {MAX_TOKENS_BYTES} bytes"
    )]
    LargeVocabulary { tokens: usize, bytes: usize },
    #[error("its tokenizer makes no tokens of a text")]
    NoTokens,
    #[error("its tokenizer writes the token {token}, and its vocabulary has {size}")]
    UnknownToken { token: i32, size: usize },
    #[error("it computes logits that are not numbers (NaN)")]
    NotNumbers,
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The machine's failure rather than the file's: there may be too little memory.
    #[error(transparent)]
    Context(#[from] LoadError),
}

/// Tries the model; calls `begin` at each stage after [`Stage::Loading`].
///
/// The chat template is not rendered: only chats need it, a setting may replace it, and a daemon renders it in a
/// child of its own.
///
/// # Errors
/// The first [`Defect`]. A hostile file ends the process instead.
pub fn probe(model: &dyn Model, begin: &mut dyn FnMut(Stage)) -> Result<(), Defect> {
    begin(Stage::Tokenizing);
    let prompt = tokenize(model)?;
    begin(Stage::Computing);
    let pools = model.facts().pooling.is_some();
    let mut computed = Ok(());
    model.with_context(SHAPE, &mut |backend| {
        computed = if pools { embed(backend, &prompt) } else { answer(backend, &prompt) };
    })?;
    computed
}

/// Computes a few tokens with the adapter in the file at `path`, on a model that was tried before.
///
/// # Errors
/// As [`probe`]; [`LoadError::Adapter`] for a file that does not fit.
pub fn probe_adapter(
    model: &dyn Model,
    path: &Path,
    begin: &mut dyn FnMut(Stage),
) -> Result<(), Defect> {
    begin(Stage::Computing);
    let file = AdapterFile {
        name: String::new(),
        path: path.to_owned(),
        identity: FileIdentity::of(path),
        lora: Lora { sha256: FileDigest([0; 32]), scale: 1.0 },
    };
    let adapters = Adapters::new(vec![file]).expect("one adapter is a set");
    let mut prompt = model.tokenize(TEXTS[0], true, true);
    prompt.truncate(PROMPT_TOKENS);
    let mut computed = Ok(());
    model.with_context(SHAPE, &mut |backend| {
        let set = backend.set_adapters(&adapters).map_err(Defect::from);
        computed = set.and_then(|()| answer(backend, &prompt));
    })?;
    computed
}

/// The tokens of a prompt.
fn tokenize(model: &dyn Model) -> Result<Vec<Token>, Defect> {
    let vocabulary = model.vocabulary();
    measure(vocabulary)?;
    let marks = marks(vocabulary);
    let long = ["a", "1", " ", "水", "\n", "ab ", "!?"].map(|piece| piece.repeat(2048));
    let texts = TEXTS.into_iter().chain(long.iter().map(String::as_str)).chain([marks.as_str()]);
    for text in texts {
        for (add_special, parse_special) in [(false, false), (true, true)] {
            check(vocabulary, &model.tokenize(text, add_special, parse_special))?;
        }
    }
    let mut prompt = model.tokenize(TEXTS[0], true, true);
    prompt.truncate(PROMPT_TOKENS);
    if prompt.is_empty() { Err(Defect::NoTokens) } else { Ok(prompt) }
}

/// Checks how large the vocabulary is.
fn measure(vocabulary: &Vocabulary) -> Result<(), Defect> {
    let tokens = vocabulary.len();
    let ids = (0..tokens).filter_map(|id| i32::try_from(id).ok()).map(Token);
    let bytes: usize = ids.map(|token| vocabulary.piece(token).len()).sum();
    if tokens == 0 {
        Err(Defect::NoVocabulary)
    } else if tokens > MAX_TOKENS || bytes > MAX_TOKENS_BYTES {
        Err(Defect::LargeVocabulary { tokens, bytes })
    } else {
        Ok(())
    }
}

/// The written forms of the first control tokens.
fn marks(vocabulary: &Vocabulary) -> String {
    let ids = (0..vocabulary.len()).filter_map(|id| i32::try_from(id).ok()).map(Token);
    let control = ids.filter(|&token| vocabulary.is_control(token)).take(MAX_MARKS);
    control.map(|token| String::from_utf8_lossy(vocabulary.piece(token)).into_owned()).collect()
}

fn check(vocabulary: &Vocabulary, tokens: &[Token]) -> Result<(), Defect> {
    match tokens.iter().find(|&&token| !vocabulary.contains(token)) {
        Some(unknown) => Err(Defect::UnknownToken { token: unknown.0, size: vocabulary.len() }),
        None => Ok(()),
    }
}

fn embed(backend: &mut dyn Backend, prompt: &[Token]) -> Result<(), Defect> {
    if backend.embed(prompt)?.iter().all(|value| value.is_finite()) {
        Ok(())
    } else {
        Err(Defect::NotNumbers)
    }
}

/// Computes the prompt and a few tokens, and moves the state to another sequence between them.
fn answer(backend: &mut dyn Backend, prompt: &[Token]) -> Result<(), Defect> {
    let row =
        |token, position, sequence, wants_logits| Row { token, position, sequence, wants_logits };
    let (first, second) = (Sequence(0), Sequence(1));
    if let Some(heads) = backend.mtp() {
        heads.follow(&[first]);
    }
    let last = prompt.len() - 1;
    let rows = prompt.iter().enumerate();
    let rows: Vec<Row> =
        rows.map(|(position, &token)| row(token, position, first, position == last)).collect();
    backend.decode(&rows)?;
    let mut token = likeliest(backend.logits(last))?;
    let state = backend.export(first, Vec::new());
    for position in (prompt.len()..).take(ANSWER_TOKENS) {
        backend.decode(&[row(token, position, first, true)])?;
        token = likeliest(backend.logits(0))?;
    }
    guess(backend, GuessRow { sequence: first, token })?;
    if let Ok(state) = state
        && backend.import(second, &state).is_ok()
    {
        backend.decode(&[row(token, backend.end(second), second, true)])?;
        likeliest(backend.logits(0))?;
        backend.clear(second);
    }
    backend.clear(first);
    Ok(())
}

/// Computes two guesses of the model's MTP heads, if it has some that follow the sequence.
fn guess(backend: &mut dyn Backend, row: GuessRow) -> Result<(), Defect> {
    let Some(heads) = backend.mtp().filter(|heads| heads.lacks(row.sequence).is_some()) else {
        return Ok(());
    };
    heads.begin(&[row])?;
    heads.logits(0);
    heads.go_on(&[row])?;
    Ok(())
}

fn likeliest(logits: &[f32]) -> Result<Token, Defect> {
    if logits.iter().any(|logit| logit.is_nan()) {
        return Err(Defect::NotNumbers);
    }
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    let best = best.filter(|(_, logit)| logit.is_finite()).ok_or(Defect::NotNumbers)?;
    Ok(Token(i32::try_from(best.0).expect("a vocabulary has fewer than 2^31 tokens")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryKind;
    use crate::backend::fake::FakeModel;
    use crate::vocabulary::TokenKind;

    #[test]
    fn a_model_of_every_kind_passes_each_stage() {
        for memory in [MemoryKind::Plain, MemoryKind::Windowed, MemoryKind::Recurrent] {
            let mut stages = Vec::new();
            let found = probe(&FakeModel::new().with_memory(memory), &mut |it| stages.push(it));
            assert_eq!(found, Ok(()));
            assert_eq!(stages, [Stage::Tokenizing, Stage::Computing]);
        }
        for pooling in ["mean", "last", "rank"] {
            assert_eq!(probe(&FakeModel::new().with_pooling(pooling), &mut |_| {}), Ok(()));
        }
    }

    #[test]
    fn a_vocabulary_that_would_swell_a_daemon_is_a_defect() {
        let measured = |pieces: Vec<Vec<u8>>| {
            let pieces = pieces.into_iter().map(|piece| (piece, TokenKind::default()));
            measure(&Vocabulary::new(pieces, None, None, false))
        };
        assert_eq!(measured(Vec::new()), Err(Defect::NoVocabulary));
        assert_eq!(measured(vec![vec![b'a'; 64]; 1000]), Ok(()));
        let bytes = MAX_TOKENS_BYTES + 1;
        let defect = measured(vec![vec![b'a'; bytes]]).unwrap_err();
        assert_eq!(defect, Defect::LargeVocabulary { tokens: 1, bytes });
        assert!(defect.to_string().ends_with("4194304 tokens or 8388608 bytes"), "{defect}");
    }

    #[test]
    fn logits_that_are_not_numbers_are_a_defect() {
        let found = probe(&FakeModel::new().with_nan_logits(), &mut |_| {});
        assert_eq!(found, Err(Defect::NotNumbers));
    }
}
