//! `POST /v1/verify/correctness`: what moved KV costs in quality.

use axum::Json;
use axum::extract::State;
use hob_slots::content::Repair;
use serde_json::{Value, json};

use super::body::JsonBody;
use crate::chat::Chat;
use crate::chat::correctness::{Comparison, Row};
use crate::error::ApiError;
use crate::wire::fields::{Fields, unsupported};

const KNOWN: [&str; 4] = ["max_tokens", "prompts", "sources", "strategies"];

/// Tokens of an answer that are compared, unless the request says otherwise.
const TOKENS: i64 = 32;

const MAX_TOKENS: i64 = 1024;

const MAX_PROMPTS: usize = 256;

/// Each answers all prompts, also where the client has left.
const MAX_STRATEGIES: usize = 16;

/// `POST /v1/verify/correctness`: answers when all is compared.
pub async fn compare(State(chat): State<Chat>, body: JsonBody) -> Result<Json<Value>, ApiError> {
    let comparison = parsed(&body.value)?;
    let (prompts, max_tokens) = (comparison.prompts.len(), comparison.max_tokens);
    let repeat = repeat(&comparison);
    let rows = chat.compare_reuse(comparison).await?;
    Ok(Json(json!({
        "object": "correctness",
        "model": chat.model_name(),
        "prompts": prompts,
        "max_tokens": max_tokens,
        "repeat": repeat,
        "data": rows.iter().map(row).collect::<Vec<_>>(),
    })))
}

/// The command that compares the same once more. `FILE` has the prompts and sources.
fn repeat(comparison: &Comparison) -> String {
    let strategies: Vec<_> = comparison.strategies.iter().map(Repair::to_string).collect();
    let (strategies, tokens) = (strategies.join(","), comparison.max_tokens);
    format!("hob verify-correctness FILE --strategy {strategies} --max-tokens {tokens}")
}

fn parsed(body: &Value) -> Result<Comparison, ApiError> {
    let fields = Fields::of_body(body)?;
    if let Some(unknown) = fields.object().keys().find(|name| !KNOWN.contains(&name.as_str())) {
        let message = format!("it knows only `{}`", KNOWN.join("`, `"));
        return Err(unsupported(unknown.escape_debug().to_string(), message));
    }
    let bodies = |name| -> Result<Vec<Value>, ApiError> {
        let list = fields.list(name)?.map_or(&[][..], Vec::as_slice);
        if list.len() > MAX_PROMPTS {
            return Err(ApiError::field(name, format!("`{name}` has {MAX_PROMPTS} at most")));
        }
        Ok(list.iter().map(chat_body).collect())
    };
    let prompts = bodies("prompts")?;
    if prompts.is_empty() {
        return Err(ApiError::field("prompts", "`prompts` needs one at least"));
    }
    let strategies = match fields.list("strategies")? {
        None => vec![Repair::None, Repair::default(), Repair::Full],
        Some(names) if names.len() > MAX_STRATEGIES => {
            let message = format!("`strategies` has {MAX_STRATEGIES} at most");
            return Err(ApiError::field("strategies", message));
        }
        Some(names) => {
            let strategy = |(at, name): (usize, &Value)| {
                let refused = |why: String| ApiError::field(format!("strategies[{at}]"), why);
                let name =
                    name.as_str().ok_or_else(|| refused("a strategy is a text".to_owned()))?;
                match name.parse::<Repair>() {
                    Ok(repair) if repair.selected().is_some() => Err(refused(format!(
                        "`{name}` computes whole chunks beside them while all answers wait: it is for `cargo xtask \
                         bench chunks` alone"
                    ))),
                    parsed => parsed.map_err(|error| refused(format!("{error}"))),
                }
            };
            names.iter().enumerate().map(strategy).collect::<Result<Vec<Repair>, _>>()?
        }
    };
    let max_tokens = fields.integer("max_tokens", 1..=MAX_TOKENS)?.unwrap_or(TOKENS);
    let max_tokens = usize::try_from(max_tokens).expect("it is positive");
    Ok(Comparison { sources: bodies("sources")?, prompts, strategies, max_tokens })
}

/// A text is a user's message.
fn chat_body(prompt: &Value) -> Value {
    match prompt {
        Value::String(text) => json!({"messages": [{"role": "user", "content": text}]}),
        other => other.clone(),
    }
}

fn row(row: &Row) -> Value {
    let Row { strategy, bucket, likeness } = row;
    json!({
        "strategy": strategy.to_string(),
        "moved_percent": [bucket.from, bucket.to],
        "prompts": likeness.answers,
        "prompt_tokens": likeness.tokens.prompt(),
        "moved_tokens": likeness.tokens.moved,
        "repaired_tokens": likeness.tokens.repaired,
        "computed_tokens": likeness.tokens.computed,
        "compared_tokens": likeness.compared,
        "agreement": likeness.agreement(),
        "divergence": likeness.mean_divergence(),
        "f1": likeness.mean_f1(),
    })
}
