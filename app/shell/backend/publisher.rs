//! Publishes the daemon's phase to the page, and its transport to waiting requests.

use std::net::SocketAddr;

use hob_daemon::startup::Step;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::transport::Transport;
use crate::shell::phase::{Activity, Phase, Remedy};

/// The sending ends of the two watch channels.
#[derive(Clone)]
pub struct Publisher {
    pub phases: watch::Sender<Phase>,
    pub transports: watch::Sender<Option<Transport>>,
}

impl Publisher {
    /// Requests wait from now on.
    pub fn starting(&self, what: Activity) {
        self.withdraw_transport();
        self.phases.send_replace(Phase::Starting { what, percent: None });
    }

    /// Progress of a start. Transcripts are readable long before the model is loaded.
    pub fn step(&self, step: Step, address: SocketAddr, runtime: &Handle) {
        let (what, percent) = match step {
            Step::Readable { texts, token } => {
                let transport = Transport::in_process(texts, address, &token, runtime.clone());
                self.transports.send_replace(Some(transport.for_transcripts_only()));
                return;
            }
            Step::Reading { percent } => (Activity::Reading, percent),
            Step::Loading { percent } => (Activity::Loading, percent),
        };
        let phase = Phase::Starting { what, percent: Some(percent) };
        self.phases.send_if_modified(|now| {
            let is_news = *now != phase;
            *now = phase;
            is_news
        });
    }

    pub fn serving(&self, transport: Transport, phase: Phase) {
        self.transports.send_replace(Some(transport));
        self.phases.send_replace(phase);
    }

    pub fn failed(&self, error: &anyhow::Error, remedy: Remedy) {
        tracing::error!(error = format!("{error:#}"), "no daemon runs");
        self.withdraw_transport();
        self.phases.send_replace(Phase::Failed { message: format!("{error:#}"), remedy });
    }

    /// Drops the transport, which holds the daemon's router.
    pub fn withdraw_transport(&self) {
        self.transports.send_replace(None);
    }
}
