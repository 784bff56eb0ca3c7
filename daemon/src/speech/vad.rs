//! Voice activity detection: 16 kHz mono samples of 16 bits, little endian, in; starts and ends of
//! speech out.
//!
//! - Pure: no clock, no thread. Time is counted in samples since the first one.
//! - The events do not depend on how the sound is split into pieces; half a sample waits for its
//!   other half.
//! - Starts and ends alternate, and never go back in time.
//! - Memory is constant.

use earshot::Detector;

/// Samples per second.
pub const SAMPLE_RATE: u64 = 16_000;

/// Samples of one frame, 16 ms: the size that the detector was trained with.
const FRAME: usize = 256;
const FRAME_MS: u64 = FRAME as u64 * 1_000 / SAMPLE_RATE;

/// Frames with this score or more start speech. Voices reach 0.8 within 100 ms; a steady tone scores
/// 0.6 at most, and must not load a model.
const START_SCORE: f32 = 0.65;

/// Loud white noise scores up to 0.8, but changes its sign at about every second sample. Vowels change
/// it at fewer than a third of the samples, and every word soon has a vowel.
const NOISE_SIGN_CHANGES: usize = FRAME * 4 / 10;

/// Frames below this score end speech. Lower than [`START_SCORE`]: the quiet end of a word belongs to
/// the word.
const STOP_SCORE: f32 = 0.35;

/// 96 ms: shorter than the shortest words ("no", "hm"), longer than a click or a key stroke.
const FRAMES_TO_START: u64 = 6;

/// 32 ms: a click may be as long, so only a restore begins here: it costs little and announces nothing.
const FRAMES_TO_SUSPECT: u64 = 2;

/// 608 ms: pauses within a sentence last up to half a second; waiting longer only delays the answer.
const FRAMES_TO_STOP: u64 = 38;

/// Times are milliseconds since the first sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeechEvent {
    SpeechStarted {
        /// The start of the first voiced frame.
        at_ms: u64,
    },
    SpeechStopped {
        /// The end of the last voiced frame.
        at_ms: u64,
    },
}

impl SpeechEvent {
    /// The event in a sound of which the detector's stream begins `ms` behind the start.
    pub fn behind(self, ms: u64) -> Self {
        match self {
            Self::SpeechStarted { at_ms } => Self::SpeechStarted { at_ms: ms + at_ms },
            Self::SpeechStopped { at_ms } => Self::SpeechStopped { at_ms: ms + at_ms },
        }
    }
}

/// The detector of one stream of sound.
pub struct SpeechDetector {
    detector: Box<Detector>,
    frame: [i16; FRAME],
    filled: usize,
    half: Option<u8>,
    debouncer: Debouncer,
}

impl Default for SpeechDetector {
    fn default() -> Self {
        Self {
            detector: Detector::default_boxed(),
            frame: [0; FRAME],
            filled: 0,
            half: None,
            debouncer: Debouncer::default(),
        }
    }
}

impl SpeechDetector {
    /// Processes the next piece of the sound, of any length.
    pub fn process(&mut self, pcm: &[u8]) -> Vec<SpeechEvent> {
        let mut events = Vec::new();
        let mut bytes = pcm.iter().copied();
        if let Some(low) = self.half.take() {
            match bytes.next() {
                Some(high) => events.extend(self.sample(i16::from_le_bytes([low, high]))),
                None => self.half = Some(low),
            }
        }
        while let Some(low) = bytes.next() {
            match bytes.next() {
                Some(high) => events.extend(self.sample(i16::from_le_bytes([low, high]))),
                None => self.half = Some(low),
            }
        }
        events
    }

    /// Whether the last frames may be the start of speech, which six frames in a row decide.
    pub fn suspects_speech(&self) -> bool {
        !self.debouncer.speaking && self.debouncer.against >= FRAMES_TO_SUSPECT
    }

    /// Ends the stream, and speech that is in progress with it. The next piece starts a new stream.
    pub fn finish(&mut self) -> Option<SpeechEvent> {
        let stopped = self.debouncer.finish();
        *self = Self::default();
        stopped
    }

