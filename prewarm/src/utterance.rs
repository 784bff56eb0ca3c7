//! Decides what to prefill speculatively while the user speaks or types. Pure: events of one message
//! in, speculations out.
//!
//! - A speech recogniser revises its transcript while it grows. The *stable text* is what two
//!   successive partial transcripts agree on, up to the last complete word of the newer one: a word
//!   at the end of the text may be incomplete.
//! - Of a typed text each finished word is stable at once: one that is followed by a space, or of a
//!   script without spaces. A typed text is no transcript: the end of speech does not send it.
//! - A new start of speech discards the previous transcript.
//! - The final transcript gives the whole turn. Partial ones that arrive after it are ignored.
//! - No speculation is returned twice, nor one that is a prefix of the last.

/// A report of the microphone, the speech recogniser or the keyboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UtteranceEvent {
    SpeechStarted,
    /// The whole transcript so far; the recogniser may revise it.
    Partial(String),
    /// The whole transcript.
    Final(String),
    /// The whole text that the user has typed so far, and may still edit.
    Typed(String),
}

/// What to prefill before the turn is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speculation {
    /// The prompt up to the next message, and the first words of that message, perhaps none.
    Words(String),
    /// The whole prompt with this message.
    Turn(String),
}

/// The transcript of one message while the user speaks it.
#[derive(Clone, Debug, Default)]
pub struct Utterance {
    partial_text: String,
    stable_text: String,
    final_text: Option<String>,
    speculation: Option<Speculation>,
    is_settled: bool,
}

impl Utterance {
    /// Records `event`; returns the speculation that replaces the previous one.
    pub fn handle(&mut self, event: UtteranceEvent) -> Option<Speculation> {
        let speculation = match event {
            UtteranceEvent::SpeechStarted => self.start()?,
            UtteranceEvent::Partial(text) => self.revise(text.trim())?,
            UtteranceEvent::Final(text) => {
                let text = text.trim();
                self.final_text = Some(text.to_owned());
                if text.is_empty() {
                    return None;
                }
                Speculation::Turn(text.to_owned())
            }
            UtteranceEvent::Typed(text) => {
                self.final_text = None;
                self.stable_text = finished_words(&text).to_owned();
                self.stable_speculation()?
            }
        };
        if self.speculation.as_ref() == Some(&speculation) && !self.is_settled {
            return None;
        }
        self.is_settled = false;
        self.speculation = Some(speculation.clone());
        Some(speculation)
    }

    /// The prefill of `speculation` has ended. Its KV may be evicted during a long silence, so a
    /// new start of speech returns it again.
    pub fn settled(&mut self, speculation: &Speculation) {
        self.is_settled |= self.speculation.as_ref() == Some(speculation);
    }

    /// The final text, or else the latest partial one; `None` when it is empty.
    pub fn text(&self) -> Option<&str> {
        let text = self.final_text.as_deref().unwrap_or(&self.partial_text);
        (!text.is_empty()).then_some(text)
    }

    /// The final text, or else what two successive partial transcripts agree on.
    pub fn stable_text(&self) -> &str {
        self.final_text.as_deref().unwrap_or(&self.stable_text)
    }

    fn start(&mut self) -> Option<Speculation> {
        let is_new = self.text().is_none() && self.final_text.is_none();
        let speculation = self.speculation.take().filter(|_| is_new);
        *self = Self { speculation, is_settled: self.is_settled, ..Self::default() };
        Some(Speculation::Words(String::new()))
    }

    fn revise(&mut self, text: &str) -> Option<Speculation> {
        if self.final_text.is_some() {
            return None;
        }
        self.stable_text = stable_words(&self.partial_text, text).to_owned();
        self.partial_text = text.to_owned();
        self.stable_speculation()
    }

    /// `None` where the last speculation begins with the stable text.
    fn stable_speculation(&self) -> Option<Speculation> {
        match &self.speculation {
            Some(Speculation::Words(words)) if words.starts_with(&self.stable_text) => None,
            _ => Some(Speculation::Words(self.stable_text.clone())),
        }
    }
}

