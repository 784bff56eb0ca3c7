//! The memory page: the map of KV blocks, recent evictions, the chart of times to first token.

use hob_checks::{Hobd, Model, Page};
use serde_json::json;

const LONG: &str = "Say this: I will remember that the code of your locker is 48213, and say it when \
                    you ask for it, as often as you like, and to nobody else. ";

#[test]
fn every_block_is_described_for_mouse_and_keyboard() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.click("@to-memory");
    page.click("@engine");
    page.reads("@memory-map", "Nothing is hot yet");

    hobd.client.say("locker", LONG);

    page.reads("@slot-row", "Say this");
    page.until("it stands still", "one('@slot-row').dataset.state === 'idle'");
    let map = hobd.client.get("/v1/memory/map");
    let blocks = map["slots"][0]["blocks"].as_array().expect("there are blocks").len();
    page.until("all of it is shown", &format!("all('@strip .cell').length === {blocks}"));
    assert!(page.count("@strip .l-user") > 0 && page.count("@strip .l-assistant") > 0);
    assert!(page.count("@strip .o-computed") > 0 && page.count("@strip .o-generated") > 0);

    page.hover("@strip .cell:nth-child(2)");
    page.reads("@tip", "computed here");
    page.script("one('@strip').focus()");
    page.press("End");
    let last = page.script("return one('@strip').getAttribute('aria-valuetext')");
    let last = last.as_str().unwrap_or_default();
    assert!(last.starts_with(&format!("block {blocks} of {blocks}, tokens ")), "{last}");
    page.click("@map-table summary");
    page.reads("@map-table", "assistant");
}

#[test]
fn evictions_and_restores_are_shown() {
    let hobd = Hobd::start_with(Model::Fake, &["--slots", "1"]);
    let page = Page::open(&hobd);
    page.click("@to-memory");
    page.click("@engine");
    hobd.client.say("one", LONG);
    hobd.client.say("two", "Say this: something else");
    page.click("@evictions summary");
    page.reads("@evictions", "another chat needed its slot");
    hobd.client.say("one", "Say this: again");
    page.until("it came from memory", "all('@strip .o-memory').length > 1");
    page.reads("@memory-files", "warm");
}

#[test]
fn answers_are_marks_of_two_shapes() {
    let hobd = Hobd::start(Model::Fake);
    hobd.client.say("locker", LONG);
    hobd.client.say("locker", "Say this: again");
    let page = Page::open(&hobd);
    page.click("@to-memory");
    page.click("@engine");
    page.until("one was reused", "all('@memory-chart .chart circle.mark').length === 1");
    page.until("and one was cold", "all('@memory-chart .chart rect.mark').length === 1");
    page.click("@chart-table summary");
    page.until("the table has both", "all('@chart-table tbody tr').length === 2");
}

#[test]
fn an_answer_that_computed_most_of_its_prompt_counts_as_cold() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    let told = page.run_async(
        "const done = arguments[0];
         import('/pages/memory/scale.js').then(({points, ticks}) => {
             const turn = (at, ttft_ms, shared, computed, cold) =>
                 ({conversation: 'a', message: at, at, ttft_ms, tokens: {shared, computed}, cold});
             const {list, median} = points([
                 turn(3, 20, 90, 10), turn(2, 40, 95, 5), turn(1, 900, 10, 90),
                 turn(4, 1100, 99, 1, true), turn(5, null, 1, 1),
             ]);
             const marks = ticks(list.map(({ttft}) => ttft)).marks;
             done([list.map(({at, kind}) => at + kind).join(' '), median.reused, median.cold, marks]);
         }, error => done(String(error)));",
        &[],
    );
    let expected = json!(["1cold 2reused 3reused 4cold", 30, 1000, [10, 100, 1000, 10000]]);
    assert_eq!(told.expect("it loads"), expected);
}
