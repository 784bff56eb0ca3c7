//! The parts of an open daemon, joined. Each route takes the one that it needs.

use std::path::PathBuf;
use std::sync::Arc;

use hob_models::Estimate;
use hob_prewarm::{Event, LearnedLimits};
use hob_runtime::Engine;
use hob_slots::Lifetimes;
use hob_slots::store::StoreReader;

use crate::adapters::RequestAdapters;
use crate::bridge::{self, Bridge};
use crate::chat::reuse_guard::ReuseGuard;
use crate::chat::{self, Chat};
use crate::clock::Clock;
use crate::conversations::Conversations;
use crate::conversations::pdf_texts::PdfTexts;
use crate::conversations::sharing::{self, Sharing};
use crate::conversations::transcript::Transcript;
use crate::crashes::Crashes;
use crate::documents::Documents;
use crate::learned::prefixes::AllPrefixes;
use crate::learned::{self, Learned};
use crate::metrics::Metrics;
use crate::models::{Catalogue, Fetcher, Models};
use crate::profiles::{self, Profiles};
use crate::prompt::{Renderer, RendersIn};
use crate::settings::{LiveSettings, SettingsEditor};
use crate::shared::SharedTier;
use crate::speech::dictation::StreamRecognizer;
use crate::speech::filler::Filler;
use crate::speech::recognizer::Recognizer;
use crate::speech::sessions::SpeechSessions;
use crate::speech::synthesis::Synthesizer;
use crate::speech::typing::TypeAhead;
use crate::speech::{self, Speech};
use crate::storage::quota::DiskQuota;
use crate::storage::{self, Storage};
use crate::upstream::Upstream;
use crate::warm::events::WarmEvents;
use crate::warm::prefixes::default_first;
use crate::warm::warm_status::WarmStatusReader;

/// What was opened before.
pub struct Options {
    pub engine: Engine,
    pub renders_in: RendersIn,
    pub transcript: Transcript,
    pub clock: Clock,
    /// `None`: no KV on disk.
    pub reader: Option<StoreReader>,
    pub lifetimes: Lifetimes,
    pub settings: LiveSettings,
    pub quota: DiskQuota,
    pub estimate: Option<Estimate>,
    pub events: WarmEvents,
    pub warm_status: WarmStatusReader,
    /// Requests that may wait for the previous answer of their conversation, over all
    /// conversations.
    pub max_waiting: usize,
    /// `None`: no profiles.
    pub profiles_dir: Option<PathBuf>,
    /// Holds what is learned of prompts, one file a model.
    pub learned_dir: PathBuf,
    pub learned_limits: LearnedLimits,
    /// Holds what moved KV costs the answers of profiles, one file a model.
    pub reuse_dir: PathBuf,
    pub filler: Option<Arc<Filler>>,
    pub synthesizer: Option<Arc<Synthesizer>>,
    pub recognizer: Option<Arc<Recognizer>>,
    pub stream_recognizer: Option<Arc<StreamRecognizer>>,
    pub type_ahead: TypeAhead,
    pub adapters: RequestAdapters,
    pub catalogue: Arc<Catalogue>,
    /// Before this start.
    pub crashes: Crashes,
    pub fetcher: Fetcher,
    /// The tier that several daemons share, and this one's name there.
    pub shared: Option<(SharedTier, String)>,
    /// Answers in place of `engine`.
    pub upstream: Option<Upstream>,
    /// `None`: no agent generates here.
    pub bridge: Option<bridge::Place>,
}

/// Clones share everything.
#[derive(Clone)]
pub struct Parts {
    pub chat: Chat,
    pub adapters: RequestAdapters,
    pub conversations: Conversations,
    pub documents: Documents,
    pub profiles: Profiles,
    pub learned: Learned,
    pub speech: Speech,
    pub storage: Storage,
    pub models: Models,
    pub settings: SettingsEditor,
    pub metrics: Arc<Metrics>,
    pub bridge: Option<Bridge>,
}

