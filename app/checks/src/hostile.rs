//! Hostile model output: texts that do harm when the page treats them as more than text, and the clicks
//! of a careless user.

use serde_json::Value;

use crate::Page;
use crate::canary::Canary;

/// `CANARY` stands for the address of a [`Canary`]; scripts set `top.pwned`.
const PAYLOADS: &str = include_str!("../payloads.json");

/// At least a hundred texts.
pub fn payloads(canary: &Canary) -> Vec<String> {
    let payloads: Vec<Value> = serde_json::from_str(PAYLOADS).expect("the payloads are JSON");
    let texts = payloads.iter().map(|payload| payload["text"].as_str().expect("each has a text"));
    let texts: Vec<_> = texts.map(|text| text.replace("CANARY", &canary.address())).collect();
    assert!(texts.len() >= 100);
    texts
}

impl Page {
    /// Hovers and clicks everything in all messages, and declines every question.
    pub fn poke_at_everything(&self) {
        let poked = self.run_async(
            "const done = arguments[0];
             const painted = () => new Promise(next => requestAnimationFrame(() => setTimeout(next)));
             const poke = async () => {
                 for (const element of document.querySelectorAll('.talk-inner .text *')) {
                     for (const type of ['mouseover', 'focus', 'pointerdown', 'auxclick', 'click']) {
                         element.dispatchEvent(new MouseEvent(type, {bubbles: true, cancelable: true}));
                     }
                     if (!element.closest('a')) continue;
                     await painted();
                     document.querySelector('dialog button.button:not(.primary)')?.click();
                     await painted();
                 }
             };
             poke().then(() => done(null), error => done(String(error)));",
            &[],
        );
        assert_eq!(poked.expect("the page can be poked at"), Value::Null);
        self.until("no question is left", "!all('dialog[open]').length");
    }
}