/// The complete words with which both `older` and `newer` begin.
fn stable_words<'a>(older: &str, newer: &'a str) -> &'a str {
    let mut stable_bytes = 0;
    let (mut before, mut after) = (older.chars(), newer.char_indices().peekable());
    while let Some((_, letter)) = after.next_if(|&(_, letter)| before.next() == Some(letter)) {
        let Some(&(end, next)) = after.peek() else { break };
        let older_goes_on = before.clone().next();
        let ends = |next: char| next.is_whitespace() || is_a_word_by_itself(letter);
        if !letter.is_whitespace() && ends(next) && older_goes_on.is_none_or(ends) {
            stable_bytes = end;
        }
    }
    &newer[..stable_bytes]
}

/// The words of a typed text up to its last finished one, without the spaces around them.
fn finished_words(text: &str) -> &str {
    let ends = |(at, letter): (usize, char)| {
        (letter.is_whitespace() || is_a_word_by_itself(letter)).then(|| at + letter.len_utf8())
    };
    let end = text.char_indices().rev().find_map(ends).unwrap_or(0);
    text[..end].trim()
}

/// Scripts without spaces between words: kana, and the ideographs of Chinese and Japanese.
fn is_a_word_by_itself(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{2ffff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Option<Speculation> {
        Some(Speculation::Words(text.to_owned()))
    }

    fn turn(text: &str) -> Option<Speculation> {
        Some(Speculation::Turn(text.to_owned()))
    }

    /// The speculation that the last of these partial transcripts leads to.
    fn after<const N: usize>(partials: [&str; N]) -> (Utterance, Option<Speculation>) {
        let mut utterance = Utterance::default();
        let mut speculation = utterance.handle(UtteranceEvent::SpeechStarted);
        for partial in partials {
            speculation = utterance.handle(UtteranceEvent::Partial(partial.to_owned()));
        }
        (utterance, speculation)
    }

    #[test]
    fn a_start_of_speech_prefills_the_history() {
        assert_eq!(after([]).1, words(""));
    }

    #[test]
    fn a_word_is_stable_when_two_partials_agree_and_it_is_complete() {
        assert_eq!(after(["What is"]).1, None);
        assert_eq!(after(["What is", "What is my"]).1, words("What is"));
        assert_eq!(after(["What is my", "What is my lock"]).1, words("What is my"));
        assert_eq!(after(["What is my lock", "What is my locker"]).1, words("What is my"));
        assert_eq!(after(["What is my", "What is my"]).1, words("What is"));
    }

    #[test]
    fn an_incomplete_word_is_not_stable() {
        assert_eq!(after(["What is", "What issue"]).1, words("What"));
        assert_eq!(after(["issue of", "is of"]).1, None);
        assert_eq!(after(["  What is ", "What is it"]).1, words("What is"));
    }

    #[test]
    fn scripts_without_spaces_are_stable_letter_by_letter() {
        assert_eq!(after(["今天", "今天天气"]).1, words("今天"));
    }

    #[test]
    fn a_prefix_of_the_last_speculation_is_not_returned_again() {
        let (mut utterance, _) = after(["turn the light", "turn the light on"]);
        assert_eq!(utterance.stable_text(), "turn the light");
        assert_eq!(utterance.handle(UtteranceEvent::Partial("turn the light on".to_owned())), None);
        // A revision to fewer words: the words already prefilled may still turn out to be right.
        assert_eq!(utterance.handle(UtteranceEvent::Partial("turn the lamp on".to_owned())), None);
        assert_eq!(utterance.stable_text(), "turn the");
        let later = utterance.handle(UtteranceEvent::Partial("turn the lamp on now".to_owned()));
        assert_eq!(later, words("turn the lamp on"));
    }

    #[test]
    fn a_final_text_is_the_whole_turn_and_late_partials_are_ignored() {
        let (mut utterance, _) = after(["What is my", "What is my locker"]);
        let text = "What is my locker code?";
        assert_eq!(utterance.text(), Some("What is my locker"));
        assert_eq!(utterance.handle(UtteranceEvent::Final(text.to_owned())), turn(text));
        assert_eq!(utterance.handle(UtteranceEvent::Partial("What is".to_owned())), None);
        assert_eq!((utterance.text(), utterance.stable_text()), (Some(text), text));
        assert_eq!(
            utterance.handle(UtteranceEvent::Final("Never mind.".to_owned())),
            turn("Never mind.")
        );
    }

    #[test]
    fn an_empty_final_text_discards_the_partial_ones() {
        let (mut utterance, _) = after(["uh", "uh"]);
        assert_eq!(utterance.handle(UtteranceEvent::Final(" ".to_owned())), None);
        assert_eq!(utterance.text(), None);
    }

    #[test]
    fn a_new_start_discards_the_transcript() {
        let (mut utterance, _) = after(["Turn the", "Turn the light"]);
        assert_eq!(utterance.handle(UtteranceEvent::SpeechStarted), words(""));
        assert_eq!((utterance.text(), utterance.stable_text()), (None, ""));
        assert_eq!(utterance.handle(UtteranceEvent::Partial("Turn the".to_owned())), None);
    }

    #[test]
    fn a_second_start_speculates_again_only_after_the_first_settled() {
        let (mut utterance, _) = after([]);
        assert_eq!(utterance.handle(UtteranceEvent::SpeechStarted), None);
        utterance.settled(&Speculation::Turn("of another time".to_owned()));
        assert_eq!(utterance.handle(UtteranceEvent::SpeechStarted), None);
        utterance.settled(&Speculation::Words(String::new()));
        assert_eq!(utterance.handle(UtteranceEvent::SpeechStarted), words(""));
    }

    #[test]
    fn a_typed_word_is_prefilled_once_it_is_finished() {
        let mut utterance = Utterance::default();
        let mut typed = |text: &str| utterance.handle(UtteranceEvent::Typed(text.to_owned()));
        assert_eq!(typed("  Wha"), words(""));
        assert_eq!(typed("  What"), None);
        assert_eq!(typed("  What "), words("What"));
        assert_eq!(typed("  What is m"), words("What is"));
        assert_eq!(typed("  What is my"), None);
        assert_eq!(utterance.text(), None, "the end of speech does not send it");
    }

    #[test]
    fn an_edit_of_typed_words_is_prefilled_from_the_first_difference() {
        let mut utterance = Utterance::default();
        let mut typed = |text: &str| utterance.handle(UtteranceEvent::Typed(text.to_owned()));
        assert_eq!(typed("Turn the light "), words("Turn the light"));
        assert_eq!(typed("Turn the "), None, "the words may be typed again");
        assert_eq!(typed("Turn the lamp "), words("Turn the lamp"));
        assert_eq!(typed("\u{4eca}\u{5929}"), words("\u{4eca}\u{5929}"));
    }

    #[test]
    fn speech_discards_what_was_typed() {
        let mut utterance = Utterance::default();
        utterance.handle(UtteranceEvent::Typed("Turn the ".to_owned()));
        assert_eq!(utterance.handle(UtteranceEvent::SpeechStarted), words(""));
        assert_eq!((utterance.text(), utterance.stable_text()), (None, ""));
    }

    proptest! {
        #[test]
        fn stable_words_begin_both_texts_and_end_at_a_word_boundary(
            older in "[ab ]{0,8}",
            newer in "[ab ]{0,8}",
        ) {
            let stable = stable_words(&older, &newer);
            prop_assert!(older.starts_with(stable) && newer.starts_with(stable));
            let whole = |text: &str| text[stable.len()..].chars().next().is_none_or(|c| c == ' ');
            prop_assert!(stable.is_empty() || (whole(&older) && whole(&newer)));
            prop_assert!(stable.is_empty() || newer.len() > stable.len());
        }
    }
}
