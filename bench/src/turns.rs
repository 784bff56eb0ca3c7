//! Engines to measure, and whole turns on them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use hob_runtime::{Engine, EngineOptions, EngineStatus, Model, TurnEvent, TurnReport, TurnRequest};
use hob_slots::store::Store;
use hob_slots::{ConversationId, ModelHash, Token};

pub const FINGERPRINT: ModelHash = ModelHash(*b"benchmrk");

/// An engine over the directory `slots`.
pub fn start(model: Arc<dyn Model>, slots: &Path, options: EngineOptions) -> Result<Engine> {
    start_on(model, Store::open(slots)?, options)
}

/// Starts an engine over an open store.
pub fn start_on(model: Arc<dyn Model>, store: Store, options: EngineOptions) -> Result<Engine> {
    Ok(Engine::start(model, FINGERPRINT, Some(Arc::new(store)), options)?)
}

/// A greedy turn that generates `max_tokens`, past end tokens.
pub fn request(conversation: &str, prompt: &[Token], max_tokens: usize) -> TurnRequest {
    let conversation = ConversationId::new(conversation).expect("a short name");
    let answer = TurnRequest::answer(Some(conversation), prompt.to_vec(), max_tokens);
    TurnRequest { ignore_eog: true, ..answer }
}

/// Runs a turn to its end. Returns its report and the whole timeline.
pub fn ask(engine: &Engine, request: TurnRequest) -> Result<(TurnReport, Vec<Token>)> {
    let mut turn = engine.submit(request)?;
    let mut report = None;
    while let Some(event) = turn.next_blocking() {
        match event {
            TurnEvent::Started(started) => report = Some(started),
            TurnEvent::Progress(_) | TurnEvent::Moved(_) | TurnEvent::Token { .. } => {}
            TurnEvent::Finished { timeline, .. } => {
                return Ok((report.expect("a turn starts before it finishes"), timeline));
            }
            TurnEvent::Failed(error) => bail!(error),
        }
    }
    bail!("the engine stopped")
}

pub fn ttft(report: &TurnReport) -> Duration {
    Duration::from_secs_f64(report.ttft_ms / 1e3)
}

pub fn status(engine: &Engine) -> EngineStatus {
    wait_for(engine.status()).expect("the engine runs")
}

/// Waits until the engine has finished its work behind the answer.
pub fn settle(engine: &Engine) {
    wait_for(engine.settled());
}

/// Runs one future to its end.
pub fn wait_for<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime without I/O can be made").block_on(future)
}

/// Random tokens.
pub struct Words {
    state: u64,
    vocabulary: u64,
}

impl Words {
    /// Texts of a vocabulary of this size, without control tokens.
    pub fn new(vocabulary: usize) -> Self {
        Self { state: 0x5eed, vocabulary: vocabulary as u64 }
    }

    pub fn next(&mut self, count: usize) -> Vec<Token> {
        let token = |_| {
            // The multiplier is Knuth's for MMIX; the low bits of such a generator are poor.
            self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1);
            let ordinary = 300 + (self.state >> 33) % (self.vocabulary - 600);
            Token(i32::try_from(ordinary).expect("a vocabulary has fewer than 2^31 tokens"))
        };
        (0..count).map(token).collect()
    }
}
