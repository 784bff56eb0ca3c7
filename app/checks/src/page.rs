//! The app's page in a browser, and what a person can do there.
//!
//! - Places are CSS in which `@name` stands for `[data-test="name"]`.
//! - What is asked for is waited for, as a person would.
//! - At its end the console must be silent: no error, and nothing that the security policy refused.
//!   A check that expects one says so with [`Page::expect_complaint`].
//! - When a check fails, a picture of the page is in `target/checks/`.

use std::cell::RefCell;
use std::ops::Deref;

use serde_json::Value;

use crate::{Browser, Hobd, Look, tools};
use hob_testkit::wait;
use hob_testkit::wait::PATIENCE;

/// The pages beside chats, and the keys that lead there.
pub const PAGES: [(&str, &str); 4] =
    [("memory", "Alt+2"), ("profiles", "Alt+3"), ("models", "Alt+4"), ("settings", "Alt+5")];

/// What scripts of checks may use. `css`: see the places above. `seen`: whether an element shows.
const WORDS: &str = r#"
    const css = place => place.replace(/@([\w-]+)/g, '[data-test="$1"]');
    const all = place => [...document.querySelectorAll(css(place))];
    const one = place => document.querySelector(css(place));
    const seen = element => !!element && element.checkVisibility({visibilityProperty: true});
"#;

/// WebDriver's name for what an element is known by.
pub(crate) const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// The page. It is a [`Browser`] too.
#[derive(Debug)]
pub struct Page {
    browser: Browser,
    expected: RefCell<Vec<String>>,
    complaints: RefCell<Vec<String>>,
}

impl Deref for Page {
    type Target = Browser;

    fn deref(&self) -> &Browser {
        &self.browser
    }
}

impl Page {
    /// Opens the page that `hobd` serves.
    pub fn open(hobd: &Hobd) -> Self {
        Self::open_as(hobd, Look::default())
    }

    /// The same, and how it is shown.
    pub fn open_as(hobd: &Hobd, look: Look) -> Self {
        let page = Self::of(Browser::chromium(look));
        page.go(&hobd.address_of_the_page());
        page
    }

    /// The page that a browser shows, or will.
    pub fn of(browser: Browser) -> Self {
        Self { browser, expected: RefCell::default(), complaints: RefCell::default() }
    }

    /// Goes to one of [`PAGES`], and waits for what it shows.
    pub fn open_page(&self, name: &str) {
        self.click(&format!("@to-{name}"));
        self.shows(&format!("@page-{name} .page-width > *"));
    }

    /// What the body of a function returns.
    ///
    /// # Panics
    /// Where it throws.
    pub fn script(&self, body: &str) -> Value {
        self.script_with(body, &[])
    }

    /// The same with `arguments`.
    pub fn script_with(&self, body: &str, arguments: &[Value]) -> Value {
        let done = self.run(&format!("{WORDS}{body}"), arguments);
        done.unwrap_or_else(|error| panic!("{body}: {error}"))
    }

    /// Waits until an expression is true in the sense of JavaScript, and returns it.
    pub fn until(&self, what: &str, expression: &str) -> Value {
        let script = format!("{WORDS} return ({expression})");
        let tried = wait::attempt(PATIENCE, || match self.run(&script, &[]) {
            Ok(value) if is_true(&value) => Ok(value),
            Ok(value) => Err(format!("it is {value}")),
            Err(error) => Err(error.to_string()),
        });
        tried.unwrap_or_else(|why| panic!("still not: {what} ({expression}: {why})"))
    }

    /// Waits until something shows at a place.
    pub fn shows(&self, place: &str) {
        self.until(&format!("{place} shows"), &format!("all({}).some(seen)", quoted(place)));
    }

    /// Waits until nothing shows there.
    pub fn hides(&self, place: &str) {
        self.until(&format!("{place} is gone"), &format!("!all({}).some(seen)", quoted(place)));
    }

    /// Waits until the text at a place has `words` in it.
    pub fn reads(&self, place: &str, words: &str) {
        let expression =
            format!("all({}).some(e => e.innerText.includes({}))", quoted(place), quoted(words));
        self.until(&format!("{place} reads {words:?}"), &expression);
    }

