//! What a user does in a chat.

use std::path::Path;

use crate::Page;
use crate::page::quoted;

/// Longer texts are pasted.
const MAX_TYPED_CHARS: usize = 100;

/// A message that the fake model answers with `words` words, 50 ms each.
pub fn slowly(words: usize) -> String {
    format!("Say this slowly: {}", "word ".repeat(words))
}

impl Page {
    /// Types a message with its line breaks and sends it. Pastes a long one: each key takes a frame.
    pub fn send(&self, text: &str) {
        self.focus("@composer");
        if text.len() > MAX_TYPED_CHARS {
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

    /// Sends a message, waits for the answer, and returns its text.
    pub fn ask(&self, text: &str) -> String {
        let before = self.count("@answer");
        self.send(text);
        self.answered(before + 1);
        self.last_answer()
    }

    /// Waits until the page shows this many complete answers, as Markdown, and none in progress.
    pub fn answered(&self, answers: usize) {
        let expression =
            format!("all('@answer').length === {answers} && !one('@live') && !one('@answer @raw')");
        self.until(&format!("{answers} answers are there"), &expression);
    }

    /// The visible text of the last answer.
    pub fn last_answer(&self) -> String {
        self.texts("@answer .text").pop().expect("there is an answer")
    }

    /// The figures under the last answer.
    pub fn last_numbers(&self) -> String {
        self.texts("@answer @numbers").pop().expect("there are figures").replace('\n', " ")
    }

    /// All figures of the last answer, behind a click on their line.
    pub fn last_figures(&self) -> String {
        if self.count("@figures") == 0 {
            self.script("all('@answer @numbers').at(-1).click()");
            self.shows("@figures");
        }
        self.text("@figures").replace('\n', " ")
    }

    /// Clicks a button of a message by its label.
    pub fn tool(&self, message: &str, name: &str) {
        self.hover(message);
        self.click(&format!("{message} [aria-label={}]", quoted(name)));
    }

    /// Opens the menu of a button and chooses an item.
    pub fn choose(&self, menu: &str, item: &str) {
        self.click(menu);
        self.shows("[role=menu]");
        let nth = format!(
            "[...document.querySelectorAll('[role=menuitem]')].findIndex(item => item.innerText.trim() === {}) + 1",
            quoted(item)
        );
        let nth = self.until(&format!("the menu has {item:?}"), &nth);
        self.click(&format!("[role=menu] > :nth-child({nth})"));
    }

    /// Opens the editor of the templates in a composer without words: only the daemon's templates can be edited.
    pub fn edit_templates(&self) {
        self.focus("@composer");
        self.write("/");
        self.shows("@template");
        self.click("@edit-templates");
        self.shows("@template-editor");
    }

    /// Imports a file through the hidden file input behind the button.
    pub fn import(&self, file: &Path) {
        self.script("one('@import-file').hidden = false");
        self.choose_file("@import-file", file);
    }

    /// Waits until a chat is `ready`, or `unread`: in its head, or in a row of the list.
    pub fn is_state(&self, place: &str, state: &str) {
        let expression = format!("one({})?.dataset.state === {}", quoted(place), quoted(state));
        self.until(&format!("{place} is {state}"), &expression);
    }

    /// Opens a chat of the list by its title and waits for its messages.
    pub fn open_chat(&self, title: &str) {
        // By its address: the list reorders when another chat is used.
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
