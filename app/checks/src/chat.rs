//! What a person does in a chat.

use std::path::Path;

use crate::Page;
use crate::page::quoted;

/// Nobody types so many letters.
const LONG: usize = 100;

/// What the fake model answers with so many words, each of which takes it a twentieth of a second.
pub fn slowly(words: usize) -> String {
    format!("Say this slowly: {}", "word ".repeat(words))
}

impl Page {
    /// Writes a message and sends it, line breaks and all. A long one is pasted: each key takes a frame.
    pub fn send(&self, text: &str) {
        self.click("@composer");
        if text.len() > LONG {
            self.put("@composer", text);
        } else {
            for (index, line) in text.split('\n').enumerate() {
                if index > 0 {
                    self.press("Shift+Enter");
                }
                self.write(line);
            }
        }
        self.press("Enter");
    }

    /// The same; waits for the whole answer and returns its text.
    pub fn ask(&self, text: &str) -> String {
        let before = self.count("@answer");
        self.send(text);
        self.answered(before + 1);
        self.last_answer()
    }

    /// Waits until there are so many whole answers and none under way.
    pub fn answered(&self, answers: usize) {
        let expression = format!("all('@answer').length === {answers} && !one('@live')");
        self.until(&format!("{answers} answers are there"), &expression);
    }

    /// The text of the last answer, as it is shown.
    pub fn last_answer(&self) -> String {
        self.texts("@answer .text").pop().expect("there is an answer")
    }

    /// The figures under the last answer.
    pub fn last_numbers(&self) -> String {
        self.texts("@answer @numbers").pop().expect("there are figures").replace('\n', " ")
    }

    /// Presses a button of the message at a place, by its name.
    pub fn tool(&self, message: &str, name: &str) {
        self.hover(message);
        self.click(&format!("{message} [aria-label={}]", quoted(name)));
    }

    /// Chooses from the menu that a button at a place opens.
    pub fn choose(&self, menu: &str, item: &str) {
        self.click(menu);
        self.shows("[role=menu]");
        let nth = format!(
            "[...document.querySelectorAll('[role=menuitem]')].findIndex(e => e.innerText.trim() === {}) + 1",
            quoted(item)
        );
        let nth = self.until(&format!("the menu has {item:?}"), &nth);
        self.click(&format!("[role=menu] > :nth-child({nth})"));
    }

    /// Takes in a file. The field itself is hidden behind a button that opens the system's dialogue.
    pub fn import(&self, file: &Path) {
        self.script("one('@import-file').hidden = false");
        self.choose_file("@import-file", file);
    }

    /// Opens a chat of the list by its title, and waits for what was said in it.
    pub fn open_chat(&self, title: &str) {
        // By its address: its place in the list changes when another chat is used.
        let address = format!(
            "all('@chat .chat-link').find(link =>
                 link.querySelector('.chat-title').innerText.trim().endsWith({}))?.getAttribute('href')",
            quoted(title)
        );
        let address = self.until(&format!("the list has {title:?}"), &address);
        self.click(&format!("@chat [href={address}]"));
        self.reads("@title", title);
        self.shows("@user");
    }
}
