//! Words that say nothing about what a text is about.
//!
//! The inverse document frequency finds these in a long conversation; in a short one "what" may be
//! as rare as "locker". The languages are those of the page; others rely on the frequency.

/// What a function word counts of a word of substance.
pub(super) const WEIGHT: f64 = 0.1;

/// Whether the folded `word` is an English or German function word, or a mark of a chat template.
pub(super) fn is_stop_word(word: &str) -> bool {
    WORDS.binary_search(&word).is_ok()
}

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "a", "aber", "about", "ach", "again", "all", "alle", "als", "also", "am", "an", "and", "any",
    "are", "as", "assistant", "at", "auch", "auf", "aus", "be", "because", "been", "bei", "bin",
    "bist", "bitte", "but", "by", "can", "could", "da", "dann", "das", "dass", "dein", "deine",
    "dem", "den", "denn", "der", "des", "did", "die", "dies", "diese", "dir", "do", "doch", "does",
    "dont", "du", "each", "ein", "eine", "einem", "einen", "einer", "er", "es", "euch", "for",
    "from", "fur", "give", "had", "hast", "hat", "hatte", "have", "he", "her", "here", "hi", "hier",
    "him", "his", "how", "i", "ich", "id", "if", "ihm", "ihn", "ihr", "ihre", "im", "in", "into",
    "is", "ist", "it", "its", "ja", "just", "kann", "kannst", "konnen", "let", "lets", "man", "may",
    "me", "mein", "meine", "meinem", "meinen", "meiner", "mich", "might", "mir", "mit", "must",
    "my", "nach", "nein", "nicht", "no", "noch", "not", "now", "nun", "nur", "ob", "oder", "of",
    "ok", "okay", "on", "once", "or", "our", "please", "s", "schon", "sehr", "shall", "she",
    "should", "sie", "sind", "so", "some", "t", "tell", "than", "that", "thats", "the", "their",
    "them", "then", "there", "these", "they", "this", "those", "to", "too", "uber", "um", "und",
    "uns", "unser", "us", "user", "very", "vom", "von", "war", "waren", "warum", "was", "we",
    "wegen", "welche", "welcher", "welches", "wem", "wen", "wenn", "wer", "were", "what", "whats",
    "when", "where", "which", "who", "whom", "whose", "why", "wie", "will", "wir", "with", "wo",
    "would", "yes", "you", "your", "zu", "zum", "zur",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_ordered_and_holds_folded_words() {
        assert!(WORDS.is_sorted());
        assert!(is_stop_word("what") && is_stop_word("fur") && !is_stop_word("locker"));
    }
}