impl Parts {
    /// Joins the parts and loads the profiles.
    pub fn join(options: Options) -> Self {
        let Options { engine, transcript, clock, events, .. } = options;
        let renderer = Arc::new(Renderer::of(engine.model().clone(), options.renders_in));
        let sessions = Arc::new(SpeechSessions::default());
        let metrics = Arc::new(Metrics::default());
        let models = Models {
            engine: engine.clone(),
            catalogue: options.catalogue,
            clock: clock.clone(),
            started: clock(),
            crashes: Arc::new(options.crashes),
            fetcher: options.fetcher,
            weights_speed: Arc::default(),
        };
        let profiles = Profiles::new(profiles::Options {
            directory: options.profiles_dir,
            renderer: renderer.clone(),
            fingerprint: engine.fingerprint(),
            reader: options.reader.clone(),
            events: events.clone(),
            warm_status: options.warm_status.clone(),
        });
        let learned = Learned::open(learned::Options {
            engine: engine.clone(),
            reader: options.reader.clone(),
            directory: options.learned_dir,
            limits: options.learned_limits,
            events: events.clone(),
            warm_status: options.warm_status,
            clock: clock.clone(),
        });
        let storage = Storage::new(storage::Options {
            engine: engine.clone(),
            reader: options.reader,
            lifetimes: options.lifetimes,
            quota: options.quota,
            estimate: options.estimate,
            clock: clock.clone(),
        });
        let sharing = options.shared.map(|(tier, daemon)| {
            Sharing::start(sharing::Options {
                tier,
                daemon,
                engine: engine.clone(),
                transcript: transcript.clone(),
                storage: storage.clone(),
                clock: clock.clone(),
            })
        });
        let conversations = Conversations {
            sharing: sharing.clone(),
            engine: engine.clone(),
            transcript: transcript.clone(),
            storage: storage.clone(),
            learned: learned.clone(),
            events: events.clone(),
            clock: clock.clone(),
            pdf_texts: PdfTexts::default(),
        };
        let reuse_guard = ReuseGuard::open(&options.reuse_dir, engine.fingerprint());
        let chat = Chat::new(chat::Options {
            engine,
            model_name: models.name().to_owned(),
            model_sampling: models.catalogue.current().sampling.clone(),
            renderer,
            profiles: profiles.clone(),
            adapters: options.adapters.clone(),
            learned: learned.clone(),
            reuse_guard,
            transcript,
            clock: clock.clone(),
            sessions: sessions.clone(),
            events: events.clone(),
            metrics: metrics.clone(),
            max_waiting: options.max_waiting,
            settings: options.settings.clone(),
            sharing,
            upstream: options.upstream,
        });
        let bridge = options.bridge.map(|place| {
            let current = models.catalogue.current();
            let file = current.path.as_ref().map(|path| path.display().to_string());
            let model = file.unwrap_or_else(|| current.name.clone());
            Bridge::start(bridge::Options { chat: chat.clone(), place, model })
        });
        let documents = Documents {
            chat: chat.clone(),
            conversations: conversations.clone(),
            models: models.clone(),
        };
        let speech = Speech::new(speech::Options {
            chat: chat.clone(),
            sessions,
            clock,
            events,
            metrics: metrics.clone(),
            filler: options.filler,
            synthesizer: options.synthesizer,
            recognizer: options.recognizer,
            stream_recognizer: options.stream_recognizer,
            type_ahead: options.type_ahead,
        });
        let settings = SettingsEditor { live: options.settings, models: models.clone() };
        Self {
            chat,
            adapters: options.adapters,
            conversations,
            documents,
            profiles,
            learned,
            speech,
            storage,
            models,
            settings,
            metrics,
            bridge,
        }
    }

    /// The prefixes that the warming loop keeps warm.
    pub fn prefixes(&self) -> AllPrefixes {
        AllPrefixes { profiles: self.profiles.clone(), learned: self.learned.clone() }
    }

    /// Warms all prefixes, the default profile's first: the weights are resident.
    pub fn warm_all(&self) {
        let prefixes = default_first(self.prefixes().names());
        self.chat.events().send(Event::ModelReady { prefixes });
    }
}
