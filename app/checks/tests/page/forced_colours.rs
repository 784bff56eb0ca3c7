//! With the system's forced colours, parts that differ by their paint alone still do.

use hob_checks::{Hobd, Model, Page};
use serde_json::json;

#[test]
fn the_parts_of_the_memory_bars_and_blocks_keep_their_paint() {
    let hobd = Hobd::start(Model::Fake);
    hobd.client.say("apples", "Say this: apples");
    let page = Page::open(&hobd);
    let forced = json!({"features": [{"name": "forced-colors", "value": "active"}]});
    page.cdp("Emulation.setEmulatedMedia", &forced);
    page.open_page("memory");
    page.click("@engine");
    page.shows(".cell");
    page.until("the colours are forced", "matchMedia('(forced-colors: active)').matches");
    for place in [".usage-bar .part", ".cell", ".usage-legend .swatch"] {
        let painted = page.script(&format!(
            "return all('{place}').every(part => getComputedStyle(part).forcedColorAdjust === 'none')"
        ));
        assert_eq!(painted, true, "{place}");
    }
}
