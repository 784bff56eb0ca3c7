//! The app's page in a browser.
//!
//! - Places are CSS selectors in which `@name` stands for `[data-test="name"]`.
//! - Methods wait for the element or the text that they need.
//! - When a page is dropped, its console must have no error and no violation of the security policy; a
//!   check that expects one calls [`Page::expect_complaint`].
//! - A failed check saves a screenshot in `target/checks/`.

use std::cell::RefCell;
use std::ops::Deref;

use serde_json::{Value, json};

use crate::{Browser, Hobd, Look, tools};
use hob_testkit::wait;
use hob_testkit::wait::PATIENCE;

/// The pages other than the chat, and their keys.
pub const PAGES: [(&str, &str); 5] = [
    ("memory", "Alt+2"),
    ("profiles", "Alt+3"),
    ("models", "Alt+4"),
    ("settings", "Alt+5"),
    ("library", "Alt+6"),
];

/// Helpers of scripts. `css` converts a place; `seen` tells whether an element is visible.
pub(crate) const HELPERS: &str = r#"
    const css = place => place.replace(/@([\w-]+)/g, '[data-test="$1"]');
    const all = place => [...document.querySelectorAll(css(place))];
    const one = place => document.querySelector(css(place));
    const seen = element => !!element && element.checkVisibility({visibilityProperty: true});
"#;

