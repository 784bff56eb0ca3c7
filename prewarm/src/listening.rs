//! What a sentence that is still being spoken makes certain. Pure: what was heard in, what should be
//! hot out.
//!
//! - A transcript is revised while it grows. *Certain* is what two successive ones agree on, word by
//!   word, up to the last word of the newer one that is whole: a word that ends the text may go on.
//! - Speech that starts anew makes whatever was heard before void.
//! - The whole turn is known with the final text. Partials that come after it are late, and ignored.
//! - Nothing is asked for twice: what is a part of what was asked for is hot, or is about to be.

/// Something that a microphone and a recogniser of speech tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Somebody begins to speak.
    SpeechStarted,
    /// All of the sentence so far; it may be revised.
    Partial(String),
    /// All of the sentence.
    Final(String),
}

/// What should be hot before the turn comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// Everything before the coming message, and these words of it; often none yet.
    Words(String),
    /// The whole turn with this message, up to the answer.
    Turn(String),
}

/// One sentence, as it is heard.
#[derive(Clone, Debug, Default)]
pub struct Listening {
    partial: String,
    certain: String,
    finished: Option<String>,
    ahead: Option<Ahead>,
    is_settled: bool,
}

impl Listening {
    /// Takes note of `heard`; returns what should be hot now, instead of what should have been.
    pub fn hear(&mut self, heard: Heard) -> Option<Ahead> {
        let wanted = match heard {
            Heard::SpeechStarted => self.start()?,
            Heard::Partial(text) => self.revise(text.trim())?,
            Heard::Final(text) => {
                let text = text.trim();
                self.finished = Some(text.to_owned());
                if text.is_empty() { return None } else { Ahead::Turn(text.to_owned()) }
            }
        };
        if self.ahead.as_ref() == Some(&wanted) && !self.is_settled {
            return None;
        }
        self.is_settled = false;
        self.ahead = Some(wanted.clone());
        Some(wanted)
    }

    /// `ahead` is hot, or cannot be. Silence may last: who starts once more asks for it again.
    pub fn settled(&mut self, ahead: &Ahead) {
        self.is_settled |= self.ahead.as_ref() == Some(ahead);
    }

    /// The sentence: the final text, else the latest partial; `None` when nothing was heard.
    pub fn said(&self) -> Option<&str> {
        let said = self.finished.as_deref().unwrap_or(&self.partial);
        (!said.is_empty()).then_some(said)
    }

    /// The words that are certain.
    pub fn certain(&self) -> &str {
        self.finished.as_deref().unwrap_or(&self.certain)
    }

    fn start(&mut self) -> Option<Ahead> {
        let ahead = self.ahead.take().filter(|_| self.said().is_none() && self.finished.is_none());
        *self = Self { ahead, is_settled: self.is_settled, ..Self::default() };
        Some(Ahead::Words(String::new()))
    }

    fn revise(&mut self, text: &str) -> Option<Ahead> {
        if self.finished.is_some() {
            return None;
        }
        self.certain = certain_words(&self.partial, text).to_owned();
        self.partial = text.to_owned();
        match &self.ahead {
            Some(Ahead::Words(asked)) if asked.starts_with(&self.certain) => None,
            _ => Some(Ahead::Words(self.certain.clone())),
        }
    }
}

/// The words with which `newer` and the transcript before it begin alike, each of them whole.
fn certain_words<'a>(older: &str, newer: &'a str) -> &'a str {
    let mut certain = 0;
    let (mut before, mut after) = (older.chars(), newer.char_indices().peekable());
    while let Some((_, letter)) = after.next_if(|&(_, letter)| before.next() == Some(letter)) {
        let Some(&(end, next)) = after.peek() else { break };
        let older_goes_on = before.clone().next();
        let ends = |next: char| next.is_whitespace() || is_a_word_by_itself(letter);
        if !letter.is_whitespace() && ends(next) && older_goes_on.is_none_or(ends) {
            certain = end;
        }
    }
    &newer[..certain]
}

