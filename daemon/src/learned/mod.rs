//! Learned prefixes: what many prompts begin with is saved, prewarmed and kept alive like a profile's
//! prefix.
//!
//! Reading order: `hob_prewarm::learned` (the decisions), this file (the handle), `json_file` (what
//! survives a restart), [`status`] (what is shown), [`prefixes`] (what the warming loop renders).
//!
//! - A prompt is observed beside its turn and delays nothing. The caller leaves out private ones.
//! - The tokens of a prefix are in its saved KV and, once read, in memory. The file has hashes and
//!   the names of conversations. A prefix whose saved KV is gone is no longer learned.
//! - A prefix that is forgotten loses its KV everywhere, as a deleted conversation does.

pub mod prefixes;
pub mod status;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hob_prewarm::learned::{BlockEnd, Learner, Prompt};
use hob_prewarm::{Event, LearnedLimits, LearnedName, PrefixName};
use hob_runtime::Engine;
use hob_slots::block::blocks_of;
use hob_slots::store::StoreReader;
use hob_slots::{Block, BlockId, ConversationId, Timestamp, Token, TtlClass};
use parking_lot::Mutex;

use crate::blocking::compute;
use crate::clock::Clock;
use crate::error::{ApiError, ErrorKind};
use crate::json_file::JsonFile;
use crate::warm::events::WarmEvents;
use crate::warm::prefixes::ProfilePrefix;
use crate::warm::warm_status::WarmStatusReader;

/// What [`Learned`] is made of.
pub struct Options {
    pub engine: Engine,
    /// `None`: no KV on disk, and nothing is learned.
    pub reader: Option<StoreReader>,
    /// Holds one file a model.
    pub directory: PathBuf,
    pub limits: LearnedLimits,
    pub events: WarmEvents,
    pub warm_status: WarmStatusReader,
    pub clock: Clock,
}

/// The learned prefixes of the loaded model. Clones share them.
#[derive(Clone)]
pub struct Learned {
    shared: Arc<Shared>,
}

struct Shared {
    options: Options,
    state: Mutex<State>,
    file: JsonFile,
}

struct State {
    learner: Learner,
    /// Tokens of each learned prefix.
    tokens: BTreeMap<LearnedName, Vec<Token>>,
}

impl Learned {
    /// Reads what was learned before. Must be called in a tokio runtime.
    pub fn open(mut options: Options) -> Self {
        if options.reader.is_none() {
            options.limits.prefixes = 0;
        }
        let file = JsonFile::of(&options.directory, options.engine.fingerprint());
        let learner = Learner::new(options.limits, file.read());
        let state = Mutex::new(State { learner, tokens: BTreeMap::new() });
        let learned = Self { shared: Arc::new(Shared { options, state, file }) };
        learned.find_tokens();
        let expired = learned.shared.state.lock().learner.expire(learned.now());
        if !expired.is_empty() {
            learned.save();
            learned.drop_kv(&expired);
        }
        learned
    }

    /// A prompt was sent. `end`: the tokens with which the next prompt of its conversation begins; the start of the
    /// answer, which follows them, may be written otherwise there. `covered_tokens`: of its profile's prefix.
    pub fn observe(
        &self,
        conversation: Option<ConversationId>,
        tokens: &[Token],
        end: usize,
        covered_tokens: usize,
    ) {
        if self.shared.options.limits.prefixes > 0 && !tokens.is_empty() {
            let (learned, tokens) = (self.clone(), tokens.to_vec());
            let end = end.clamp(1, tokens.len());
            tokio::spawn(compute(move || {
                learned.observe_now(conversation, &tokens, end, covered_tokens);
            }));
        }
    }

    /// The names of the learned prefixes.
    pub fn names(&self) -> Vec<LearnedName> {
        self.shared.state.lock().tokens.keys().cloned().collect()
    }

    /// Forgets a prefix and its KV; `false` when it is not learned.
    pub fn forget(&self, name: &LearnedName) -> bool {
        if !self.shared.state.lock().learner.forget(name) {
            return false;
        }
        self.save();
        self.drop_kv(std::slice::from_ref(name));
        true
    }

    /// A conversation was deleted: forgets the prefixes that too few others began with.
    pub fn forget_conversation(&self, id: &ConversationId) {
        let forgotten = self.shared.state.lock().learner.forget_conversation(id);
        let Some(forgotten) = forgotten else { return };
        self.save();
        self.drop_kv(&forgotten);
    }

