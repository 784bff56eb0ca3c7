//! What the page weighs.

use hob_checks::page::PAGES;
use hob_checks::{Hobd, Model, Page};

/// Of our own scripts and styles, as they are sent.
const MOST_BYTES: u64 = 200_000;

#[test]
fn our_own_scripts_and_styles_stay_small() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    for (name, _) in PAGES {
        page.click(&format!("@to-{name}"));
        page.shows(&format!("@page-{name} .page-width > *"));
    }

    let loaded = page.script(
        "return performance.getEntriesByType('resource')
             .filter(({name}) => /\\.(js|css)$/.test(name) && !name.includes('/vendor/'))
             .map(({name, decodedBodySize}) => [name, decodedBodySize])",
    );
    let loaded = loaded.as_array().expect("a list");
    let bytes: u64 = loaded.iter().filter_map(|file| file[1].as_u64()).sum();

    assert!(loaded.len() > 10, "{loaded:?}");
    assert!(bytes < MOST_BYTES, "{bytes} bytes: {loaded:?}");
}
