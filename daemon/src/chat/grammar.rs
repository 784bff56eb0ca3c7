//! The form that a request demands of its answer, as a grammar for the sampler.

use hob_dialect::{Dialect, Parser, Signatures};
use hob_runtime::grammar::{Calls, Grammar, ToolSignature};
use hob_runtime::turn::TurnError;

use super::assembly::Reading;
use crate::error::{ApiError, ErrorKind};
use crate::wire::chat::{ChatRequest, ResponseFormat};
use crate::wire::tools::{Tool, ToolChoice};

const SCHEMA: &str = "response_format.json_schema.schema";

/// How the answer is parsed. A forced call of a template that shows no form is written in Hermes'.
pub fn reading(request: &ChatRequest, of_template: Dialect) -> Reading {
    let is_forced = matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
    let is_formless = !of_template.form().writes_calls();
    let dialect = if is_forced && is_formless { Dialect::Hermes } else { of_template };
    let parameters = |tool: &Tool| {
        let schema = tool.definition.pointer("/function/parameters").cloned();
        (tool.name.clone(), schema.unwrap_or_default())
    };
    let reads_calls = request.tool_choice != ToolChoice::None;
    let tools = reads_calls.then(|| Signatures::new(request.tools.iter().map(parameters)));
    Reading { dialect, tools }
}

/// `None`: any text.
///
/// # Errors
/// When the schema cannot be used, or the request combines a format with tools.
pub fn grammar(request: &ChatRequest, dialect: Dialect) -> Result<Option<Grammar>, ApiError> {
    let forced = match &request.tool_choice {
        ToolChoice::None => return format_grammar(&request.format),
        ToolChoice::Auto => None,
        ToolChoice::Required => Some(request.tools.iter().collect::<Vec<_>>()),
        ToolChoice::Named(name) => {
            Some(request.tools.iter().filter(|tool| tool.name == *name).collect())
        }
    };
    if request.format != ResponseFormat::Text {
        let message = "`response_format` cannot be combined with tools that may be called: \
                       set `tool_choice` to none";
        return Err(ApiError::field("response_format", message).code("unsupported"));
    }
    let Some(tools) = forced else { return Ok(None) };
    let signatures: Vec<_> = tools.into_iter().map(signature).collect();
    let calls = match (&request.tool_choice, request.parallel_tool_calls) {
        (ToolChoice::Required, true) => Calls::Several,
        _ => Calls::One,
    };
    Grammar::tool_call(dialect, &signatures, calls)
        .map(Some)
        .map_err(|error| ApiError::field("tools", error.to_string()).code("grammar"))
}

/// Calls that the model makes of its own accord follow the tools' schemas. `None`: it makes none.
/// `thinks`, `text`: what precedes the answer's tokens.
pub fn of_calls(
    request: &ChatRequest,
    reading: &Reading,
    thinks: bool,
    text: &str,
) -> Option<Grammar> {
    let may_call = request.tool_choice == ToolChoice::Auto && !request.tools.is_empty();
    if !may_call || request.shape.is_prewarm() {
        return None;
    }
    let mut parser = Parser::new(reading.dialect, reading.tools.clone(), thinks);
    parser.push(text);
    let signatures: Vec<_> = request.tools.iter().map(signature).collect();
    Grammar::when_called(reading.dialect, &signatures, parser).ok()
}

fn signature(tool: &Tool) -> ToolSignature {
    ToolSignature {
        name: tool.name.clone(),
        parameters: tool.definition.pointer("/function/parameters").cloned(),
    }
}

/// A grammar that the engine rejects is an error of the field that demanded it.
pub fn refused(request: &ChatRequest, error: TurnError) -> ApiError {
    let is_grammar = matches!(error, TurnError::Grammar(_));
    let is_too_long = matches!(error, TurnError::TooLong { .. });
    let refused = ApiError::from(error);
    match request.format {
        _ if is_too_long => refused.param("messages"),
        _ if !is_grammar => refused,
        ResponseFormat::Text => refused.param("tools"),
        _ => refused.param(SCHEMA),
    }
}

fn format_grammar(format: &ResponseFormat) -> Result<Option<Grammar>, ApiError> {
    match format {
        ResponseFormat::Text => Ok(None),
        ResponseFormat::JsonObject => Ok(Some(Grammar::json_object())),
        ResponseFormat::JsonSchema(schema) => {
            Grammar::json_schema(schema).map(Some).map_err(|error| {
                ApiError::new(ErrorKind::Invalid, format!("the schema cannot be used: {error}"))
                    .param(SCHEMA)
                    .code("grammar")
            })
        }
    }
}
