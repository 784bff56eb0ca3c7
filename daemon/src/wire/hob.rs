//! Hob's extension of a chat request, the field `hob`, and the fields of OpenAI's API that ask for the
//! same.

use std::num::NonZeroUsize;

use hob_prewarm::ProfileName;
use hob_slots::TtlClass;
use hob_slots::content::Accepted;
use hob_slots::reanchor::Beyond;
use serde_json::Value;

use super::fields::{Fields, unsupported};
use super::sampling::{SamplingFields, max_tokens};
use crate::conversations::transcript::After;
use crate::error::ApiError;

const KNOWN: [&str; 16] = [
    "after",
    "append",
    "beyond",
    "budget",
    "cold",
    "continue",
    "defaults",
    "detached",
    "draft",
    "instructions",
    "newest",
    "private",
    "profile",
    "progress",
    "reuse",
    "ttl",
];

/// Fields that a completion of a text takes. The others are of chats: of messages, conversations with a text,
/// profiles.
const OF_COMPLETIONS: [&str; 6] = ["budget", "cold", "draft", "private", "progress", "reuse"];

/// Refuses what has no effect on a completion of a text.
pub(super) fn check_of_completion(fields: &Fields<'_>) -> Result<(), ApiError> {
    let Some(hob) = hob(fields)? else { return Ok(()) };
    let is_of_chats = |name: &&String| !OF_COMPLETIONS.contains(&name.as_str());
    let Some(name) = hob.object().keys().find(is_of_chats) else { return Ok(()) };
    let message = format!(
        "`hob.{name}` is of chats: a completion knows `{}` of `hob`",
        OF_COMPLETIONS.join("`, `")
    );
    Err(unsupported(hob.path(name), message))
}

/// Hob's extension of OpenAI's request.
fn hob<'a>(fields: &Fields<'a>) -> Result<Option<Fields<'a>>, ApiError> {
    let Some(hob) = fields.get("hob") else { return Ok(None) };
    let hob = Fields::of(hob, "hob")?;
    let unknown = |name: &&String| !KNOWN.contains(&name.as_str());
    if let Some(unknown) = hob.object().keys().find(unknown) {
        let path = hob.path(&unknown.escape_debug().to_string());
        let message = format!("`hob` knows only `{}`", KNOWN.join("`, `"));
        return Err(unsupported(path, message));
    }
    Ok(Some(hob))
}

pub(super) fn append(fields: &Fields<'_>) -> Result<bool, ApiError> {
    let Some(hob) = hob(fields)? else { return Ok(false) };
    Ok(hob.boolean("append")?.unwrap_or(false))
}

/// `hob.budget`: cells that the conversation may have at any time.
pub(super) fn budget(fields: &Fields<'_>) -> Result<Option<NonZeroUsize>, ApiError> {
    let Some(hob) = hob(fields)? else { return Ok(None) };
    let cells = hob.integer("budget", i64::MIN..=i64::MAX)?;
    let positive = |cells: i64| usize::try_from(cells).ok().and_then(NonZeroUsize::new);
    let refused = |cells: i64| {
        let message = format!(
            "`hob.budget` is a number of cells, 1 at least, not {cells}: leave it out for those of \
             the whole cache"
        );
        ApiError::field("hob.budget", message)
    };
    cells.map(|cells| positive(cells).ok_or_else(|| refused(cells))).transpose()
}

/// `hob.reuse`: whether KV may be used that was computed at another place.
pub(super) fn reuse(fields: &Fields<'_>) -> Result<Option<Accepted>, ApiError> {
    one_of(fields, "reuse", [("exact", Accepted::Exact), ("repaired", Accepted::Repaired)])
}

/// `hob.beyond`: what becomes of a conversation that outgrows the context.
pub(super) fn beyond(fields: &Fields<'_>) -> Result<Option<Beyond>, ApiError> {
    one_of(fields, "beyond", [("end", Beyond::End), ("reanchor", Beyond::Reanchor)])
}