    fn sample(&mut self, sample: i16) -> Option<SpeechEvent> {
        self.frame[self.filled] = sample;
        self.filled += 1;
        if self.filled < FRAME {
            return None;
        }
        self.filled = 0;
        let score = self.detector.predict_i16(&self.frame);
        self.debouncer.frame(score, is_noise(&self.frame))
    }
}

impl std::fmt::Debug for SpeechDetector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpeechDetector").field("debouncer", &self.debouncer).finish_non_exhaustive()
    }
}

fn is_noise(frame: &[i16]) -> bool {
    let changes = frame.windows(2).filter(|pair| (pair[0] < 0) != (pair[1] < 0)).count();
    changes > NOISE_SIGN_CHANGES
}

/// Turns scores into events: speech starts and ends only when several frames in a row agree.
#[derive(Debug, Default)]
struct Debouncer {
    frames: u64,
    /// Frames in a row that contradict `speaking`.
    against: u64,
    speaking: bool,
}

impl Debouncer {
    fn frame(&mut self, score: f32, is_noise: bool) -> Option<SpeechEvent> {
        self.frames += 1;
        let disagrees =
            if self.speaking { score < STOP_SCORE } else { score >= START_SCORE && !is_noise };
        self.against = if disagrees { self.against + 1 } else { 0 };
        let needed = if self.speaking { FRAMES_TO_STOP } else { FRAMES_TO_START };
        if self.against < needed {
            return None;
        }
        Some(self.toggle())
    }

    fn finish(&mut self) -> Option<SpeechEvent> {
        self.speaking.then(|| self.toggle())
    }

