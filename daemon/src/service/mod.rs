//! What the daemon can do: the API that HTTP, the desktop app and tests call.
//!
//! Reading order: [`identity`] (whose a request is), `profiles` (what stands in front of it,
//! and `profile_editing` for whoever writes it),
//! `rendering` (messages to a prompt) and `continuation` (text to tokens), `prefix` (what can be made
//! hot before), `chat` and `completion` (a request to a turn), [`answering`] (a turn to an answer),
//! `recording` (what stays of it), `conversation` (what was said before), `voice` (what is said
//! first), `tokens` (a text for whoever counts them), `kept` and `verifying` (what lies on disk),
//! `memory` (what lies where), `models` (which others there are); and ahead of a request: `prewarm`, `speech`, `rooms` and
//! `working_ahead` (somebody speaks), and `ahead` (which tokens are certain).
//!
//! - Text is durable before the first word of its answer is handed out.
//! - Dropping an answer cancels its turns.

mod ahead;
pub mod answering;
mod assembly;
mod chat;
mod choices;
mod completion;
mod continuation;
mod conversation;
mod conversation_locks;
mod embedding;
pub mod identity;
mod kept;
mod memory;
mod models;
pub(crate) mod names;
mod portability;
mod preamble;
mod prefix;
mod prefix_status;
mod prewarm;
mod profile_editing;
mod profile_files;
mod profile_place;
mod profile_view;
mod profiles;
mod prompt;
mod prompt_segments;
mod recording;
mod rendering;
mod rooms;
mod speech;
mod speed;
mod tokens;
mod verifying;
mod voice;
mod working_ahead;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use hob_prewarm::Event;
use hob_runtime::Engine;
use hob_slots::store::{ListingCache, StoreReader};
use hob_slots::{AdjustedTime, ConversationId, Lifetimes, Timestamp};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

pub use assembly::Delta;
pub use conversation::Place;
pub use kept::{KeptList, Upload};
pub use memory::{CellWatch, DiskUse, Memory, NamedMap, Shape};
pub use models::Switch;
pub use portability::{Received, ReceivedKv};
pub use prefix::Prefix;
pub use prefix_status::PrefixStatus;
pub use profile_editing::ProfileAsked;
pub use profile_files::{Edit, EditSegment};
pub use profile_view::{ProfileView, SegmentView};
pub use profiles::{ChangeKind, ProfileChange, ProfileStatus, count_profiles};
pub use verifying::{Progress, Told, Verification, Verified};
pub use voice::filler_event;

use crate::catalogue::Catalogue;
use crate::clock::Clock;
use crate::idle::Speaking;
use crate::metrics::Metrics;
use crate::transcript::Transcript;
use crate::voice::active_speakers::ActiveSpeakers;
use crate::voice::filler::Filler;
use crate::voice::recognizer::Recognizer;
use crate::warm::in_order;
use crate::warm::warm_status::{WarmStatus, WarmStatusReader};
use crate::wire::answer::Head;
use conversation_locks::ConversationLocks;
use profiles::Profiles;
use prompt::Template;
use rooms::SpeechSessions;
use speed::Speed;

/// What a service is made of.
pub struct Parts {
    /// What computes.
    pub engine: Engine,
    /// What clients call its model.
    pub model_name: String,
    /// What remembers.
    pub transcript: Transcript,
    /// What tells the time.
    pub clock: Clock,
    /// Where kept KV lies, if it is kept.
    pub kept: Option<StoreReader>,
    /// When each class of it is over.
    pub lifetimes: Lifetimes,
    /// What is known of memory.
    pub shape: Shape,
    /// Who wants to know which conversations speak.
    pub planner: UnboundedSender<Event>,
    /// What is known of prefixes.
    pub warm_status: WarmStatusReader,
    /// Requests of one conversation that may wait for each other, over all conversations.
    pub queue: usize,
    /// Where profiles lie, if there may be any.
    pub profiles_dir: Option<PathBuf>,
    /// What is said while the model thinks, if anything is.
    pub filler: Option<Arc<Filler>>,
    /// What writes down what was said, if anything does.
    pub recognizer: Option<Arc<Recognizer>>,
    /// What knows the models of this machine.
    pub catalogue: Arc<Catalogue>,
}

