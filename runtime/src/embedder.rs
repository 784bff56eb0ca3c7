//! A small embedding model beside the model: unit vectors of texts, by which [`recall`] finds what
//! means the like of a question.
//!
//! - A thread of its own has the context, of one sequence, and computes one text at a time below the
//!   priority of answers. So a question waits for one passage at most, and takes a core only where
//!   answers leave one.
//! - The context is made with the first text. Without a text for ten minutes it is freed, and the
//!   weights with it.
//! - The thread skips a text once the patience of its caller is over: otherwise it would compute all texts that their
//!   callers have given up before it came to one that a caller waits for.
//! - A text without a vector is no error: it is found by its words alone.
//! - A panic ends the context and the text at hand, and not the thread: the next text makes a context again.
//!
//! [`recall`]: hob_slots::recall

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hob_slots::Token;
use tracing::{error, warn};

use crate::backend::{Backend, ContextShape, Model};
use crate::background::{BEHIND_ANSWERS, lower_priority};

/// A passage is a block, of at most 64 tokens of the model; this is enough for it in a coarser
/// vocabulary. Of a longer text the end counts: a question stands there.
const MAX_TOKENS: usize = 160;

/// How long the context stays without a text.
const IDLE: Duration = Duration::from_secs(600);

/// Why a model cannot embed passages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoEmbeddings {
    #[error("it writes text and makes no embeddings: choose an embedding model")]
    WritesText,
    #[error("it ranks texts and makes no embeddings: choose an embedding model")]
    Ranks,
}

/// A handle to the thread of an embedding model, which ends with the last handle.
#[derive(Clone)]
pub struct Embedder {
    inner: Arc<Inner>,
}

struct Inner {
    model: Arc<dyn Model>,
    texts: Option<mpsc::Sender<Text>>,
    thread: Option<JoinHandle<()>>,
}

struct Text {
    tokens: Vec<Token>,
    vector: mpsc::Sender<Vec<f32>>,
    /// The caller of [`Embedder::embed`] stops to wait then.
    until: Instant,
}

impl Embedder {
    /// # Errors
    /// When the model makes no embeddings.
    pub fn start(model: Arc<dyn Model>) -> Result<Self, NoEmbeddings> {
        match model.facts().pooling.as_deref() {
            None => return Err(NoEmbeddings::WritesText),
            Some("rank") => return Err(NoEmbeddings::Ranks),
            Some(_) => {}
        }
        let (texts, inbox) = mpsc::channel();
        let serves = model.clone();
        let thread = std::thread::Builder::new().name("hob-embedder".to_owned());
        let thread = thread.spawn(move || {
            lower_priority(BEHIND_ANSWERS);
            serve(serves.as_ref(), &inbox);
        });
        let thread = Some(thread.expect("the system can start a thread"));
        Ok(Self { inner: Arc::new(Inner { model, texts: Some(texts), thread }) })
    }

    /// The unit vector of a text; `None` where it has no words, where the model fails, or after
    /// `patience`.
    pub fn embed(&self, text: &str, patience: Duration) -> Option<Vec<f32>> {
        let Inner { model, texts, .. } = &*self.inner;
        if text.trim().is_empty() {
            return None;
        }
        let (vector, answer) = mpsc::channel();
        let tokens = newest(model.tokenize(text, true, false), max_tokens(model.as_ref()));
        let texts = texts.as_ref().expect("only drop takes it");
        let until = Instant::now() + patience;
        texts.send(Text { tokens, vector, until }).ok()?;
        answer.recv_timeout(patience).ok()
    }
}

impl Text {
    fn is_wanted(&self) -> bool {
        Instant::now() < self.until
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.texts = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok(); // It has logged what made it panic.
        }
    }
}

/// The first token, which may be a mark of the model, and the last ones.
fn newest(mut tokens: Vec<Token>, max: usize) -> Vec<Token> {
    let surplus = tokens.len().saturating_sub(max);
    if surplus > 0 {
        tokens.drain(1..=surplus);
    }
    tokens
}

fn max_tokens(model: &dyn Model) -> usize {
    match model.facts().trained_context {
        0 => MAX_TOKENS, // The model file does not say.
        trained => trained.min(MAX_TOKENS),
    }
}

