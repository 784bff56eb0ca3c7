//! How much the model thinks, as variables of its chat template.

use serde_json::{Map, Value};

/// The effort that asks for no reasoning.
const NO_EFFORT: &str = "none";

/// Adds the variables by which chat templates switch reasoning, each of some models.
pub fn switch_thinking(variables: &mut Map<String, Value>, thinks: bool) {
    // In the templates of Qwen and GLM, and of DeepSeek, Granite and Kimi.
    for name in ["enable_thinking", "thinking"] {
        variables.insert(name.into(), thinks.into());
    }
}

/// OpenAI's `reasoning_effort`, where the request does not set the variables itself.
pub fn set_effort(variables: &mut Map<String, Value>, effort: &str) {
    let mut own = Map::new();
    match effort {
        // Templates with efforts know none of this name, and would write it into the prompt.
        NO_EFFORT => switch_thinking(&mut own, false),
        effort => drop(own.insert("reasoning_effort".into(), effort.into())),
    }
    for (name, value) in own {
        variables.entry(name).or_insert(value);
    }
}
