//! A long chat: whether it scrolls and streams smoothly, and how soon a token is seen.

use hob_checks::{Hobd, Model, Page};
use serde_json::{Value, json};

use crate::figures::{Bar, Table};
use crate::{pixels, seed};

/// Frames of every second, as long as `goesOn` says so.
const FRAMES: &str = "
    const done = arguments[arguments.length - 1];
    const frames = [];
    const begin = performance.now();
    const step = (now) => {
        frames.push(now);
        if (goesOn(now - begin)) requestAnimationFrame(step);
        else done(seconds());
    };
    const seconds = () => {
        const counts = [];
        for (let from = frames[0]; from + 1000 <= frames.at(-1); from += 1000) {
            counts.push(frames.filter((at) => at > from && at <= from + 1000).length);
        }
        return counts;
    };
    requestAnimationFrame(step);";

/// The time of one scroll from top to bottom.
const SCROLL_MS: u32 = 4000;

pub fn measure(runs: usize, table: &mut Table) {
    let hobd = Hobd::start_with(Model::Fake, &["--ctx", seed::CONTEXT]);
    seed::long_chat(&hobd.client, "long");
    let page = Page::open(&hobd);
    page.shows("@composer");
    page.cdp("Page.addScriptToEvaluateOnNewDocument", &json!({"source": pixels::watch()}));
    page.go(&format!("{}/?#/chat/long", hobd.origin()));
    page.reads("@talk", "That was the last one.");
    page.until("all are there", &format!("all('@answer').length === {}", seed::MESSAGES / 2));
    // What a chat costs the first time is not what it costs while one looks at it.
    page.ask("Say this: ready");

    let (mut scrolling, mut streaming, mut waits) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        scrolling.extend(frames(
            &page,
            &format!(
                "const talk = document.querySelector('[data-test=talk]');
             const goesOn = (ms) => {{
                 talk.scrollTop = (talk.scrollHeight - talk.clientHeight) * ms / {SCROLL_MS};
                 return ms < {SCROLL_MS};
             }};"
            ),
        ));
        let answers = page.count("@answer");
        pixels::ask(&page);
        streaming.extend(frames(
            &page,
            "const goesOn = () => document.querySelector('[data-test=live]');",
        ));
        waits.extend(pixels::waits(&page, answers + 1));
    }
    let many = format!("{} messages", seed::MESSAGES);
    table.add(&format!("{many} scroll, every second"), "fps", Bar::AtLeast(50.0), scrolling);
    table.add(
        &format!("{many} and an answer streams, every second"),
        "fps",
        Bar::AtLeast(50.0),
        streaming,
    );
    table.add("token to pixel, every piece", "ms", Bar::Below(32.0), waits);
}

fn frames(page: &Page, goes_on: &str) -> Vec<f64> {
    let counted = page.run_async(&format!("{goes_on}{FRAMES}"), &[]);
    numbers(&counted.expect("frames can be counted"))
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}