/// The handle. Clones share everything.
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    model_name: String,
    transcript: Transcript,
    clock: Clock,
    kept: Option<StoreReader>,
    /// What its files said when they were last listed.
    listing_cache: Mutex<ListingCache>,
    lifetimes: Lifetimes,
    shape: Shape,
    planner: UnboundedSender<Event>,
    warm_status: WarmStatusReader,
    template: Template,
    profiles: Profiles,
    filler: Option<Arc<Filler>>,
    recognizer: Option<Arc<Recognizer>>,
    catalogue: Arc<Catalogue>,
    active_speakers: Mutex<ActiveSpeakers>,
    conversation_locks: ConversationLocks,
    rooms: SpeechSessions,
    metrics: Metrics,
    speed: Speed,
    started: Timestamp,
    /// Whoever watches something shall end.
    over: watch::Sender<bool>,
}

impl Service {
    /// Joins the parts, and reads the profiles. A chat template that cannot be read is told to those
    /// who chat.
    pub fn new(parts: Parts) -> Self {
        let template = Template::of(parts.engine.model().as_ref());
        let profiles = Profiles::new(parts.profiles_dir);
        profiles.reload(&template);
        let inner = Inner {
            template,
            profiles,
            started: (parts.clock)(),
            filler: parts.filler,
            recognizer: parts.recognizer,
            catalogue: parts.catalogue,
            active_speakers: Mutex::default(),
            conversation_locks: ConversationLocks::new(parts.queue),
            rooms: SpeechSessions::default(),
            metrics: Metrics::default(),
            speed: Speed::default(),
            engine: parts.engine,
            model_name: parts.model_name,
            transcript: parts.transcript,
            clock: parts.clock,
            kept: parts.kept,
            listing_cache: Mutex::default(),
            lifetimes: parts.lifetimes,
            shape: parts.shape,
            over: watch::Sender::new(false),
            planner: parts.planner,
            warm_status: parts.warm_status,
        };
        Self { inner: Arc::new(inner) }
    }

    /// What computes.
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// What is known of prefixes.
    pub fn warm_status(&self) -> WarmStatus {
        self.inner.warm_status.read()
    }

    /// The model is resident: whatever the profiles begin with should be warm, the default one's
    /// first.
    pub fn warm_profiles(&self) {
        let profiles = in_order(self.profile_names());
        self.tell_planner(Event::ModelReady { profiles });
    }

    /// Whatever these profiles begin with is another text now.
    pub fn warm_changed(&self, changes: &[ProfileChange]) {
        for change in changes {
            let profile = change.name.clone();
            self.tell_planner(match change.kind {
                ChangeKind::Removed => Event::ProfileRemoved { profile },
                ChangeKind::Added | ChangeKind::Changed { .. } | ChangeKind::Reclassed => {
                    Event::ProfileChanged { profile }
                }
            });
        }
    }

    /// Without a loop that listens nothing happens.
    fn tell_planner(&self, event: Event) {
        let _ = self.inner.planner.send(event);
    }

    /// When the service was made.
    pub fn started(&self) -> Timestamp {
        self.inner.started
    }

    /// What clients call the model: the name under which it is found.
    pub fn model_name(&self) -> &str {
        &self.inner.model_name
    }

    fn announce(&self, conversation: Option<&ConversationId>) -> Option<Speaking> {
        conversation.map(|id| Speaking::announce(id.clone(), self.inner.planner.clone()))
    }

    fn now(&self) -> Timestamp {
        (self.inner.clock)()
    }

    /// Now, and what is known of the time before.
    pub fn this_moment(&self) -> AdjustedTime {
        match &self.inner.kept {
            Some(kept) => kept.moment(self.now()),
            None => self.now().into(),
        }
    }

    fn head(&self, prefix: &str) -> Head {
        Head {
            id: names::answer(prefix),
            created: self.now().0 / 1000,
            model: self.model_name().to_owned(),
            fingerprint: format!("fp_{}", self.inner.engine.fingerprint()),
        }
    }
}

/// Runs what keeps a processor busy away from the threads that serve sockets.
async fn compute<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(job).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
