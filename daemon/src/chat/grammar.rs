//! The form that a request demands of its answer, as a grammar for the sampler.

use hob_dialect::{Dialect, Parser, Signatures};
use hob_runtime::backend::Model;
use hob_runtime::grammar::{Calls, Grammar, Strictness, ToolSignature};
use hob_runtime::turn::TurnError;
use hob_slots::Token;

use super::assembly::Reading;
use crate::error::ApiError;
use crate::wire::chat::ChatRequest;
use crate::wire::fields::unsupported;
use crate::wire::form::{AnswerForm, Form};
use crate::wire::tools::{Tool, ToolChoice};

/// How the answer is parsed. A forced call of a template that shows no form is written in Hermes'.
pub fn reading(request: &ChatRequest, of_template: Dialect) -> Reading {
    let is_forced = matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
    let is_formless = !of_template.form().writes_calls();
    let dialect = if is_forced && is_formless { Dialect::Hermes } else { of_template };
    let parameters = |tool: &Tool| {
        let schema = tool.definition.pointer("/function/parameters").cloned();
        (tool.name.clone(), schema.unwrap_or_default())
    };
    let may_call = request.tool_choice != ToolChoice::None;
    // The prompt offers the tools, so the model may call one that the request does not want.
    let drops_calls = !may_call && !request.tools.is_empty() && request.form.is_none();
    let reads_calls = may_call || drops_calls;
    let tools = reads_calls.then(|| Signatures::new(request.tools.iter().map(parameters)));
    let has_one_call = calls(request) == Calls::One;
    Reading { dialect, tools, drops_calls, has_one_call }
}

/// `None`: any text.
///
/// # Errors
/// When the form or the tools cannot be used.
pub fn grammar(request: &ChatRequest, dialect: Dialect) -> Result<Option<Grammar>, ApiError> {
    let form = request.form.as_ref().map(of_form).transpose()?;
    let form = form.map(|form| form.of_message(dialect));
    let tools: Vec<&Tool> = match &request.tool_choice {
        ToolChoice::None => return Ok(form),
        ToolChoice::Auto if form.is_none() || !dialect.form().writes_calls() => return Ok(form),
        ToolChoice::Auto | ToolChoice::Required => request.callable().collect(),
        ToolChoice::Named(name) => request.tools.iter().filter(|tool| tool.name == *name).collect(),
    };
    let signatures: Vec<_> = tools.into_iter().map(signature).collect();
    let called = Grammar::tool_call(dialect, &signatures, calls(request))
        .map_err(|error| ApiError::field("tools", error.to_string()).code("grammar"))?;
    Ok(Some(match form {
        // The answer is a call, or content of the form.
        Some(form) if request.tool_choice == ToolChoice::Auto => called.or(form),
        _ => called,
    }))
}

/// How many calls the answer may have.
fn calls(request: &ChatRequest) -> Calls {
    match (&request.tool_choice, request.parallel_tool_calls) {
        (ToolChoice::Named(_), _) | (_, false) => Calls::One,
        _ => Calls::Several,
    }
}

/// The grammar of a form.
///
/// # Errors
/// Names the field that demands it, or the option of it that only another engine follows.
pub fn of_form(demanded: &AnswerForm) -> Result<Grammar, ApiError> {
    if let Some(option) = &demanded.foreign {
        let message = format!("`{option}` is not supported: leave it out");
        return Err(unsupported(option.clone(), message));
    }
    let grammar = match &demanded.form {
        Form::JsonObject => Ok(Grammar::json_object()),
        Form::Schema(schema, strictness) => Grammar::json_schema(schema, *strictness),
        Form::Gbnf(source) => Grammar::gbnf(source),
        Form::Regex(expression) => Grammar::regex(expression),
        Form::Choice(texts) => Grammar::choice(texts),
    };
    grammar.map_err(|error| ApiError::field(&demanded.field, error.to_string()).code("grammar"))
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
    let signatures: Vec<_> = request.callable().map(signature).collect();
    Grammar::when_called(reading.dialect, &signatures, calls(request), parser).ok()
}

/// What keeps an answer from a call.
#[derive(Default)]
pub struct NoCall {
    /// Tokens that begin a call.
    pub tokens: Vec<Token>,
    /// Where the vocabulary has no token for a mark: most calls stand at the beginning of an answer.
    pub grammar: Option<Grammar>,
}

/// `text`: of an answer that goes on.
pub fn no_call(model: &dyn Model, dialect: Dialect, text: &str) -> NoCall {
    let form = dialect.form();
    let marks = || form.before.iter().copied().chain([form.open]).filter(|mark| mark.len() > 1);
    let token = |mark: &str| match model.tokenize(mark, false, true).as_slice() {
        [token] => Some(*token),
        _ => None,
    };
    let tokens: Vec<Token> = marks().filter_map(token).collect();
    let first = marks().find_map(|mark| mark.chars().next());
    let first = first.filter(|_| tokens.is_empty() && text.is_empty());
    NoCall { tokens, grammar: first.map(Grammar::not_beginning_with) }
}

fn signature(tool: &Tool) -> ToolSignature {
    ToolSignature {
        name: tool.name.clone(),
        parameters: tool.definition.pointer("/function/parameters").cloned(),
        strictness: if tool.is_strict { Strictness::Strict } else { Strictness::Lenient },
    }
}

/// A grammar that the engine rejects is an error of the field that demanded it.
pub fn refused(request: &ChatRequest, error: TurnError) -> ApiError {
    match error {
        TurnError::TooLong { .. } | TurnError::CacheTooSmall { .. } => {
            ApiError::from(error).param("messages")
        }
        error => refused_form(request.form.as_ref(), "tools", error),
    }
}

/// The error of a form that a request without tools demands. `other`: the field that demands a grammar beside the
/// form.
pub fn refused_form(form: Option<&AnswerForm>, other: &str, error: TurnError) -> ApiError {
    let is_grammar = matches!(error, TurnError::Grammar(_));
    let refused = ApiError::from(error);
    match form {
        _ if !is_grammar => refused,
        Some(demanded) => refused.param(&demanded.field),
        None => refused.param(other),
    }
}
