//! The page in German; the strings of all languages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use hob_checks::{Hobd, Look, Model, Page};
use serde_json::{Map, Value};

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

    page.click("@to-settings");
    page.click("@like-language");
    page.write("English\n");
    page.until("it can be changed", "document.documentElement.lang === 'en'");
    page.reads("@page-settings", "Language");
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

/// The placeholders of all forms of a string: `{name}`, `{name, bytes}`.
fn places(string: &Value) -> BTreeSet<&str> {
    let forms = string.as_object().map(|forms| forms.values().collect());
    let forms = forms.unwrap_or_else(|| vec![string]);
    let texts = forms.into_iter().map(|form| form.as_str().expect("a text"));
    texts
        .flat_map(|text| text.split('{').skip(1).filter_map(|place| Some(place.split_once('}')?.0)))
        .collect()
}

fn strings(language: &str) -> Map<String, Value> {
    let file = interface().join(format!("strings/{language}.json"));
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