/// A field of `hob` that has one of two values.
fn one_of<T>(
    fields: &Fields<'_>,
    name: &str,
    values: [(&str, T); 2],
) -> Result<Option<T>, ApiError> {
    let Some(hob) = hob(fields)? else { return Ok(None) };
    let Some(given) = hob.string(name)? else { return Ok(None) };
    let [first, second] = values.each_ref().map(|(word, _)| *word);
    let refused = || {
        let given = given.escape_debug();
        let message = format!("`hob.{name}` must be {first} or {second}, not `{given}`");
        ApiError::field(hob.path(name), message)
    };
    let chosen = values.into_iter().find(|(word, _)| *word == given);
    chosen.map(|(_, value)| Some(value)).ok_or_else(refused)
}

/// `hob.draft`: whether tokens of the answer may be guessed and computed ahead.
pub(super) fn draft(fields: &Fields<'_>) -> Result<Option<bool>, ApiError> {
    let Some(hob) = hob(fields)? else { return Ok(None) };
    hob.boolean("draft")
}

pub(super) fn cold(fields: &Fields<'_>) -> Result<bool, ApiError> {
    let Some(hob) = hob(fields)? else { return Ok(false) };
    Ok(hob.boolean("cold")?.unwrap_or(false))
}

pub(super) fn newest(fields: &Fields<'_>, append: bool) -> Result<bool, ApiError> {
    let Some(hob) = hob(fields)? else { return Ok(false) };
    let newest = hob.boolean("newest")?.unwrap_or(false);
    if newest && !append {
        return Err(ApiError::field("hob.newest", "`hob.newest` needs `hob.append: true`"));
    }
    Ok(newest)
}

/// `hob.continue`: goes on with an answer instead of giving one.
pub(super) fn continues(fields: &Fields<'_>, append: bool) -> Result<bool, ApiError> {
    let Some(hob) = hob(fields)? else { return Ok(false) };
    let continues = hob.boolean("continue")?.unwrap_or(false);
    let refused = |why: &str| Err(ApiError::field("hob.continue", format!("`hob.continue` {why}")));
    let has_form = fields.get("response_format").is_some_and(|format| format["type"] != "text");
    if !continues {
        return Ok(false);
    } else if !append {
        return refused("needs `hob.append: true`");
    } else if fields.list("messages")?.is_some_and(|messages| !messages.is_empty()) {
        return refused("needs an empty list of `messages`");
    } else if has_form || fields.integer("n", i64::MIN..=i64::MAX)? > Some(1) {
        return refused("knows neither `response_format` nor `n`");
    } else if max_tokens(fields)? == Some(0) {
        return refused("needs a `max_tokens` of 1 at least");
    }
    Ok(true)
}

/// `hob.defaults`: for what neither the request nor its conversation nor its profile sets.
pub(super) fn defaults(fields: &Fields<'_>) -> Result<SamplingFields, ApiError> {
    let Some(hob) = hob(fields)? else { return Ok(SamplingFields::default()) };
    let defaults = hob.get("defaults").map(|set| SamplingFields::parse_all(set, "hob.defaults"));
    Ok(defaults.transpose()?.unwrap_or_default())
}

/// What stands in front of the conversation from now on.
pub(super) fn instructions(fields: &Fields<'_>, append: bool) -> Result<Option<String>, ApiError> {
    let Some(hob) = hob(fields)? else { return Ok(None) };
    let Some(text) = hob.string("instructions")? else { return Ok(None) };
    if !append {
        let message =
            "`hob.instructions` needs `hob.append: true`: without it, send a system message";
        return Err(ApiError::field("hob.instructions", message));
    }
    Ok(Some(text.trim().to_owned()))
}

