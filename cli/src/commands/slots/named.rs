//! The saved conversations by the names that a user types, see [`names`].

use hob_slots::{ConversationId, Miss, StoreReader};

use super::{dir, live, ls};
use crate::context::Context;
use crate::failure::Failure;
use crate::names::{self, Candidate};

/// The conversation that `name` means; a whole id needs no saved KV.
pub fn one(reader: &StoreReader, name: &str, context: &Context) -> Result<ConversationId, Failure> {
    let absent = || dir::absent(name, context);
    if let Ok(id) = ConversationId::new(name) {
        for model in reader.models()? {
            if !matches!(reader.get_slot(model, &id), Err(Miss::Absent)) {
                return Ok(id);
            }
        }
    }
    match names::find(&saved(reader, context)?, name)? {
        Some(known) => ConversationId::new(&known.id).map_err(|_| absent()),
        None => ConversationId::new(name).map_err(|_| absent()),
    }
}

/// The ids that the names mean; a name that means none stays as it is.
pub fn ids(names: &[String], context: &Context) -> Result<Vec<String>, Failure> {
    let Some(reader) = dir::reader(context)? else { return Ok(names.to_vec()) };
    let id = |name: &String| match one(&reader, name, context) {
        Ok(id) => Ok(id.as_str().to_owned()),
        Err(Failure::NotFound(_)) => Ok(name.clone()),
        Err(failure) => Err(failure),
    };
    names.iter().map(id).collect()
}

/// The most recently used conversation that has saved KV.
pub fn last(reader: &StoreReader, context: &Context) -> Result<ConversationId, Failure> {
    let slots = ls::contents(reader, None)?.slots.into_iter().map(|slot| slot.entry);
    let used = slots.filter(|entry| !entry.conversation.is_reserved());
    let last = used.max_by_key(|entry| entry.used_at).map(|entry| entry.conversation);
    last.ok_or_else(|| dir::empty(context))
}

fn saved(reader: &StoreReader, context: &Context) -> Result<Vec<Candidate>, Failure> {
    let titles = live::titles(&context.settings);
    let slots = ls::contents(reader, None)?.slots.into_iter();
    let mut ids: Vec<_> = slots.map(|slot| slot.entry.conversation.as_str().to_owned()).collect();
    ids.sort();
    ids.dedup();
    let known = |id: String| Candidate { title: titles.get(&id).cloned(), id };
    Ok(ids.into_iter().map(known).collect())
}
