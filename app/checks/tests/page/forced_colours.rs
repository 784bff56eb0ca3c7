//! With the system's forced colours, parts that differ by their paint alone still do.

use hob_checks::chat::slowly;
use hob_checks::{Hobd, Model, Page};
use serde_json::json;

#[test]
fn the_parts_of_the_memory_bars_and_blocks_keep_their_paint() {
    let hobd = Hobd::start(Model::Fake);
    hobd.client.say("apples", "Say this: apples");
    let page = Page::open(&hobd);
    force_colours(&page);
    page.open_page("memory");
    page.click("@engine");
    page.shows(".cell");
    for place in [".usage-bar .part", ".cell", ".usage-legend .swatch"] {
        let painted = page.script(&format!(
            "return all('{place}').every(part => getComputedStyle(part).forcedColorAdjust === 'none')"
        ));
        assert_eq!(painted, true, "{place}");
    }
}

#[test]
fn what_is_current_and_where_a_message_ends_is_drawn_as_a_line() {
    let (_hobd, page) = Page::with_answers(&["apples"]);
    force_colours(&page);
    page.tool("@answer", "Copy");
    page.shows("@toast");
    page.shows(".chat-row.current");
    let drawn = |place: &str, property: &str, value: &str| {
        let drawn = page.script(&format!("return getComputedStyle(one('{place}')).{property}"));
        assert_eq!(drawn, value, "{place}");
    };
    drawn("@toast", "borderTopStyle", "solid");
    drawn("@user .bubble", "borderTopStyle", "solid");
    drawn(".chat-row.current", "outlineStyle", "solid");
    page.focus("@composer");
    drawn(".composer-box", "outlineStyle", "solid");
    page.write("/");
    page.shows(".template.chosen");
    drawn(".template.chosen", "outlineStyle", "solid");
    page.press("Backspace");
    page.open_page("memory");
    drawn("@to-memory", "textDecorationLine", "underline");
    drawn("@to-models", "textDecorationLine", "none");
}

#[test]
fn a_chosen_preset_is_drawn_as_a_line() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    force_colours(&page);
    page.click("@sampling");
    page.click("@preset-creative");
    let line =
        |preset: &str| format!("getComputedStyle(one('@preset-{preset}')).textDecorationLine");
    page.until("the chosen one has a line", &format!("{} === 'underline'", line("creative")));
    assert_eq!(page.script(&format!("return {}", line("precise"))), "none");
}

#[test]
fn the_cursor_of_a_running_answer_keeps_its_paint() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    force_colours(&page);
    page.send(&slowly(200));
    page.reads("@live", "word word");
    let cursor = "one('@live .text > p:last-child')";
    let keeps = format!("getComputedStyle({cursor}, '::after').forcedColorAdjust === 'none'");
    page.until("the cursor keeps its paint", &format!("{cursor} && {keeps}"));
    page.click("@stop");
    page.answered(1);
}

fn force_colours(page: &Page) {
    let forced = json!({"features": [{"name": "forced-colors", "value": "active"}]});
    page.cdp("Emulation.setEmulatedMedia", &forced);
    page.until("the colours are forced", "matchMedia('(forced-colors: active)').matches");
}
