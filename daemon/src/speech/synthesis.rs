//! Speaks text by the configured command, a sentence at a time.
//!
//! - While one sentence is spoken, the next is synthesised; a third waits, because the command and
//!   the model share the processor.
//! - Dropping a [`Speaking`] kills its command.
//! - A [`Speaking`] takes one of four permits before it starts a command, because a neural voice takes hundreds of
//!   megabytes. It starts the time limit of a sentence with the command.

use hob_prewarm::phrase::VoiceName;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

use super::command::VoiceCommand;
use super::program::ProgramError;
use super::sentences::Sentences;
use super::sound::Sound;
use super::wav::WavError;

const MAX_COMMANDS: usize = 4;
static COMMANDS: Semaphore = Semaphore::const_new(MAX_COMMANDS);

/// The command and its default voice.
#[derive(Clone, Debug)]
pub struct Synthesizer {
    pub command: VoiceCommand,
    pub voice: VoiceName,
}

#[derive(Debug, thiserror::Error)]
pub enum SynthesisError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("the voice command wrote no usable sound: {0}")]
    Sound(#[from] WavError),
}

/// A sentence of an answer.
#[derive(Debug)]
pub struct Spoken {
    pub text: String,
    pub sound: Result<Sound, SynthesisError>,
}

/// An answer that is spoken while it streams.
#[derive(Debug)]
pub struct Speaking {
    sentences: Sentences,
    /// `None` after the end of the answer.
    texts: Option<mpsc::UnboundedSender<String>>,
    spoken: mpsc::Receiver<Spoken>,
    task: AbortHandle,
}

impl Synthesizer {
    /// # Errors
    /// When the command fails, or its sound is damaged or silent.
    pub async fn synthesize(
        &self,
        voice: Option<&VoiceName>,
        text: &str,
    ) -> Result<Sound, SynthesisError> {
        let running = COMMANDS.acquire().await.expect("the semaphore is never closed");
        let wav = self.command.run(voice.unwrap_or(&self.voice), text).await?;
        drop(running);
        let sound = tokio::task::spawn_blocking(move || Sound::from_wav(wav)).await;
        Ok(sound.expect("reading sound does not panic")?)
    }

    /// A text of any length. Its sentences need not have one rate: the first one's is used.
    ///
    /// # Errors
    /// As for [`Synthesizer::synthesize`].
    pub async fn synthesize_all(
        &self,
        voice: Option<&VoiceName>,
        text: &str,
    ) -> Result<Option<Sound>, SynthesisError> {
        let mut sentences = Sentences::default();
        let mut texts = sentences.push(text);
        texts.extend(sentences.finish());
        let mut whole: Option<Sound> = None;
        for text in texts {
            let sound = self.synthesize(voice, &text).await?;
            match &mut whole {
                None => whole = Some(sound),
                Some(whole) => whole.samples.extend(sound.at_rate(whole.rate).samples),
            }
        }
        Ok(whole)
    }

    pub fn speak(&self, voice: Option<VoiceName>) -> Speaking {
        let (texts, mut inbox) = mpsc::unbounded_channel::<String>();
        let (sounds, spoken) = mpsc::channel(1);
        let synthesizer = self.clone();
        let task = tokio::spawn(async move {
            while let Some(text) = inbox.recv().await {
                let sound = synthesizer.synthesize(voice.as_ref(), &text).await;
                if sounds.send(Spoken { text, sound }).await.is_err() {
                    return; // The speaking was dropped.
                }
            }
        });
        let sentences = Sentences::default();
        Speaking { sentences, texts: Some(texts), spoken, task: task.abort_handle() }
    }
}

impl Speaking {
    /// More of the answer.
    pub fn push(&mut self, delta: &str) {
        for sentence in self.sentences.push(delta) {
            self.say(sentence);
        }
    }

    /// The answer is complete.
    pub fn finish(&mut self) {
        if let Some(rest) = self.sentences.finish() {
            self.say(rest);
        }
        self.texts = None;
    }

    /// The next sentence; `None` after the last one. The wait may be cancelled and repeated.
    pub async fn next(&mut self) -> Option<Spoken> {
        self.spoken.recv().await
    }

    fn say(&self, sentence: String) {
        if let Some(texts) = &self.texts {
            texts.send(sentence).ok(); // An error: the daemon ends.
        }
    }
}

impl Drop for Speaking {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Longer than a command may take.
    const PATIENCE: Duration = Duration::from_secs(3_600);

    #[tokio::test(start_paused = true)]
    async fn a_sentence_waits_for_others_longer_than_its_own_time_limit() {
        let words = ["sh", "-c", "exit 1"].map(str::to_owned);
        let command = VoiceCommand::of(&words).unwrap();
        let synthesizer = Synthesizer { command, voice: "en".parse().unwrap() };
        let others = COMMANDS.acquire_many(4).await.unwrap();
        let mut speaking = pin!(synthesizer.synthesize(None, "Hello."));
        assert!(timeout(PATIENCE, speaking.as_mut()).await.is_err());
        drop(others);
        assert!(timeout(PATIENCE, speaking).await.expect("it is its turn").is_err());
    }
}