/// `hob.progress`, or llama-server's `return_progress`.
pub(super) fn progress(fields: &Fields<'_>) -> Result<bool, ApiError> {
    let ours = match hob(fields)? {
        Some(hob) => hob.boolean("progress")?,
        None => None,
    };
    Ok(ours.unwrap_or(false) || fields.boolean("return_progress")?.unwrap_or(false))
}

/// `hob.private`: nothing may stay.
pub(super) fn private(fields: &Fields<'_>) -> Result<bool, ApiError> {
    let Some(hob) = hob(fields)? else { return Ok(false) };
    Ok(hob.boolean("private")?.unwrap_or(false))
}

/// OpenAI's `store: false`: nothing may reach the disk.
pub(super) fn unstored(fields: &Fields<'_>) -> Result<bool, ApiError> {
    Ok(fields.boolean("store")? == Some(false))
}

/// Whether the request says that its KV stays in memory, or gives it a TTL class on disk.
pub(super) fn in_memory(fields: &Fields<'_>) -> Result<Option<bool>, ApiError> {
    let is_ours = hob(fields)?.is_some_and(|hob| hob.get("ttl").is_some());
    let retention = fields.string("prompt_cache_retention")?;
    let in_memory = retention.map(|retention| retention != "24h");
    Ok(if is_ours { Some(false) } else { in_memory })
}

pub(super) fn after(fields: &Fields<'_>, append: bool) -> Result<Option<After>, ApiError> {
    let Some(hob) = hob(fields)? else { return Ok(None) };
    let Some(id) = hob.integer("after", 0..=i64::MAX)? else { return Ok(None) };
    if !append {
        return Err(ApiError::field("hob.after", "`hob.after` needs `hob.append: true`"));
    }
    Ok(Some(if id == 0 { After::Nothing } else { After::Message(id) }))
}

/// Reads `hob.detached`: the answer goes on without its client, which reads it as a stream.
pub fn is_detached(body: &Value) -> Result<bool, ApiError> {
    let fields = Fields::of_body(body)?;
    let Some(hob) = hob(&fields)? else { return Ok(false) };
    let is_detached = hob.boolean("detached")?.unwrap_or(false);
    if is_detached && fields.boolean("stream")? != Some(true) {
        return Err(ApiError::field("hob.detached", "`hob.detached` needs `stream: true`"));
    }
    Ok(is_detached)
}

/// Which profile a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileChoice {
    /// It says nothing: the default profile, where there is one.
    Default,
    None,
    Named(ProfileName),
}

/// Reads `hob.profile`.
pub fn profile_choice(body: &Value) -> Result<ProfileChoice, ApiError> {
    let name = match hob(&Fields::of_body(body)?)? {
        Some(hob) => hob.string("profile")?,
        None => None,
    };
    match name {
        None => Ok(ProfileChoice::Default),
        Some(ProfileName::NONE) => Ok(ProfileChoice::None),
        Some(name) => match name.parse() {
            Ok(name) => Ok(ProfileChoice::Named(name)),
            Err(error) => Err(ApiError::field("hob.profile", format!("{error}"))),
        },
    }
}

/// Reads `hob.ttl`, or OpenAI's `prompt_cache_retention`.
pub(super) fn ttl(fields: &Fields<'_>) -> Result<Option<TtlClass>, ApiError> {
    let ours = match hob(fields)? {
        Some(hob) => hob.string("ttl")?,
        None => None,
    };
    if let Some(class) = ours {
        let parsed = class.parse::<TtlClass>();
        return parsed.map(Some).map_err(|error| ApiError::field("hob.ttl", error.to_string()));
    }
    match fields.string("prompt_cache_retention")? {
        None => Ok(None),
        Some("in_memory" | "in-memory") => Ok(Some(TtlClass::Long)),
        Some("24h") => Ok(Some(TtlClass::Extended)),
        Some(other) => {
            let name = "prompt_cache_retention";
            let other = other.escape_debug();
            Err(ApiError::field(name, format!("`{name}` must be in_memory or 24h, not `{other}`")))
        }
    }
}
