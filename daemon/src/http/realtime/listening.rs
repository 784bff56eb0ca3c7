//! Sound in: detects speech, and feeds the streaming recogniser.
//!
//! - The recogniser gets the sound from shortly before the start of speech, so that no first word
//!   is cut off.
//! - A piece of sound may end within a sample: the recogniser gets whole ones.
//! - Times count from the first sound of the session, whatever was committed or dropped since.
//! - The command for the next utterance starts as soon as the last one ends: it loads its model
//!   during the pause. One that does not start then starts with the utterance, or the utterance has failed.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::speech::dictation::{Dictation, RecognizerEvent, StreamRecognizer};
use crate::speech::program::ProgramError;
use crate::speech::sound::Resampler;
use crate::speech::vad::{SAMPLE_RATE, SpeechDetector, SpeechEvent};

/// 500 ms: the detector reports speech 96 ms after its first voiced frame, and a word may begin
/// unvoiced.
const BYTES_BEFORE_SPEECH: usize = SAMPLE_RATE as usize;

pub(super) struct Listening {
    recognizer: Option<Arc<StreamRecognizer>>,
    /// `None`: the client says where an utterance ends.
    detector: Option<SpeechDetector>,
    resampler: Resampler,
    /// The first byte of a sample whose second one is in the next piece.
    half: Option<u8>,
    /// Samples at [`SAMPLE_RATE`] since the first one of the session.
    samples: u64,
    /// The sample at which the detector began.
    detects_from: u64,
    /// The newest sound of a pause.
    before: VecDeque<u8>,
    in_speech: bool,
    /// Recognises the utterance in progress, or the next one.
    dictation: Option<Dictation>,
    /// Why no command recognises the utterance in progress, until it is reported.
    not_started: Option<ProgramError>,
}

impl Listening {
    /// `rate`: of appended sound.
    pub fn new(recognizer: Option<Arc<StreamRecognizer>>, rate: u32, detects: bool) -> Self {
        let mut listening = Self {
            recognizer,
            detector: detects.then(SpeechDetector::default),
            resampler: Resampler::new(rate, SAMPLE_RATE as u32),
            half: None,
            samples: 0,
            detects_from: 0,
            before: VecDeque::new(),
            in_speech: false,
            dictation: None,
            not_started: None,
        };
        listening.start_early();
        listening
    }

    /// Goes on with the times of `earlier`.
    pub fn behind(self, earlier: &Self) -> Self {
        Self { samples: earlier.samples, detects_from: earlier.samples, ..self }
    }

    pub fn recognizer(&self) -> Option<Arc<StreamRecognizer>> {
        self.recognizer.clone()
    }

    /// Appended sound of the session's rate: 16-bit PCM, little endian.
    pub fn append(&mut self, pcm: &[u8]) -> Vec<SpeechEvent> {
        let pcm = self.whole_samples(pcm);
        let samples = pcm.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
        let samples = self.resampler.process(&samples.collect::<Vec<_>>());
        let pcm: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        self.process(&pcm)
    }

    /// 16 kHz mono PCM.
    pub fn receive(&mut self, pcm: &[u8]) -> Vec<SpeechEvent> {
        let pcm = self.whole_samples(pcm);
        self.process(&pcm)
    }

    fn whole_samples(&mut self, pcm: &[u8]) -> Vec<u8> {
        let mut whole: Vec<u8> = self.half.take().into_iter().chain(pcm.iter().copied()).collect();
        if !whole.len().is_multiple_of(2) {
            self.half = whole.pop();
        }
        whole
    }

    /// Whole samples at 16 kHz.
    fn process(&mut self, pcm: &[u8]) -> Vec<SpeechEvent> {
        let (begins_at, detects_from) = (millis(self.samples), millis(self.detects_from));
        self.samples += pcm.len() as u64 / 2;
        let events: Vec<_> = match &mut self.detector {
            Some(detector) => {
                detector.process(pcm).into_iter().map(|event| event.behind(detects_from)).collect()
            }
            None if self.in_speech || pcm.is_empty() => Vec::new(),
            None => vec![SpeechEvent::SpeechStarted { at_ms: begins_at }],
        };
        let was_in_speech = self.in_speech;
        for event in &events {
            match event {
                SpeechEvent::SpeechStarted { .. } => self.begin(),
                SpeechEvent::SpeechStopped { .. } => self.in_speech = false,
            }
        }
        let dictates = was_in_speech || !events.is_empty();
        match self.dictation.as_ref().filter(|_| dictates) {
            Some(dictation) => dictation.receive(pcm),
            None => self.remember(pcm),
        }
        if !self.in_speech && dictates {
            self.finish();
        }
        events
    }

    /// Whether speech may be starting.
    pub fn suspects_speech(&self) -> bool {
        self.detector.as_ref().is_some_and(SpeechDetector::suspects_speech)
    }

    /// The client ends the utterance.
    pub fn commit(&mut self) -> Option<SpeechEvent> {
        let stopped = self.detector.as_mut().and_then(SpeechDetector::finish);
        let stopped = stopped.map(|event| event.behind(millis(self.detects_from)));
        self.detects_from = self.samples;
        if !std::mem::take(&mut self.in_speech) {
            return None;
        }
        self.finish();
        let at_ms = millis(self.samples);
        Some(stopped.unwrap_or(SpeechEvent::SpeechStopped { at_ms }))
    }

