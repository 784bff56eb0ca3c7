//! What many checks begin with: a daemon with chats, and a page with answers.

use crate::{Hobd, Model, Page};

impl Hobd {
    /// On the fake model, with a chat of one answer for each word, which is its id and its answer.
    pub fn with_chats(words: &[&str]) -> Self {
        let hobd = Self::start(Model::Fake);
        for word in words {
            hobd.client.say(word, &format!("Say this: {word}"));
        }
        hobd
    }

    /// With a context of 640 tokens for one chat, "A long chat" with the id `long`: a question and an
    /// answer for each part, which both have the words `filler` behind it.
    pub fn with_a_long_chat(parts: &[&str], filler: &str) -> Self {
        let hobd =
            Self::start_with(Model::Fake, &["--eviction", "off", "--ctx", "640", "--slots", "1"]);
        for part in parts {
            hobd.client.say("long", &format!("Say this: {part}{filler}"));
        }
        hobd.client.rename("long", "A long chat");
        hobd
    }
}

impl Page {
    /// A page with a new chat whose answers are the likeliest ones: at the temperature that the bundled
    /// model's file recommends, a wrong one is rare, and not impossible.
    pub fn open_greedy(hobd: &Hobd) -> Self {
        let page = Self::open(hobd);
        page.click("@sampling");
        page.fill("[name=temperature]", "0");
        page.click("@save-sampling");
        page.hides("@sampling-dialog");
        page
    }

    /// A page in front of the fake model that has asked for each of these texts.
    pub fn with_answers(texts: &[&str]) -> (Hobd, Self) {
        let hobd = Hobd::start(Model::Fake);
        let page = Self::open(&hobd);
        for text in texts {
            page.ask(&format!("Say this: {text}"));
        }
        (hobd, page)
    }
}
