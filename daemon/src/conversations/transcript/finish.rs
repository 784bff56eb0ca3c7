//! Checks the `finish` of imported messages: how an answer ended, and what it cost.
//!
//! - Clients show a saved `finish` without checking it, so an import with wrong types is refused.
//! - Unknown fields are kept; no client reads them.

use serde::Deserialize;

use crate::error::ApiError;
use crate::explain::Reason;
use crate::wire::fields::{Fields, unsupported};

/// # Errors
/// Name the field whose type or value is not that of an answer.
pub fn check(message: &Fields<'_>) -> Result<(), ApiError> {
    part(message, "finish", |finish| {
        finish.string("finish_reason")?;
        finish.string("model")?;
        part(finish, "usage", |usage| optional(usage, &["completion_tokens"]))?;
        part(finish, "hob", hob)
    })
}

fn hob(hob: &Fields<'_>) -> Result<(), ApiError> {
    // An engine at another address says nothing of its KV.
    if hob.string("upstream")?.is_none() {
        hob.required("tokens")?;
    }
    part(hob, "tokens", |tokens| numbers(tokens, &["shared", "memory", "disk", "computed"]))?;
    part(hob, "tokens", |tokens| optional(tokens, &["away", "moved", "repaired", "lossy"]))?;
    part(hob, "cells", cells)?;
    moved(hob)?;
    part(hob, "ahead", |ahead| numbers(ahead, &["memory", "disk", "computed"]))?;
    numbers(hob, &["ttft_ms"])?;
    optional(hob, &["restore_ms", "saved_ms"])?;
    hob.boolean("cold")?;
    hob.boolean("context_full")?;
    part(hob, "explanation", explanation)
}

fn cells(cells: &Fields<'_>) -> Result<(), ApiError> {
    numbers(cells, &["budget", "peak", "resident"])?;
    for (n, away) in cells.list("away")?.into_iter().flatten().enumerate() {
        let path = cells.path(&format!("away[{n}]"));
        let away = Fields::of(away, &path)?;
        numbers(&away, &["tokens"])?;
        optional(&away, &["messages_behind"])?;
        away.string("key")?;
    }
    part(cells, "no_eviction", |why| {
        for name in ["reason", "what", "remedy"] {
            why.required_string(name)?;
        }
        Ok(())
    })
}

fn moved(hob: &Fields<'_>) -> Result<(), ApiError> {
    for (n, moved) in hob.list("moved")?.into_iter().flatten().enumerate() {
        let path = hob.path(&format!("moved[{n}]"));
        let moved = Fields::of(moved, &path)?;
        numbers(&moved, &["tokens"])?;
        moved.required_string("way")?;
        moved.string("key")?;
        moved.string("why")?;
    }
    Ok(())
}

fn explanation(explanation: &Fields<'_>) -> Result<(), ApiError> {
    let reason = explanation.required("reason")?;
    if Reason::deserialize(reason).is_err() {
        return Err(unsupported(explanation.path("reason"), "there is no such reason"));
    }
    explanation.string("what")?;
    optional(explanation, &["at"])?;
    part(explanation, "segment", |segment| segment.required_string("key").map(drop))?;
    if explanation.string("kept_text")?.is_some() {
        explanation.required_string("before")?;
        explanation.required_string("new_text")?;
    }
    Ok(())
}

/// Checks an optional object of another.
fn part(
    of: &Fields<'_>,
    name: &str,
    check: impl FnOnce(&Fields<'_>) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    let Some(value) = of.get(name) else { return Ok(()) };
    check(&Fields::of(value, &of.path(name))?)
}

/// Checks required numbers.
fn numbers(of: &Fields<'_>, names: &[&str]) -> Result<(), ApiError> {
    names.iter().try_for_each(|name| of.required(name).map(drop))?;
    optional(of, names)
}

fn optional(of: &Fields<'_>, names: &[&str]) -> Result<(), ApiError> {
    names.iter().try_for_each(|name| of.number(name, 0.0..=f64::from(u32::MAX)).map(drop))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn finish() -> Value {
        json!({
            "finish_reason": "stop",
            "model": "hob-tiny",
            "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
            "hob": {
                "tokens": {"shared": 1, "memory": 2, "disk": 3, "away": 4, "computed": 3},
                "cells": {"budget": 9, "peak": 8, "resident": 7,
                    "away": [{"key": null, "messages_behind": null, "tokens": 4}], "no_eviction":
                    {"reason": "hybrid", "what": "a running state", "remedy": "another model"}},
                "moved": [{"key": null, "tokens": 4, "way": "out", "why": "budget"}],
                "ahead": {"memory": 0, "disk": 0, "computed": 0},
                "ttft_ms": 12.5, "restore_ms": 0.1, "saved_ms": null, "cold": false,
                "explanation": {
                    "reason": "changing_id", "what": "a number", "at": 5,
                    "segment": {"layer": "user", "key": "it"},
                    "before": "a", "kept_text": "1", "new_text": "2",
                },
            },
        })
    }

    fn checked(finish: &Value) -> Result<(), ApiError> {
        check(&Fields::of(&json!({ "finish": finish }), "messages[1]").unwrap())
    }

    #[test]
    fn the_finish_of_an_answer_is_accepted_and_so_is_a_part_of_it() {
        let upstream = json!({"upstream": "http://127.0.0.1:9", "tokens": null, "ttft_ms": 9.5});
        let parts = [json!({}), json!({"hob": null, "later": [1]}), json!({ "hob": upstream })];
        for fine in parts.into_iter().chain([finish(), Value::Null]) {
            checked(&fine).unwrap();
        }
    }

    #[test]
    fn a_wrong_type_is_refused_by_the_path_of_its_field() {
        for (at, value) in [
            ("/finish_reason", json!(1)),
            ("/model", json!({})),
            ("/usage/completion_tokens", json!("4")),
            ("/hob", json!([])),
            ("/hob/tokens", Value::Null),
            ("/hob/tokens/disk", Value::Null),
            ("/hob/ahead/computed", json!(-1)),
            ("/hob/tokens/away", json!("4")),
            ("/hob/cells/no_eviction/what", json!(7)),
            ("/hob/cells/peak", Value::Null),
            ("/hob/cells/away", json!({})),
            ("/hob/moved", json!({})),
            ("/hob/ttft_ms", json!("soon")),
            ("/hob/saved_ms", json!(1e300)),
            ("/hob/cold", json!(0)),
            ("/hob/explanation/reason", json!("magic")),
            ("/hob/explanation/segment/key", Value::Null),
            ("/hob/explanation/new_text", Value::Null),
        ] {
            let mut wrong = finish();
            *wrong.pointer_mut(at).unwrap() = value;
            let named = format!("messages[1].finish{}", at.replace('/', "."));
            assert_eq!(checked(&wrong).unwrap_err().param, Some(named));
        }
    }
}