    /// Drops the sound of the utterance in progress. Returns whether there is one.
    pub fn clear(&mut self) -> bool {
        let detects = self.detector.is_some();
        self.detector = detects.then(SpeechDetector::default);
        self.detects_from = self.samples;
        self.before.clear();
        let was_in_speech = std::mem::take(&mut self.in_speech);
        if was_in_speech {
            (self.dictation, self.not_started) = (None, None);
            self.start_early();
        }
        was_in_speech
    }

    /// Drops the sound of all utterances: no transcript of them will follow.
    pub fn reset(&mut self) {
        let was_finishing = self.is_finishing();
        self.clear();
        if was_finishing {
            self.dictation = None;
            self.start_early();
        }
    }

    pub fn is_in_speech(&self) -> bool {
        self.in_speech
    }

    /// Whether the final transcript of an utterance that has ended will follow.
    pub fn is_finishing(&self) -> bool {
        self.dictation.as_ref().is_some_and(Dictation::is_finishing)
    }

    /// What the recogniser has understood; pending without one. The wait may be cancelled and
    /// repeated.
    pub async fn next(&mut self) -> RecognizerEvent {
        if let Some(error) = self.not_started.take() {
            return RecognizerEvent::Failed(error);
        }
        let Some(dictation) = &mut self.dictation else { return std::future::pending().await };
        let heard = dictation.next().await;
        let was_finishing = dictation.is_finishing();
        match &heard {
            RecognizerEvent::Partial(_) => {}
            RecognizerEvent::Final(_) if was_finishing => {
                self.dictation = None;
                self.start_early();
            }
            // The next utterance tries again: a command that ends by itself might do so at once.
            RecognizerEvent::Final(_) | RecognizerEvent::Failed(_) => self.dictation = None,
        }
        heard
    }

    fn begin(&mut self) {
        self.in_speech = true;
        if self.dictation.as_ref().is_none_or(Dictation::is_finishing) {
            self.dictation = None; // What was said before is overtaken by this.
            self.not_started = self.start_next().err();
        }
        if let Some(dictation) = &self.dictation {
            dictation.receive(self.before.make_contiguous());
        }
        self.before.clear();
    }

    fn finish(&mut self) {
        if let Some(dictation) = &mut self.dictation {
            dictation.finish();
        }
    }

    fn remember(&mut self, pcm: &[u8]) {
        self.before.extend(pcm);
        let excess = self.before.len().saturating_sub(BYTES_BEFORE_SPEECH);
        self.before.drain(..excess.next_multiple_of(2).min(self.before.len()));
    }

    /// Before the utterance begins, which tries again.
    fn start_early(&mut self) {
        if let Err(error) = self.start_next() {
            tracing::debug!(%error, "the streaming recogniser did not start");
        }
    }

    fn start_next(&mut self) -> Result<(), ProgramError> {
        if let Some(recognizer) = &self.recognizer {
            self.dictation = Some(recognizer.start()?);
        }
        Ok(())
    }
}

fn millis(samples: u64) -> u64 {
    samples * 1_000 / SAMPLE_RATE
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_command_that_ends_by_itself_is_started_again_by_the_next_utterance() {
        let words = ["sh", "-c", "exit 0"].map(str::to_owned);
        let recognizer = StreamRecognizer::of(&words).map(Arc::new);
        let mut listening = Listening::new(recognizer, 16_000, false);
        assert!(matches!(listening.next().await, RecognizerEvent::Final(_)));
        assert!(listening.dictation.is_none(), "it would end at once again, without a pause");
        listening.receive(&[0; 320]);
        assert!(listening.dictation.is_some());
    }

    #[tokio::test]
    async fn an_utterance_whose_command_cannot_be_started_has_failed() {
        let recognizer = StreamRecognizer::of(&["/no/such/program".to_owned()]).map(Arc::new);
        let mut listening = Listening::new(recognizer, 16_000, false);
        for _ in 0..2 {
            listening.receive(&[0; 320]);
            let RecognizerEvent::Failed(error) = listening.next().await else {
                panic!("no command runs")
            };
            assert!(error.to_string().contains("/no/such/program"), "{error}");
            listening.commit();
        }
    }

    #[test]
    fn the_times_of_a_session_do_not_begin_again() {
        let second = [0; 32_000];
        let mut listening = Listening::new(None, 16_000, false);
        assert_eq!(listening.receive(&second), [SpeechEvent::SpeechStarted { at_ms: 0 }]);
        assert_eq!(listening.commit(), Some(SpeechEvent::SpeechStopped { at_ms: 1_000 }));
        assert_eq!(listening.receive(&second), [SpeechEvent::SpeechStarted { at_ms: 1_000 }]);
        assert!(listening.clear());
        let mut changed = Listening::new(None, 24_000, false).behind(&listening);
        assert_eq!(changed.receive(&second), [SpeechEvent::SpeechStarted { at_ms: 2_000 }]);
    }

    #[tokio::test]
    async fn a_piece_of_sound_may_end_within_a_sample() {
        let words = ["sh", "-c", "od -An -v -tx1"].map(str::to_owned);
        let recognizer = StreamRecognizer::of(&words).map(Arc::new);
        let mut listening = Listening::new(recognizer, 16_000, false);
        listening.append(&[1, 2, 3]);
        listening.append(&[4, 5, 6]);
        listening.commit();
        let RecognizerEvent::Partial(text) = listening.next().await else {
            panic!("it has a line")
        };
        assert_eq!(text, "01 02 03 04 05 06");
    }
}