    /// Changes the state at the first frame that contradicts it.
    fn toggle(&mut self) -> SpeechEvent {
        let at_ms = (self.frames - self.against) * FRAME_MS;
        self.against = 0;
        self.speaking = !self.speaking;
        if self.speaking {
            SpeechEvent::SpeechStarted { at_ms }
        } else {
            SpeechEvent::SpeechStopped { at_ms }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: usize = SAMPLE_RATE as usize;

    #[test]
    fn silence_noise_and_tones_are_not_speech() {
        let hum = tone(50.0, 8_000.0);
        let tones = [vec![0; 2 * SECOND], tone(440.0, 8_000.0), tone(1_000.0, 20_000.0), hum];
        let noises = [30, 300, 3_000, 10_000, 30_000].map(noise);
        for (at, sound) in tones.into_iter().chain(noises).enumerate() {
            assert_eq!(SpeechDetector::default().process(&bytes(&sound)), [], "sound {at}");
        }
    }

    #[test]
    fn speech_is_suspected_before_it_has_started_and_not_in_silence() {
        let mut vad = SpeechDetector::default();
        let sound = [vec![0; SECOND], voice(0.5)].concat();
        let (mut suspected_at, mut started_at) = (None, None);
        for (frame, piece) in bytes(&sound).chunks(2 * FRAME).enumerate() {
            if !vad.process(piece).is_empty() {
                started_at = started_at.or(Some(frame));
            } else if vad.suspects_speech() {
                suspected_at = suspected_at.or(Some(frame));
            }
        }
        let early = started_at.unwrap() - suspected_at.unwrap();
        assert_eq!(early as u64, FRAMES_TO_START - FRAMES_TO_SUSPECT);
        assert!(suspected_at > Some(SECOND / FRAME - 2), "silence is not suspected");
    }

    #[test]
    fn a_voice_starts_and_stops_once_at_the_right_time() {
        let mut vad = SpeechDetector::default();
        let sound = [vec![0; SECOND], voice(1.0), vec![0; SECOND]].concat();
        let heard = vad.process(&bytes(&sound));
        let [
            SpeechEvent::SpeechStarted { at_ms: start },
            SpeechEvent::SpeechStopped { at_ms: stop },
        ] = heard[..]
        else {
            panic!("{heard:?}")
        };
        assert!((1_000..1_300).contains(&start), "{start}");
        assert!((1_900..2_200).contains(&stop), "{stop}");
        assert!(!vad.debouncer.speaking);
    }

    #[test]
    fn a_pause_within_a_sentence_does_not_end_it() {
        let pause = vec![0; SECOND * 3 / 10];
        let sound = [vec![0; SECOND], voice(0.8), pause, voice(0.8), vec![0; SECOND]].concat();
        assert_eq!(SpeechDetector::default().process(&bytes(&sound)).len(), 2);
    }

    #[test]
    fn unfinished_speech_stops_with_the_sound() {
        let mut vad = SpeechDetector::default();
        let started = vad.process(&bytes(&voice(1.0)));
        assert!(matches!(started[..], [SpeechEvent::SpeechStarted { .. }]), "{started:?}");
        assert!(matches!(vad.finish(), Some(SpeechEvent::SpeechStopped { at_ms: 900..=1_000 })));
        assert_eq!(vad.finish(), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn the_events_do_not_depend_on_how_the_sound_is_split(
            cuts in prop::collection::vec(1_usize..5_000, 1..40),
        ) {
            let sound = bytes(&[vec![0; SECOND / 5], voice(0.6), vec![0; SECOND]].concat());
            let whole = SpeechDetector::default().process(&sound);
            let (mut vad, mut rest, mut heard) = (SpeechDetector::default(), &sound[..], Vec::new());
            for cut in cuts.into_iter().cycle() {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                heard.extend(vad.process(piece));
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(whole.len(), 2);
            prop_assert_eq!(heard, whole);
        }

        #[test]
        fn any_scores_give_alternating_events_in_order(
            scores in prop::collection::vec(0.0_f32..1.0, 0..2_000),
            sticky in 1_usize..60,
        ) {
            let mut debouncer = Debouncer::default();
            let (mut speaking, mut last) = (false, 0);
            for score in scores.iter().flat_map(|score| std::iter::repeat_n(*score, sticky)) {
                match debouncer.frame(score, false) {
                    None => {}
                    Some(SpeechEvent::SpeechStarted { at_ms }) => {
                        prop_assert!(!speaking && at_ms >= last);
                        (speaking, last) = (true, at_ms);
                    }
                    Some(SpeechEvent::SpeechStopped { at_ms }) => {
                        prop_assert!(speaking && at_ms > last);
                        (speaking, last) = (false, at_ms);
                    }
                }
            }
        }
    }

    fn bytes(samples: &[i16]) -> Vec<u8> {
        samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()
    }

    fn tone(hertz: f64, loudness: f64) -> Vec<i16> {
        let turn = std::f64::consts::TAU * hertz / SECOND as f64;
        (0..2 * SECOND).map(|at| ((at as f64 * turn).sin() * loudness) as i16).collect()
    }

    /// Three seconds, evenly distributed.
    fn noise(loudness: i32) -> Vec<i16> {
        let mut state = 1_u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) as i32 % (2 * loudness + 1) - loudness) as i16
        };
        (0..3 * SECOND).map(|_| next()).collect()
    }

    /// A pulse at the pitch of a voice, through three formants that glide between two vowels.
    fn voice(secs: f64) -> Vec<i16> {
        let (rate, tau) = (SECOND as f64, std::f64::consts::TAU);
        let mut phase = 0.0;
        let mut resonators = [(0.0, 0.0); 3];
        let sample = |at: usize| {
            let time = at as f64 / rate;
            phase += (120.0 + 30.0 * (tau * 3.0 * time).sin()) / rate;
            let pulse = if phase >= 1.0 { 1.0 } else { 0.0 };
            phase -= pulse;
            let open = 0.5 + 0.5 * (tau * 4.0 * time).sin();
            let formants =
                [(300.0 + 400.0 * open, 80.0), (2_200.0 - 1_000.0 * open, 100.0), (2_600.0, 150.0)];
            let mut sum = 0.0;
            for (at, (hertz, width)) in formants.into_iter().enumerate() {
                let decay = (-std::f64::consts::PI * width / rate).exp();
                let (one, two) = resonators[at];
                let out =
                    pulse + 2.0 * decay * (tau * hertz / rate).cos() * one - decay * decay * two;
                resonators[at] = (out, one);
                sum += out / (at + 1) as f64;
            }
            (sum * 1_500.0 * (tau * 2.0 * time).sin().abs().sqrt()) as i16
        };
        (0..(secs * rate) as usize).map(sample).collect()
    }
}