    /// # Errors
    /// When the prefix is not learned.
    pub fn prefix(&self, name: &LearnedName) -> Result<ProfilePrefix, ApiError> {
        let tokens = self.shared.state.lock().tokens.get(name).cloned();
        let tokens = tokens.ok_or_else(|| not_learned(name))?;
        let id = name.prefix_id();
        // The learner forgets it, not a lifetime.
        Ok(ProfilePrefix { id, class: TtlClass::Permanent, tokens, segments: Vec::new() })
    }

    fn observe_now(
        &self,
        conversation: Option<ConversationId>,
        tokens: &[Token],
        end: usize,
        covered_tokens: usize,
    ) {
        let mut blocks = self.blocks(tokens);
        // Of the tokens before `end`, which is at least 1.
        let name = |end: usize| {
            let block = &blocks[blocks.partition_point(|block| block.range.end < end)];
            BlockId::child(block.named_after(), &tokens[block.range.start..end])
        };
        let lesson = {
            let mut state = self.shared.state.lock();
            let ends = state.learner.ends().filter(|end| (1..=tokens.len()).contains(end));
            let (last, beginnings) = (BlockEnd(name(end), end), ends.map(name).collect());
            // The start of the answer follows the last message, and is no block of its own yet.
            blocks.pop_if(|last| !self.is_border(&tokens[last.range.clone()]));
            let blocks = blocks.iter().map(|block| BlockEnd(block.id, block.range.end)).collect();
            let prompt = Prompt { conversation, blocks, last, beginnings, covered_tokens };
            let lesson = state.learner.observe(&prompt, self.now());
            if let Some((name, length)) = &lesson.learned {
                state.tokens.insert(name.clone(), tokens[..*length].to_vec());
            }
            lesson
        };
        if lesson.is_new {
            self.save();
        }
        let send = |event| self.shared.options.events.send(event);
        for name in lesson.used {
            send(Event::Used { prefix: PrefixName::Learned(name) });
        }
        if let Some((name, length)) = lesson.learned {
            tracing::info!(%name, tokens = length, "prefix learned");
            send(Event::PrefixChanged { prefix: PrefixName::Learned(name) });
        }
        self.drop_kv(&lesson.forgotten);
    }

    /// Reads the tokens of the learned prefixes from their saved KV.
    fn find_tokens(&self) {
        let options = &self.shared.options;
        let mut state = self.shared.state.lock();
        let names = state.learner.prefixes().iter().map(|prefix| prefix.name.clone());
        for name in names.collect::<Vec<_>>() {
            let saved = options.reader.as_ref().and_then(|reader| {
                reader.get_slot(options.engine.fingerprint(), &name.prefix_id()).ok()
            });
            let is_whole = |tokens: &Vec<Token>| {
                self.blocks(tokens).last().is_some_and(|last| LearnedName::of(last.id) == name)
            };
            match saved.map(|record| record.tokens).filter(is_whole) {
                Some(tokens) => drop(state.tokens.insert(name, tokens)),
                None => state.learner.lost(&name),
            }
        }
    }

    fn drop_kv(&self, names: &[LearnedName]) {
        let options = &self.shared.options;
        for name in names {
            tracing::info!(%name, "prefix forgotten");
            self.shared.state.lock().tokens.remove(name);
            options.events.send(Event::PrefixRemoved { prefix: PrefixName::Learned(name.clone()) });
            let (engine, id) = (options.engine.clone(), name.prefix_id());
            tokio::runtime::Handle::current().spawn(async move {
                if let Err(error) = engine.forget(id.clone()).await {
                    tracing::warn!(%id, %error, "the KV of a forgotten prefix may remain");
                }
            });
        }
    }

    fn save(&self) {
        self.shared.file.write(|| self.shared.state.lock().learner.memory().clone());
    }

    fn blocks(&self, tokens: &[Token]) -> Vec<Block> {
        let engine = &self.shared.options.engine;
        let vocabulary = engine.model().vocabulary();
        blocks_of(engine.fingerprint(), tokens, |token| vocabulary.is_eog(token))
    }

    /// Whether these tokens are a whole block.
    fn is_border(&self, block: &[Token]) -> bool {
        let engine = &self.shared.options.engine;
        let is_eog = |last: &Token| engine.model().vocabulary().is_eog(*last);
        block.len() == hob_slots::block::BLOCK_TOKENS || block.last().is_some_and(is_eog)
    }

    fn now(&self) -> Timestamp {
        (self.shared.options.clock)()
    }
}

pub fn not_learned(name: &LearnedName) -> ApiError {
    let message = format!("no learned prefix is called `{name}`: GET /v1/learned lists them");
    ApiError::new(ErrorKind::NotFound, message).code("prefix_not_found")
}
