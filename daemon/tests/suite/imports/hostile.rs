//! Files that no app has written, made so that an import needs far more memory than their bytes.

use serde_json::json;

use super::fixtures::{chatgpt, lm_studio};
use super::{JSON, list, tree};
use crate::common::World;

#[test]
fn of_several_branches_the_first_alone_has_what_the_model_thought_before_them() {
    let world = World::new();
    let mut chat = chatgpt();
    let nodes = &mut chat["mapping"];
    nodes["b2"] = nodes["a2"].clone();
    nodes["b2"]["children"] = json!([]);
    nodes["t2"]["children"] = json!(["nobody", "a2", "b2"]);

    let answer = world.import(JSON, chat.to_string());

    let lines = tree(&world, &list(&answer)[0]);
    let first = "4 < 2 assistant (o3-mini) [It is cool there.]: Six hours.\n\nAt least.";
    assert_eq!(lines[3], first);
    assert_eq!(lines.last().unwrap(), "7 < 2 assistant (o3-mini): Six hours.");
}

#[test]
fn a_name_of_a_model_that_is_a_text_is_left_out_of_each_answer() {
    let world = World::new();
    let mut chat = lm_studio();
    chat["lastUsedModel"]["identifier"] = json!("m".repeat(513));
    let versions = json!([{"role": "assistant", "content": [{"type": "text", "text": "No."}]}]);
    chat["messages"] = json!([chat["messages"][0], {"versions": versions}]);

    let answer = world.import(JSON, chat.to_string());

    let lines = tree(&world, &list(&answer)[0]);
    assert_eq!(lines.last().unwrap(), "3 < 2 assistant: No.");
}
