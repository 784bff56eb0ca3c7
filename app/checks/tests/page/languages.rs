//! The page in German; the strings of all languages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use hob_checks::{Hobd, Look, Model, Page};
use serde_json::{Map, Value};
use url::Url;

/// The keys that choose a language in the open list: each name begins with a letter of its own. In a list, a letter that
/// comes a second after the one before begins another name, as on a busy machine: the "e" of "Deutsch" is English then.
const ENGLISH_KEYS: &str = "E\n";
const GERMAN_KEYS: &str = "D\n";

#[test]
fn a_german_browser_shows_german() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open_as(&hobd, Look { language: "de", ..Look::default() });

    page.reads(".side", "Noch keine Chats");
    assert_eq!(page.script("return document.documentElement.lang"), "de");
    page.ask("Say this: Guten Tag");
    assert!(page.last_numbers().contains("Token gelesen"), "{}", page.last_numbers());
    let numbers = page.last_figures();
    assert!(numbers.contains("berechnet"), "{numbers}");
    page.reads(".group-head", "Heute");

    page.click("@to-settings");
    page.click("@like-language");
    page.write(ENGLISH_KEYS);
    page.until("it can be changed", "document.documentElement.lang === 'en'");
    page.reads("@page-settings", "Language");
    page.reads(".group-head", "Today");
}

#[test]
fn another_language_leaves_the_focus_and_what_is_not_saved_yet() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.open_page("settings");
    page.put("@set-slots", "7");
    page.shows("@settings-apply");

    page.click("@like-language");
    page.write(GERMAN_KEYS);
    page.reads("@page-settings", "Sprache");
    page.focuses("@like-language");
    page.shows("@settings-apply");
    assert_eq!(page.script("return one('@set-slots').value"), "7");
    page.until("the window has the page's name", "document.title === 'Optionen – Hob'");
}

/// In another language the other pages are drawn again in place: a `pure` component of theirs would keep its words.
#[test]
fn no_component_of_the_other_pages_is_pure() {
    for directory in ["pages", "documents", "parts"] {
        for (file, script) in scripts(&interface().join(directory)) {
            assert!(!script.contains("pure("), "{}", file.display());
        }
    }
}

#[test]
fn every_language_has_every_string_with_the_same_placeholders() {
    let [english, german] = ["en", "de"].map(strings);
    let names = |strings: &Map<String, Value>| strings.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&english), names(&german));
    for (name, string) in &english {
        assert_eq!(places(string), places(&german[name]), "{name}");
    }
}

#[test]
fn every_string_that_a_script_names_exists() {
    let strings = strings("en");
    let mut named = 0;
    for (file, script) in scripts(&interface()) {
        let calls = script.match_indices("t(\"").filter(|&(at, _)| {
            !script[..at].ends_with(|before: char| before.is_alphanumeric() || before == '.')
        });
        for (at, call) in calls {
            let name = script[at + call.len()..].split('"').next().expect("a first part");
            assert!(strings.contains_key(name), "{}: {name}", file.display());
            named += 1;
        }
    }
    assert!(named > 200, "{named} strings are named in the scripts");
}

/// Others are in `later`: without this the page would show a chat and fail at a name.
#[test]
fn the_strings_of_a_chat_are_those_that_its_scripts_name() {
    let all = strings("en");
    let loaded_at_once = scripts_loaded_at_once();
    let named: BTreeSet<&str> = all
        .keys()
        .map(String::as_str)
        .filter(|name| loaded_at_once.iter().any(|script| names(script, name)))
        .collect();
    for language in ["en", "de"] {
        let first = file_of_strings(language);
        assert_eq!(first.keys().map(String::as_str).collect::<BTreeSet<_>>(), named, "{language}");
    }
}

/// Whether a script has the name, as it is or as a template with parts between dots: `page.${name}`.
fn names(script: &str, name: &str) -> bool {
    if script.contains(&format!("\"{name}\"")) {
        return true;
    }
    let family = name.split('.').next().unwrap_or(name);
    let templates = script.split('`').filter(|text| text.starts_with(&format!("{family}.")));
    templates.filter(|text| text.contains("${")).any(|template| {
        let template = without_places(template);
        let (texts, names) = (template.split('.'), name.split('.'));
        texts.clone().count() == names.clone().count()
            && texts.zip(names).all(|(text, name)| text == name || text == "$")
    })
}

/// `page.${place.page}` as `page.$`.
fn without_places(template: &str) -> String {
    let mut parts = template.split("${");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        whole.push('$');
        whole.push_str(part.split_once('}').map_or("", |(_, after)| after));
    }
    whole
}

/// The text of `app.js` and of all that it imports, but for what `withTexts` imports.
fn scripts_loaded_at_once() -> Vec<String> {
    let mut scripts = Scripts::default();
    scripts.read(vec!["app.js".to_owned()]);
    // A release build has these in one file: their own ones are missing.
    let bundled = scripts.names.clone();
    while !scripts.soon.is_empty() {
        let soon = std::mem::take(&mut scripts.soon);
        for name in &soon {
            assert!(!bundled.contains(name), "{name} is loaded at once, and again later");
        }
        scripts.read(soon);
    }
    for name in &scripts.later {
        assert!(interface().join(name).is_file(), "{name}, which is imported, is missing");
        assert!(!scripts.names.contains(name), "{name} is loaded at once, and again later");
    }
    assert!(scripts.texts.len() > 80, "{} scripts", scripts.texts.len());
    scripts.texts
}

