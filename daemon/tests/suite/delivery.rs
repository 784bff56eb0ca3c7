//! When the engine begins the work behind an answer of hobd.

use hob_testkit::wait::PATIENCE;
use serde_json::json;

use crate::common::{Plan, chat_body, user};

#[test]
fn the_engine_computes_nothing_behind_an_answer_before_hobd_has_stored_it_and_handed_it_out() {
    let world = Plan::new().delivery_patience(2 * PATIENCE).start();
    let body = chat_body(json!([user("Hello")]), json!({"conversation": "c"}));
    world.hand_out(&body, || {
        let stored = world.timeline("c").len();
        // Each is served in a round of its own.
        for _ in 0..3 {
            assert_eq!(world.hot_tokens(), stored - 1);
        }
    });
    let stored = world.timeline("c").len();
    world.until("the last token is computed", |world| world.hot_tokens() == stored);
}