/// Serves until all handles are gone.
fn serve(model: &dyn Model, texts: &mpsc::Receiver<Text>) {
    let tokens = max_tokens(model);
    let shape = ContextShape { context_tokens: tokens, sequences: 1, micro_batch: tokens };
    while let Ok(first) = texts.recv() {
        if !first.is_wanted() {
            continue;
        }
        let mut first = Some(first);
        let embed = || {
            model.load_weights(&mut |_| ControlFlow::Continue(()))?;
            model.with_context(shape, &mut |it| embed_all(it, &mut first, texts))
        };
        match catch_unwind(AssertUnwindSafe(embed)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, "what left conversations is found by its words alone"),
            Err(_) => error!("the embedding model panicked: a text has no vector"),
        }
        // Also without a context: the memory that it lacked may be that of the weights.
        if let Err(error) = model.drop_weights() {
            warn!(%error, "weights of the embedding model not unloaded");
        }
    }
}

/// Embeds `first` and the texts behind it, until there is none for a while.
fn embed_all(backend: &mut dyn Backend, first: &mut Option<Text>, texts: &mpsc::Receiver<Text>) {
    let mut next = first.take();
    while let Some(text) = next {
        if text.is_wanted() {
            match backend.embed(&text.tokens) {
                Ok(embedding) => {
                    text.vector.send(embedding).ok(); // An error: its patience is over.
                }
                Err(error) => warn!(%error, "a text has no embedding"),
            }
        }
        next = texts.recv_timeout(IDLE).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::fake::FakeModel;

    const PATIENCE: Duration = Duration::from_secs(180);

    #[test]
    fn a_text_has_a_vector_of_length_1() {
        let embedder = Embedder::start(Arc::new(FakeModel::new().with_pooling("mean"))).unwrap();
        let vector = embedder.embed("where is the key?", PATIENCE).unwrap();
        let length: f32 = vector.iter().map(|value| value * value).sum();
        assert!((length - 1.0).abs() < 1e-4, "{length}");
        assert_eq!(embedder.embed(" \n", PATIENCE), None);
        assert!(embedder.embed(&"long ".repeat(1_000), PATIENCE).is_some());
    }

    #[test]
    fn the_thread_skips_a_text_whose_caller_has_given_up() {
        let model = FakeModel::new().with_pooling("mean");
        let (texts, inbox) = mpsc::channel();
        let answers = [Duration::ZERO, PATIENCE, Duration::ZERO].map(|patience| {
            let (vector, answer) = mpsc::channel();
            let until = Instant::now() + patience;
            texts.send(Text { tokens: vec![Token(97)], vector, until }).unwrap();
            answer
        });
        drop(texts);
        let shape = ContextShape { context_tokens: 16, sequences: 1, micro_batch: 16 };
        let mut first = inbox.recv().ok();
        model.with_context(shape, &mut |it| embed_all(it, &mut first, &inbox)).unwrap();
        assert_eq!(answers.map(|answer| answer.recv().is_ok()), [false, true, false]);
    }

    #[test]
    fn the_thread_goes_on_behind_a_text_that_made_it_panic() {
        let embedder = Embedder::start(Arc::new(FakeModel::new().with_pooling("mean"))).unwrap();
        let (vector, answer) = mpsc::channel();
        let tokens = vec![Token(97); MAX_TOKENS + 1]; // Such a text has two micro-batches.
        let until = Instant::now() + PATIENCE;
        let texts = embedder.inner.texts.as_ref().unwrap();
        texts.send(Text { tokens, vector, until }).unwrap();
        assert!(answer.recv().is_err());
        assert!(embedder.embed("where is the key?", PATIENCE).is_some());
    }

    #[test]
    fn of_a_long_text_the_end_counts() {
        let tokens: Vec<Token> = (0..10).map(Token).collect();
        assert_eq!(newest(tokens.clone(), 4), [0, 7, 8, 9].map(Token));
        assert_eq!(newest(tokens.clone(), 10), tokens);
    }

    #[test]
    fn a_model_that_makes_no_embeddings_is_refused() {
        let refused = |model: FakeModel| Embedder::start(Arc::new(model)).err();
        assert_eq!(refused(FakeModel::new()), Some(NoEmbeddings::WritesText));
        assert_eq!(refused(FakeModel::new().with_pooling("rank")), Some(NoEmbeddings::Ranks));
    }
}
