//! Browsers serve one check after the other, and a check finds nothing of another one.

use hob_checks::{Hobd, Model, Page};
use serde_json::json;

#[test]
fn a_check_finds_nothing_that_another_one_stored_in_its_browser() {
    let hobd = Hobd::start(Model::Fake);
    // More often than there are browsers: one of them is the same.
    let browsers = std::thread::available_parallelism().map_or(1, usize::from);
    for _ in 0..=browsers {
        let page = Page::open(&hobd);
        page.shows("@composer");
        let found = page.script("return [localStorage.getItem('left'), document.cookie]");
        assert_eq!(found, json!([null, ""]));
        page.script(
            "localStorage.setItem('left', 'behind'); document.cookie = 'left=behind; max-age=99'",
        );
    }
}
