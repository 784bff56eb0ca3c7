//! Conversations by the names that a user types: an id, a title, or the beginning of one.
//!
//! - A whole id wins over a title, and a whole one over a beginning. Titles match in any case.
//! - What several conversations match is a failure that lists them.

use hob_api::{Conversation, List};
use hob_slots::ConversationId;

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{count, line, plain};

/// Candidates that a failure lists.
const MAX_LISTED: usize = 5;

/// The conversation that a command is about.
#[derive(clap::Args)]
pub struct ConversationArgs {
    /// The conversation: its id, its title, or the beginning of one
    #[arg(required_unless_present = "last")]
    conversation: Option<String>,

    /// The most recently used conversation
    #[arg(long, conflicts_with = "conversation")]
    last: bool,
}

impl ConversationArgs {
    /// `None`: the most recently used one.
    pub fn name(&self) -> Option<&str> {
        self.conversation.as_deref()
    }

    /// The name; for the most recently used conversation of the daemon, its id.
    pub fn name_or_last(&self, client: &Client) -> Result<String, Failure> {
        self.conversation.clone().map_or_else(|| last(client), Ok)
    }
}

/// A conversation that may be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub id: String,
    pub title: Option<String>,
}

impl Candidate {
    /// Whether `name` is its whole title.
    pub fn is_whole(&self, name: &str) -> bool {
        let title = self.title.as_deref().unwrap_or_default();
        title.to_lowercase() == name.trim().to_lowercase()
    }

    /// `“The cat” (chat-1)`; without a title, the id.
    pub fn shown(&self) -> String {
        match &self.title {
            Some(title) => format!("“{}” ({})", line(title, 40), plain(&self.id)),
            None => plain(&self.id),
        }
    }
}

/// The conversations with stored text, the most recently used first.
pub fn of_daemon(client: &Client) -> Result<Vec<Candidate>, Failure> {
    let list: List<Conversation<'_>> = client.get("/v1/conversations")?;
    let known = |conversation: Conversation<'_>| Candidate {
        id: conversation.id.into_owned(),
        title: conversation.title.map(|title| title.into_owned()),
    };
    Ok(list.data.into_iter().map(known).collect())
}

/// The id of the most recently used conversation.
pub fn last(client: &Client) -> Result<String, Failure> {
    let newest = of_daemon(client)?.into_iter().next().map(|known| known.id);
    newest.ok_or_else(|| {
        let message = "there is no conversation yet; `hob chat` starts one";
        Failure::NotFound(message.to_owned())
    })
}

/// Sends a request for `name` as an id and, where the daemon knows no such id, for the conversation
/// that `name` means.
pub fn with_id<T>(
    client: &Client,
    name: &str,
    request: impl FnMut(&str) -> Result<T, Failure>,
) -> Result<T, Failure> {
    with(client, name, request, false)
}

/// [`with`] for a request that deletes: the beginning of a name is not enough.
pub fn with_whole<T>(
    client: &Client,
    name: &str,
    request: impl FnMut(&str) -> Result<T, Failure>,
) -> Result<T, Failure> {
    with(client, name, request, true)
}

fn with<T>(
    client: &Client,
    name: &str,
    mut request: impl FnMut(&str) -> Result<T, Failure>,
    must_be_whole: bool,
) -> Result<T, Failure> {
    match request(name) {
        Err(Failure::Refused { status: 404, .. }) => {}
        other => return other,
    }
    // A daemon that cannot list them knows none.
    let known = of_daemon(client).unwrap_or_default();
    let found = find(&known, name)?.filter(|found| found.id != name);
    let found = found.ok_or_else(|| absent(name))?;
    if must_be_whole && !found.is_whole(name) {
        return Err(ambiguous(name, &[found]));
    }
    request(&found.id).map_err(|failure| match failure {
        Failure::Refused { status: 404, .. } => absent(name),
        other => other,
    })
}

/// The conversation that `name` means.
pub fn find<'k>(known: &'k [Candidate], name: &str) -> Result<Option<&'k Candidate>, Failure> {
    let wanted = name.trim().to_lowercase();
    let title = |known: &Candidate| known.title.as_deref().unwrap_or_default().to_lowercase();
    let rules: [&dyn Fn(&Candidate) -> bool; 3] = [
        &|known| known.id == name,
        &|known| !wanted.is_empty() && known.is_whole(name),
        &|known| {
            let begins = known.id.to_lowercase().starts_with(&wanted);
            !wanted.is_empty() && (begins || title(known).starts_with(&wanted))
        },
    ];
    for rule in rules {
        let found: Vec<_> = known.iter().filter(|known| rule(known)).collect();
        match found[..] {
            [] => {}
            [one] => return Ok(Some(one)),
            _ => return Err(ambiguous(name, &found)),
        }
    }
    Ok(None)
}

fn ambiguous(name: &str, found: &[&Candidate]) -> Failure {
    let shown = found.iter().map(|known| known.shown()).collect();
    Failure::Usage(format!("`{}` could be {}", line(name, 60), first_of(shown)))
}

/// The candidates that a failure lists, and the number of others.
pub fn first_of(mut candidates: Vec<String>) -> String {
    let more = candidates.len().saturating_sub(MAX_LISTED);
    candidates.truncate(MAX_LISTED);
    if more > 0 {
        candidates.push(format!("{} more", count(more as u64)));
    }
    candidates.join(", ")
}

fn absent(name: &str) -> Failure {
    let name = line(name, 60);
    Failure::NotFound(format!("there is no conversation `{name}`; `hob conversations` lists them"))
}

/// An id as lists show it: inner names say what they hold.
pub fn label(id: &str) -> String {
    let inner = [
        (ConversationId::PROFILE_PREFIX, "prefix of profile "),
        (ConversationId::LEARNED_PREFIX, "learned prefix "),
        ("__key__:", "cache key "),
    ];
    if id == ConversationId::SYSTEM_PREFIX {
        return "prefix of the system prompt".to_owned();
    }
    let named = inner.iter().find_map(|(begin, words)| Some((words, id.strip_prefix(begin)?)));
    named.map_or_else(|| plain(id), |(words, name)| format!("{words}{}", plain(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_id_a_title_or_the_beginning_of_one() {
        let known = [("chat-1", "The cat"), ("chat-12", "The dog"), ("the cat", "Fish")]
            .map(|(id, title)| Candidate { id: id.to_owned(), title: Some(title.to_owned()) });
        let id = |name: &str| Ok::<_, Failure>(find(&known, name)?.map(|known| known.id.as_str()));
        assert_eq!(id("chat-1").unwrap(), Some("chat-1"), "a whole id");
        assert_eq!(id("chat-12").unwrap(), Some("chat-12"));
        assert_eq!(id("the cat").unwrap(), Some("the cat"), "an id wins over a title");
        assert_eq!(id("THE DOG").unwrap(), Some("chat-12"));
        assert_eq!(id("fi").unwrap(), Some("the cat"));
        assert_eq!(id("bird").unwrap(), None);
        assert_eq!(id("").unwrap(), None);
        let several = id("chat").unwrap_err().to_string();
        assert_eq!(several, "`chat` could be “The cat” (chat-1), “The dog” (chat-12)");
    }

    #[test]
    fn inner_names_say_what_they_hold() {
        assert_eq!(label("__prefix__:helper"), "prefix of profile helper");
        assert_eq!(label("__learned__:0a"), "learned prefix 0a");
        assert_eq!(label("__key__:v5:a"), "cache key v5:a");
        assert_eq!(label("room-1"), "room-1");
    }
}
