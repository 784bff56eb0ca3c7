//! How soon the app's window can be used, while the model loads behind it.

use hob_checks::desktop::Desktop;

use crate::figures::{Bar, Table};

pub fn measure(model: &str, runs: usize, table: &mut Table) {
    let (mut usable, mut ready) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let tried = Desktop::open().with_model(model).run(&["--smoke-test"]);
        let said = String::from_utf8_lossy(&tried.stdout);
        assert!(tried.status.success(), "{said}\n{}", String::from_utf8_lossy(&tried.stderr));
        usable.push(millis(&said, " ms after the window"));
        ready.push(millis(&said, " ms after the start\nok      round trip"));
    }
    table.add("window to a page that can be used", "ms", Bar::Below(1500.0), usable);
    table.add("start to a daemon whose model is loaded", "ms", Bar::None, ready);
}

/// The number in front of `words`.
fn millis(said: &str, words: &str) -> f64 {
    let before = said.split_once(words).unwrap_or_else(|| panic!("no {words:?} in {said}")).0;
    let number = before.rsplit(' ').next().expect("a last part");
    number.parse().unwrap_or_else(|_| panic!("{number:?} is no number"))
}
