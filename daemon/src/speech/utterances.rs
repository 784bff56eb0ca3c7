//! Utterances that arrive in pieces of sound over HTTP, for clients without a WebSocket.
//!
//! - The streaming recogniser hears each piece as it arrives; its partial transcripts go to the
//!   conversation's session, which prefills their words.
//! - A conversation has one utterance; a new one replaces it. At most [`MAX_UTTERANCES`] are open,
//!   because each runs a command.
//! - An utterance without a new piece for [`PIECE_TIMEOUT`] is discarded: the client is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use hob_slots::ConversationId;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::Speech;
use super::dictation::{Dictation, RecognizerEvent, STREAM_REMEDY};
use super::sound::Resampler;
use super::vad::SAMPLE_RATE;
use crate::chat::names;
use crate::error::{ApiError, ErrorKind};

/// Clients send a piece every 100 to 300 ms.
const PIECE_TIMEOUT: Duration = Duration::from_secs(10);

const MAX_UTTERANCES: usize = 8;

/// Maximum samples of one utterance at [`SAMPLE_RATE`]: ten minutes.
const MAX_SAMPLES: usize = 10 * 60 * SAMPLE_RATE as usize;

/// A piece of sound.
#[derive(Debug)]
pub struct Piece {
    /// `None` begins an utterance.
    pub utterance: Option<String>,
    pub samples: Vec<i16>,
    /// Samples a second; the first piece decides.
    pub rate: u32,
    /// The user has stopped.
    pub ends: bool,
}

/// What was understood of an utterance.
#[derive(Clone, Debug)]
pub struct Understood {
    pub utterance: String,
    pub transcript: String,
    pub is_final: bool,
}

#[derive(Debug, Default)]
pub(super) struct Utterances {
    open: Mutex<BTreeMap<ConversationId, Utterance>>,
}

#[derive(Debug)]
struct Utterance {
    name: String,
    resampler: Resampler,
    samples: usize,
    /// Dropping it ends the task and its command.
    sound: mpsc::UnboundedSender<Sound>,
    progress: watch::Receiver<Progress>,
}

#[derive(Debug)]
enum Sound {
    /// 16 kHz mono.
    Pcm(Vec<u8>),
    End,
}

#[derive(Clone, Debug)]
enum Progress {
    Partial(String),
    Final(String),
    Failed(String),
}

impl Speech {
    /// The recogniser hears a piece of sound. The last piece waits for the final transcript, others
    /// for nothing.
    ///
    /// # Errors
    /// When no streaming recogniser is configured or it fails, when the utterance is not open, and
    /// when it is too long.
    pub async fn receive_sound(
        &self,
        id: &ConversationId,
        piece: Piece,
    ) -> Result<Understood, ApiError> {
        let Piece { utterance, samples, rate, ends } = piece;
        let name = match utterance {
            Some(name) => name,
            None => self.begin_utterance(id, rate)?,
        };
        let mut progress = self.utterances().push(id, &name, &samples, ends)?;
        let now = if ends {
            // An error: the utterance was replaced or discarded.
            progress
                .wait_for(|now| !matches!(now, Progress::Partial(_)))
                .await
                .map(|now| now.clone())
                .map_err(|_| not_open(&name))?
        } else {
            progress.borrow().clone()
        };
        match now {
            Progress::Failed(message) => {
                if self.utterances().remove(id, &name) {
                    self.cancel(id);
                }
                Err(failed(message))
            }
            Progress::Partial(transcript) => {
                Ok(Understood { utterance: name, transcript, is_final: false })
            }
            Progress::Final(transcript) => {
                if ends {
                    self.utterances().remove(id, &name);
                }
                Ok(Understood { utterance: name, transcript, is_final: ends })
            }
        }
    }

    /// The user stopped and no turn follows: drops the utterance, its command and its prefill.
    pub fn discard_utterance(&self, id: &ConversationId) {
        self.utterances().lock().remove(id);
        self.cancel(id);
    }

    /// Starts the recogniser, and restores the conversation unless a start of speech did.
    fn begin_utterance(&self, id: &ConversationId, rate: u32) -> Result<String, ApiError> {
        let Some(recognizer) = &self.options().stream_recognizer else {
            let message = "no streaming recogniser is set and installed: set voice_recognizer_stream in \
                           hob.toml to an installed command that reads 16 kHz PCM and writes partial \
                           transcripts";
            return Err(ApiError::new(ErrorKind::NotImplemented, message).code("no_recognizer"));
        };
        self.utterances().make_room(id)?;
        let dictation = recognizer.start().map_err(|error| failed(error.to_string()))?;
        self.start(id, &Value::Null)?; // Where the recogniser fails, no user speaks, and earlier words stay.
        let name = names::answer("utt");
        let (sound, pieces) = mpsc::unbounded_channel();
        let (tell, progress) = watch::channel(Progress::Partial(String::new()));
        let resampler = Resampler::new(rate, SAMPLE_RATE as u32);
        let utterance = Utterance { name: name.clone(), resampler, samples: 0, sound, progress };
        self.utterances().lock().insert(id.clone(), utterance);
        let task = Task { speech: self.clone(), id: id.clone(), name: name.clone(), tell };
        tokio::spawn(task.run(dictation, pieces));
        Ok(name)
    }
}