/// WebDriver's key of an element's id.
pub(crate) const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// The page, with the methods of its [`Browser`].
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

    pub fn open_as(hobd: &Hobd, look: Look) -> Self {
        let page = Self::of(Browser::chromium(look));
        page.go(&hobd.address_of_the_page());
        page
    }

    pub fn of(browser: Browser) -> Self {
        Self { browser, expected: RefCell::default(), complaints: RefCell::default() }
    }

    /// Loads the page again, and waits until the one before has left.
    pub fn reload(&self) {
        self.script("window.isOld = true; location.reload()");
        self.until("it is loaded again", "!window.isOld");
    }

    /// Opens one of [`PAGES`] and waits for its content.
    pub fn open_page(&self, name: &str) {
        self.click(&format!("@to-{name}"));
        self.shows(&format!("@page-{name} .page-width > *"));
    }

    /// Runs the body of a function and returns its result.
    pub fn script(&self, body: &str) -> Value {
        self.script_with(body, &[])
    }

    /// The same with `arguments`.
    pub fn script_with(&self, body: &str, arguments: &[Value]) -> Value {
        let done = self.run(&format!("{HELPERS}{body}"), arguments);
        done.unwrap_or_else(|error| panic!("{body}: {error}"))
    }

    /// Waits until an expression is truthy, and returns its value.
    pub fn until(&self, what: &str, expression: &str) -> Value {
        let script = format!("{HELPERS} return ({expression})");
        let tried = wait::attempt(PATIENCE, || match self.run(&script, &[]) {
            Ok(value) if is_true(&value) => Ok(value),
            Ok(value) => Err(format!("it is {value}")),
            Err(error) => Err(error.to_string()),
        });
        tried.unwrap_or_else(|why| panic!("still not: {what} ({expression}: {why})"))
    }

    /// Waits until an element is visible.
    pub fn shows(&self, place: &str) {
        self.until(&format!("{place} shows"), &format!("all({}).some(seen)", quoted(place)));
    }

    /// Waits until no such element is visible.
    pub fn hides(&self, place: &str) {
        self.until(&format!("{place} is gone"), &format!("!all({}).some(seen)", quoted(place)));
    }

    /// Waits until an element has the keyboard focus.
    pub fn focuses(&self, place: &str) {
        let expression = format!("document.activeElement === one({})", quoted(place));
        self.until(&format!("{place} has the focus"), &expression);
    }

    /// Waits until the text of an element contains `words`.
    pub fn reads(&self, place: &str, words: &str) {
        let expression = format!(
            "all({}).some(element => element.innerText.includes({}))",
            quoted(place),
            quoted(words)
        );
        self.until(&format!("{place} reads {words:?}"), &expression);
    }

    /// The text of the first such element, once it is visible.
    pub fn text(&self, place: &str) -> String {
        self.shows(place);
        let text = self
            .script(&format!("return one({0}).innerText || one({0}).textContent", quoted(place)));
        text.as_str().unwrap_or_default().trim().to_owned()
    }

    /// The texts of all such elements, also of those that are not rendered.
    pub fn texts(&self, place: &str) -> Vec<String> {
        let texts = self.script(&format!(
            "return all({}).map(element => element.innerText || element.textContent)",
            quoted(place)
        ));
        let texts = texts.as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.map(|text| text.trim().to_owned()).collect()
    }

    pub fn count(&self, place: &str) -> usize {
        let count = self.script(&format!("return all({}).length", quoted(place)));
        count.as_u64().and_then(|count| usize::try_from(count).ok()).expect("a length")
    }

    /// Role and name of the focused element, as a screen reader announces it.
    pub fn focused(&self) -> (String, String) {
        let active = self.command("element/active", None).expect("something has the focus");
        let element = active[ELEMENT].as_str().expect("an element").to_owned();
        let part = |part: &str| {
            let said = self.command(&format!("element/{element}/{part}"), None);
            said.ok().and_then(|said| said.as_str().map(str::to_owned)).unwrap_or_default()
        };
        (part("computedrole"), part("computedlabel"))
    }

    /// Saves a screenshot in `target/checks/`.
    pub fn save_picture(&self, name: &str) -> std::path::PathBuf {
        let path = tools::reports().join(format!("{name}.png"));
        let picture = self.picture().expect("the browser takes screenshots");
        std::fs::write(&path, picture).expect("the target can be written");
        path
    }

    /// Refuses requests to addresses with one of `patterns`, in which `*` stands for any text, and no others. Of
    /// Chromium.
    pub fn block(&self, patterns: &[&str]) {
        self.cdp("Network.enable", &json!({}));
        self.cdp("Network.setBlockedURLs", &json!({"urls": patterns}));
    }

    /// Allows console messages that contain `words`.
    pub fn expect_complaint(&self, words: &str) {
        self.expected.borrow_mut().push(words.to_owned());
    }

    /// Allows the errors of requests to a daemon that has ended.
    pub fn expect_it_away(&self) {
        for error in
            ["CONNECTION_REFUSED", "CONNECTION_RESET", "EMPTY_RESPONSE", "SOCKET_NOT_CONNECTED"]
        {
            self.expect_complaint(&format!("net::ERR_{error}"));
        }
    }

    /// The errors of the console so far that no call has allowed.
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
            // An error: the browser itself has failed, and the panic says how.
            if let Ok(picture) = self.picture() {
                std::fs::write(&path, picture).ok();
                eprintln!("screenshot: {}", path.display());
            }
            if let Ok(text) = self.run("return document.body.innerText", &[]) {
                eprintln!("the page reads: {}", text.as_str().unwrap_or_default());
            }
            eprintln!("the console: {:#?}", self.complaints());
        } else {
            let complaints = self.complaints();
            assert!(complaints.is_empty(), "the console complains: {complaints:#?}");
        }
    }
}

/// The CSS selector of a place.
pub fn css(place: &str) -> String {
    let mut parts = place.split('@');
    let mut css = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|char: char| !char.is_alphanumeric() && !matches!(char, '-' | '_'));
        let (name, rest) = part.split_at(end.unwrap_or(part.len()));
        css += &format!("[data-test=\"{name}\"]{rest}");
    }
    css
}

/// A text as a JavaScript literal.
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
    fn a_place_is_css_with_short_test_names() {
        assert_eq!(css("@send"), "[data-test=\"send\"]");
        assert_eq!(css("@chat:first-child .x > @pin"), {
            "[data-test=\"chat\"]:first-child .x > [data-test=\"pin\"]"
        });
    }
}
