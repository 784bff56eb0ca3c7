//! What is open before the model loads, so that clients can read saved texts meanwhile.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::Router;
use hob_config::{OpenRoutes, Settings, paths};
use hob_slots::Timestamp;
use hob_slots::store::Store;

use super::{engine, sharing};
use crate::auth::AccessToken;
use crate::conversations::transcript::{PrivateText, Transcript};
use crate::http::guard::Guard;
use crate::http::texts::{self, LoadedPercent};
use crate::private_dir;
use crate::shared::SharedTier;

pub(super) struct Readable {
    pub token: AccessToken,
    pub guard: Arc<Guard>,
    pub store: Arc<Store>,
    /// The tier that several daemons share, and this one's name there.
    pub shared: Option<(SharedTier, String)>,
    pub transcript: Transcript,
    /// The routes that answer while the model loads, behind `guard`.
    pub texts: Router,
    /// What `/health` among them reports.
    pub loaded: LoadedPercent,
}

impl Readable {
    /// `address`: that of the socket. `private`: the text of private conversations, which outlives a restart.
    ///
    /// # Errors
    /// [`super::AlreadyRunning`]; otherwise when a file cannot be opened or the shared tier cannot be used.
    pub fn open(
        settings: &Settings,
        address: SocketAddr,
        private: PrivateText,
        now: Timestamp,
    ) -> Result<Self> {
        private_dir::create(&settings.data_dir).with_context(|| cannot_make(&settings.data_dir))?;
        let token = AccessToken::load_or_create(&settings.token_file)?;
        let store = engine::own(settings)?;
        let shared = sharing::open(settings, store.reader())?;
        let transcript = paths::transcript_file(&settings.data_dir);
        let transcript = Transcript::open_with(&transcript, private, now)?;
        let guard =
            Guard::new(address, &settings.allow_host, &settings.allow_origin, token.clone())
                .with_ollama_open(settings.allow_without_token == OpenRoutes::Ollama);
        let guard = Arc::new(guard);
        let loaded = LoadedPercent::default();
        let texts = texts::router(transcript.clone(), loaded.clone(), guard.clone());
        Ok(Self { token, guard, store, shared, transcript, texts, loaded })
    }
}

fn cannot_make(data_dir: &Path) -> String {
    format!("cannot make {}: choose another data directory with --data-dir", data_dir.display())
}