impl Utterances {
    /// Queues sound for the recogniser.
    fn push(
        &self,
        id: &ConversationId,
        name: &str,
        samples: &[i16],
        ends: bool,
    ) -> Result<watch::Receiver<Progress>, ApiError> {
        let mut open = self.lock();
        let utterance = open.get_mut(id).filter(|open| open.name == name);
        let utterance = utterance.ok_or_else(|| not_open(name))?;
        let samples = utterance.resampler.process(samples);
        utterance.samples += samples.len();
        if utterance.samples > MAX_SAMPLES {
            let minutes = MAX_SAMPLES / SAMPLE_RATE as usize / 60;
            let message = format!("the utterance has more than {minutes} minutes: begin another");
            return Err(ApiError::new(ErrorKind::TooLarge, message).code("utterance_too_long"));
        }
        let pcm = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let end = ends.then_some(Sound::End);
        for sound in std::iter::once(Sound::Pcm(pcm)).chain(end) {
            utterance.sound.send(sound).ok(); // An error: the task ends, and `progress` with it.
        }
        Ok(utterance.progress.clone())
    }

    /// Refuses another conversation's utterance above the limit.
    fn make_room(&self, id: &ConversationId) -> Result<(), ApiError> {
        let open = self.lock();
        if open.contains_key(id) || open.len() < MAX_UTTERANCES {
            return Ok(());
        }
        let message = format!("{MAX_UTTERANCES} utterances are being transcribed: try again");
        Err(ApiError::new(ErrorKind::Busy, message).code("too_many_utterances"))
    }

    /// Returns whether it was open.
    fn remove(&self, id: &ConversationId, name: &str) -> bool {
        let mut open = self.lock();
        let is_open = open.get(id).is_some_and(|open| open.name == name);
        is_open && open.remove(id).is_some()
    }

    fn is_open(&self, id: &ConversationId, name: &str) -> bool {
        self.lock().get(id).is_some_and(|open| open.name == name)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ConversationId, Utterance>> {
        self.open.lock()
    }
}

/// Carries sound to the recogniser and transcripts to the session.
struct Task {
    speech: Speech,
    id: ConversationId,
    name: String,
    tell: watch::Sender<Progress>,
}

impl Task {
    async fn run(self, mut dictation: Dictation, mut pieces: mpsc::UnboundedReceiver<Sound>) {
        loop {
            let is_over = !matches!(*self.tell.borrow(), Progress::Partial(_));
            // The recogniser has a limit of its own for the final transcript.
            let listens = is_over || !dictation.is_finishing();
            let next = async {
                let piece = pieces.recv();
                if listens { timeout(PIECE_TIMEOUT, piece).await } else { Ok(piece.await) }
            };
            tokio::select! {
                heard = dictation.next() => self.recognized(heard),
                piece = next => match piece {
                    Ok(Some(Sound::Pcm(pcm))) => dictation.receive(&pcm),
                    Ok(Some(Sound::End)) => dictation.finish(),
                    Ok(None) => return, // It was answered, discarded or replaced.
                    Err(_) => return self.abandon(),
                },
            }
        }
    }

    fn recognized(&self, heard: RecognizerEvent) {
        let progress = match heard {
            RecognizerEvent::Partial(text) => {
                self.transcribed(&text, false);
                Progress::Partial(text)
            }
            RecognizerEvent::Final(text) => {
                self.transcribed(&text, true);
                Progress::Final(text)
            }
            RecognizerEvent::Failed(error) => {
                tracing::warn!(%error, "the streaming recogniser failed");
                Progress::Failed(error.to_string())
            }
        };
        self.tell.send_replace(progress);
    }

    fn transcribed(&self, text: &str, is_final: bool) {
        // One that was replaced meanwhile must not revise its successor's transcript.
        if self.speech.utterances().is_open(&self.id, &self.name)
            && let Err(error) =
                self.speech.transcript(&self.id, text.to_owned(), is_final, &Value::Null)
        {
            tracing::debug!(conversation = %self.id, %error, "the words were not prefilled");
        }
    }

    fn abandon(&self) {
        if self.speech.utterances().remove(&self.id, &self.name) {
            self.speech.cancel(&self.id);
        }
    }
}

fn not_open(name: &str) -> ApiError {
    let message = format!(
        "utterance {:?} is not open: it has ended, another one replaced it, or no piece came for \
         {} s; begin again with a piece without `utterance`",
        name.escape_debug().to_string(),
        PIECE_TIMEOUT.as_secs()
    );
    ApiError::not_found(message).code("utterance_not_found")
}

fn failed(message: String) -> ApiError {
    let message = format!("what was said could not be transcribed: {message}{STREAM_REMEDY}");
    ApiError::new(ErrorKind::Busy, message).code("recognizer")
}