    /// The text at the first such place, once it shows.
    pub fn text(&self, place: &str) -> String {
        self.shows(place);
        let text = self
            .script(&format!("return one({0}).innerText || one({0}).textContent", quoted(place)));
        text.as_str().unwrap_or_default().trim().to_owned()
    }

    /// The texts at all such places. What the browser has not drawn yet has its text all the same.
    pub fn texts(&self, place: &str) -> Vec<String> {
        let texts = self.script(&format!(
            "return all({}).map(e => e.innerText || e.textContent)",
            quoted(place)
        ));
        let texts = texts.as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.map(|text| text.trim().to_owned()).collect()
    }

    /// How many such places there are.
    pub fn count(&self, place: &str) -> usize {
        let count = self.script(&format!("return all({}).length", quoted(place)));
        count.as_u64().and_then(|count| usize::try_from(count).ok()).expect("a length")
    }

    /// What has the focus, as a screen reader would say it: role and name.
    pub fn focused(&self) -> (String, String) {
        let active = self.command("element/active", None).expect("something has the focus");
        let element = active[ELEMENT].as_str().expect("an element").to_owned();
        let part = |part: &str| {
            let said = self.command(&format!("element/{element}/{part}"), None);
            said.ok().and_then(|said| said.as_str().map(str::to_owned)).unwrap_or_default()
        };
        (part("computedrole"), part("computedlabel"))
    }

    /// Puts a picture of what is seen into `target/checks/`.
    pub fn save_picture(&self, name: &str) -> std::path::PathBuf {
        let path = tools::reports().join(format!("{name}.png"));
        let picture = self.picture().expect("the browser makes pictures");
        std::fs::write(&path, picture).expect("the target can be written");
        path
    }

    /// A complaint with these words in it is part of the check.
    pub fn expect_complaint(&self, words: &str) {
        self.expected.borrow_mut().push(words.to_owned());
    }

    /// The daemon goes away in the check: whoever asks it then is refused, or broken off.
    pub fn expect_it_away(&self) {
        for error in ["CONNECTION_REFUSED", "CONNECTION_RESET", "EMPTY_RESPONSE"] {
            self.expect_complaint(&format!("net::ERR_{error}"));
        }
    }

    /// What the console has complained of so far, but for what was expected.
    pub fn complaints(&self) -> Vec<String> {
        let entries = self.log("browser");
        let new = entries.iter().filter(|entry| is_complaint(entry)).map(|entry| {
            let part = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            format!("{}: {}", part("source"), part("message"))
        });
        self.complaints.borrow_mut().extend(new);
        let expected = self.expected.borrow();
        let all = self.complaints.borrow();
        let unexpected = |said: &&String| !expected.iter().any(|words| said.contains(words));
        all.iter().filter(unexpected).cloned().collect()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let name = std::thread::current().name().unwrap_or("check").replace("::", "-");
        if std::thread::panicking() {
            let path = tools::reports().join(format!("failed-{name}.png"));
            // Errors: the browser itself has failed, and the panic tells how.
            if let Ok(picture) = self.picture() {
                std::fs::write(&path, picture).ok();
                eprintln!("what was seen: {}", path.display());
            }
            eprintln!("the console: {:#?}", self.complaints());
        } else {
            let complaints = self.complaints();
            assert!(complaints.is_empty(), "the console complains: {complaints:#?}");
        }
    }
}

/// Plain CSS of a place.
pub fn css(place: &str) -> String {
    let mut parts = place.split('@');
    let mut css = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_alphanumeric() && c != '-' && c != '_');
        let (name, rest) = part.split_at(end.unwrap_or(part.len()));
        css += &format!("[data-test=\"{name}\"]{rest}");
    }
    css
}

/// A text as JavaScript writes it.
pub fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn is_true(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false)) && value != 0 && value != ""
}

fn is_complaint(entry: &Value) -> bool {
    let part = |name: &str| entry[name].as_str().unwrap_or_default();
    part("level") == "SEVERE"
        || part("source") == "security"
        || part("message").contains("Content Security Policy")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_css_with_names_for_what_checks_look_for() {
        assert_eq!(css("@send"), "[data-test=\"send\"]");
        assert_eq!(css("@chat:first-child .x > @pin"), {
            "[data-test=\"chat\"]:first-child .x > [data-test=\"pin\"]"
        });
    }
}