/// Scripts, and what they import.
#[derive(Default)]
struct Scripts {
    names: BTreeSet<String>,
    texts: Vec<String>,
    /// What they import later, without further texts.
    soon: Vec<String>,
    /// What they import with further texts.
    later: Vec<String>,
}

impl Scripts {
    /// Adds scripts and those that they import when they are loaded.
    fn read(&mut self, mut unread: Vec<String>) {
        while let Some(name) = unread.pop() {
            if name.starts_with("vendor/") || !self.names.insert(name.clone()) {
                continue;
            }
            let script = fs::read_to_string(interface().join(&name)).expect("an imported script");
            let base = Url::parse(&format!("file:///{name}")).expect("a path");
            for (at, _) in script.match_indices(".js\"") {
                let (before, target) = script[..at].rsplit_once('"').expect("an opening quote");
                let list = if before.ends_with("withTexts(importModule(") {
                    &mut self.later
                } else if before.ends_with("importModule(") {
                    &mut self.soon
                } else if ["from ", "import "].iter().any(|word| before.ends_with(word)) {
                    &mut unread
                } else {
                    continue;
                };
                let url = base.join(&format!("{target}.js")).expect("a path");
                list.push(url.path().trim_start_matches('/').to_owned());
            }
            self.texts.push(script);
        }
    }
}

/// Where an engineer looks: the Memory page, the figures behind a click, the version, "Answer cold".
const OF_THE_ENGINE: [&str; 12] = [
    "state",
    "memory",
    "map",
    "slot",
    "origin",
    "block",
    "evicted",
    "files",
    "chart",
    "numbers",
    "about",
    "message.cold",
];

/// Words of the engine, and phrases that said less than the ones that replaced them.
const ENGLISH: [&str; 28] = [
    "hot",
    "warm",
    "cold",
    "tier",
    "slot",
    "slots",
    "parked",
    "idle",
    "evicted",
    "evict",
    "prefill",
    "prewarm",
    "prewarmed",
    "prewarming",
    "prefix",
    "prefixes",
    "cells",
    "fingerprint",
    "text only",
    "chat before",
    "what to do with",
    "as the system has it",
    "its time is over",
    "left alone",
    "without a name",
    "it has its memory already",
    "run this one",
    "edit and send again",
];
const GERMAN: [&str; 18] = [
    "heiß",
    "warm",
    "kalt",
    "stufe",
    "slot",
    "slots",
    "geparkt",
    "verdrängt",
    "vorgewärmt",
    "präfix",
    "präfixe",
    "zellen",
    "fingerabdruck",
    "nur text",
    "in ruhe gelassen",
    "ohne namen",
    "wie das system es hat",
    "dieses laufen lassen",
];

#[test]
fn words_of_the_engine_stay_where_an_engineer_looks() {
    for (language, forbidden) in [("en", &ENGLISH[..]), ("de", &GERMAN[..])] {
        for (name, string) in &strings(language) {
            let is_of = |group: &&str| {
                name.strip_prefix(*group)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            if OF_THE_ENGINE.iter().any(is_of) {
                continue;
            }
            for text in forms(string) {
                let words = words(text);
                let found = forbidden.iter().find(|word| words.contains(&format!(" {word} ")));
                assert!(found.is_none(), "{language}: {name} says {found:?}: {text}");
            }
        }
    }
    // The labels that are the phrase alone.
    let english = strings("en");
    for text in english.values().flat_map(forms) {
        let vague = ["Look", "Keys", "Answer again", "Affect", "System prompt", "Lifetime"];
        assert!(!vague.contains(&text), "{text}");
    }
}

/// The words of a text, each between two spaces, without its placeholders.
fn words(text: &str) -> String {
    let mut is_inside = false;
    let spoken = text.chars().filter(|&c| {
        is_inside = c == '{' || is_inside && c != '}';
        !is_inside
    });
    let spoken: String = spoken.map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
    let words: Vec<_> = spoken.split_whitespace().map(str::to_lowercase).collect();
    format!(" {} ", words.join(" "))
}

fn forms(string: &Value) -> Vec<&str> {
    let forms = string.as_object().map(|forms| forms.values().collect());
    forms.unwrap_or_else(|| vec![string]).into_iter().filter_map(Value::as_str).collect()
}

/// The placeholders of all forms of a string: `{name}`, `{name, bytes}`.
fn places(string: &Value) -> BTreeSet<&str> {
    forms(string)
        .into_iter()
        .flat_map(|text| text.split('{').skip(1).filter_map(|place| Some(place.split_once('}')?.0)))
        .collect()
}

/// Those of both files of a language, which share none.
fn strings(language: &str) -> Map<String, Value> {
    let mut all = file_of_strings(language);
    for (name, string) in file_of_strings(&format!("later/{language}")) {
        assert!(all.insert(name.clone(), string).is_none(), "{name} is in both files");
    }
    all
}

fn file_of_strings(name: &str) -> Map<String, Value> {
    let file = interface().join(format!("strings/{name}.json"));
    serde_json::from_slice(&fs::read(file).expect("a file of strings")).expect("its strings")
}

/// The page's own scripts below a directory, with their text.
fn scripts(directory: &Path) -> Vec<(PathBuf, String)> {
    let inside = fs::read_dir(directory).expect("a directory of the page");
    let paths = inside.map(|entry| entry.expect("an entry").path());
    let found = paths.flat_map(|path| match path.extension() {
        None if !path.ends_with("vendor") => scripts(&path),
        Some(ending) if ending == "js" => {
            vec![(path.clone(), fs::read_to_string(&path).expect("a script"))]
        }
        _ => Vec::new(),
    });
    found.collect()
}

fn interface() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ui")
}
