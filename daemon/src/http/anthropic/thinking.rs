//! How much the model thinks, as variables of its chat template, and the form of its answer.
//!
//! - No template takes a number of tokens as a bound; some take an effort, and one a budget that it
//!   tells the model.

use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::http::translation::set_variables;
use crate::wire::fields::Fields;
use crate::wire::thinking::switch_thinking;

/// Efforts by their largest budget of thinking tokens; a larger budget is `high`.
const EFFORTS: [(i64, &str); 2] = [(4_095, "low"), (16_383, "medium")];

/// The name of `output_config.format` in older versions of Anthropic's API.
const OLDER_FORMAT: &str = "output_format";

/// Writes `thinking` and `output_config` into the body of a chat. Returns whether the client wants no
/// text of the reasoning.
///
/// # Errors
/// Names the wrong field.
pub fn set(fields: &Fields<'_>, chat: &mut Map<String, Value>) -> Result<bool, ApiError> {
    let (mut variables, mut omits) = (Map::new(), false);
    if let Some(thinking) = fields.get("thinking") {
        let thinking = Fields::of(thinking, "thinking")?;
        let thinks = thinks(&thinking)?;
        switch_thinking(&mut variables, thinks);
        if let Some(tokens) = thinking.integer("budget_tokens", 1..=i64::from(i32::MAX))? {
            variables.insert("thinking_budget".into(), tokens.into()); // Seed-OSS's.
            let effort = EFFORTS.iter().find(|(most, _)| tokens <= *most);
            let effort = effort.map_or("high", |(_, effort)| effort);
            variables.insert("reasoning_effort".into(), effort.into());
        }
        omits = thinking.string("display")? == Some("omitted");
    }
    if let Some(config) = fields.get("output_config") {
        let config = Fields::of(config, "output_config")?;
        if let Some(effort) = effort(&config)? {
            variables.insert("reasoning_effort".into(), effort.into());
        }
        if let Some(format) = config.get("format") {
            if fields.get(OLDER_FORMAT).is_some() {
                let message = format!(
                    "`output_config.format` and `{OLDER_FORMAT}` both demand a form: send one"
                );
                return Err(ApiError::field(OLDER_FORMAT, message));
            }
            chat.insert("response_format".into(), answer_form(format, "output_config.format")?);
        }
    }
    if let Some(format) = fields.get(OLDER_FORMAT) {
        chat.insert("response_format".into(), answer_form(format, OLDER_FORMAT)?);
    }
    set_variables(chat, variables);
    Ok(omits)
}

fn thinks(thinking: &Fields<'_>) -> Result<bool, ApiError> {
    match thinking.required_string("type")? {
        "enabled" | "adaptive" | "between_tools" => Ok(true),
        "disabled" => Ok(false),
        other => {
            let other = other.escape_debug();
            let message =
                format!("`thinking.type` must be enabled, adaptive or disabled, not `{other}`");
            Err(ApiError::field("thinking.type", message))
        }
    }
}

fn effort(config: &Fields<'_>) -> Result<Option<&'static str>, ApiError> {
    match config.string("effort")? {
        None => Ok(None),
        Some("low") => Ok(Some("low")),
        Some("medium") => Ok(Some("medium")),
        Some("high" | "xhigh" | "max") => Ok(Some("high")), // Templates know no more.
        Some(other) => {
            let other = other.escape_debug();
            let message = format!(
                "`output_config.effort` must be low, medium, high, xhigh or max, not `{other}`"
            );
            Err(ApiError::field("output_config.effort", message))
        }
    }
}

fn answer_form(format: &Value, path: &str) -> Result<Value, ApiError> {
    let format = Fields::of(format, path)?;
    let kind = format.required_string("type")?;
    if kind != "json_schema" {
        let kind = kind.escape_debug();
        let path = format.path("type");
        let message = format!("`{path}` must be json_schema, not `{kind}`");
        return Err(ApiError::field(path, message));
    }
    let schema = format.required("schema")?;
    Ok(json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}))
}