/// Scripts that put no spaces between words: kana and the ideographs of Chinese and Japanese.
fn is_a_word_by_itself(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{2ffff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Option<Ahead> {
        Some(Ahead::Words(text.to_owned()))
    }

    fn turn(text: &str) -> Option<Ahead> {
        Some(Ahead::Turn(text.to_owned()))
    }

    /// Speech has started, and these partials were heard; what the last one asked for.
    fn after<const N: usize>(partials: [&str; N]) -> (Listening, Option<Ahead>) {
        let mut listening = Listening::default();
        let mut ahead = listening.hear(Heard::SpeechStarted);
        for partial in partials {
            ahead = listening.hear(Heard::Partial(partial.to_owned()));
        }
        (listening, ahead)
    }

    #[test]
    fn the_history_is_wanted_before_a_word_is_heard() {
        assert_eq!(after([]).1, words(""));
    }

    #[test]
    fn a_word_is_certain_when_two_partials_agree_and_it_is_whole() {
        assert_eq!(after(["What is"]).1, None);
        assert_eq!(after(["What is", "What is my"]).1, words("What is"));
        assert_eq!(after(["What is my", "What is my lock"]).1, words("What is my"));
        assert_eq!(after(["What is my lock", "What is my locker"]).1, words("What is my"));
        assert_eq!(after(["What is my", "What is my"]).1, words("What is"));
    }

    #[test]
    fn a_word_that_may_go_on_is_not_certain() {
        assert_eq!(after(["What is", "What issue"]).1, words("What"));
        assert_eq!(after(["issue of", "is of"]).1, None);
        assert_eq!(after(["  What is ", "What is it"]).1, words("What is"));
    }

    #[test]
    fn scripts_without_spaces_are_certain_letter_by_letter() {
        assert_eq!(after(["今天", "今天天气"]).1, words("今天"));
    }

    #[test]
    fn what_is_asked_for_already_is_not_asked_for_again() {
        let (mut listening, _) = after(["turn the light", "turn the light on"]);
        assert_eq!(listening.certain(), "turn the light");
        assert_eq!(listening.hear(Heard::Partial("turn the light on".to_owned())), None);
        // A revision to fewer words: what is hot beyond them may still turn out to be right.
        assert_eq!(listening.hear(Heard::Partial("turn the lamp on".to_owned())), None);
        assert_eq!(listening.certain(), "turn the");
        let later = listening.hear(Heard::Partial("turn the lamp on now".to_owned()));
        assert_eq!(later, words("turn the lamp on"));
    }

    #[test]
    fn the_final_text_is_the_whole_turn_and_late_partials_change_nothing() {
        let (mut listening, _) = after(["What is my", "What is my locker"]);
        let text = "What is my locker code?";
        assert_eq!(listening.said(), Some("What is my locker"));
        assert_eq!(listening.hear(Heard::Final(text.to_owned())), turn(text));
        assert_eq!(listening.hear(Heard::Partial("What is".to_owned())), None);
        assert_eq!((listening.said(), listening.certain()), (Some(text), text));
        assert_eq!(listening.hear(Heard::Final("Never mind.".to_owned())), turn("Never mind."));
    }

    #[test]
    fn a_final_text_of_nothing_takes_back_what_was_heard() {
        let (mut listening, _) = after(["uh", "uh"]);
        assert_eq!(listening.hear(Heard::Final(" ".to_owned())), None);
        assert_eq!(listening.said(), None);
    }

    #[test]
    fn new_speech_makes_what_was_heard_void() {
        let (mut listening, _) = after(["Turn the", "Turn the light"]);
        assert_eq!(listening.hear(Heard::SpeechStarted), words(""));
        assert_eq!((listening.said(), listening.certain()), (None, ""));
        assert_eq!(listening.hear(Heard::Partial("Turn the".to_owned())), None);
    }

    #[test]
    fn starting_twice_asks_once_until_it_is_settled() {
        let (mut listening, _) = after([]);
        assert_eq!(listening.hear(Heard::SpeechStarted), None);
        listening.settled(&Ahead::Turn("of another time".to_owned()));
        assert_eq!(listening.hear(Heard::SpeechStarted), None);
        listening.settled(&Ahead::Words(String::new()));
        assert_eq!(listening.hear(Heard::SpeechStarted), words(""));
    }

    proptest! {
        #[test]
        fn certain_words_begin_both_and_end_where_a_word_does(
            older in "[ab ]{0,8}",
            newer in "[ab ]{0,8}",
        ) {
            let certain = certain_words(&older, &newer);
            prop_assert!(older.starts_with(certain) && newer.starts_with(certain));
            let whole = |text: &str| text[certain.len()..].chars().next().is_none_or(|c| c == ' ');
            prop_assert!(certain.is_empty() || (whole(&older) && whole(&newer)));
            prop_assert!(certain.is_empty() || newer.len() > certain.len());
        }
    }
}
