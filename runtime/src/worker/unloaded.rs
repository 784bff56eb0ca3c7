//! Serves commands while the weights are not in memory. An answer, a speculative prefill, an
//! embedding or `Load` wakes the engine; a prewarm does not.

use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use hob_slots::SlotId;

use super::Core;
use super::status::base_status;
use crate::adapters::Adapters;
use crate::command::{Command, Reply};
use crate::heartbeat::Activity;
use crate::map::{Origins, Reading, SlotReading};
use crate::status::{EngineStatus, Residency, SlotState, SlotStatus};
use crate::turn::TurnError;

/// Why the engine stops serving without weights.
pub(crate) enum Wake {
    /// This command needs the weights.
    By(Command),
    /// The weights are to be dropped, if they are in memory without a context. Replies whether they are gone.
    ToDrop(Reply<bool>),
    ToStop,
}

/// Serves what needs no weights, until a command does.
pub(crate) fn serve_unloaded(core: &mut Core, inbox: &Receiver<Command>) -> Wake {
    loop {
        core.pulse.begin(Activity::Waiting);
        let Ok(command) = inbox.recv() else { return Wake::ToStop };
        core.pulse.begin(Activity::Computing);
        match command {
            Command::Turn(turn) if turn.request.purpose.is_prefix() => {
                refuse(core, Command::Turn(turn), TurnError::NotResident);
            }
            Command::Turn(_) | Command::Embed { .. } | Command::Load(_) => {
                return Wake::By(command);
            }
            Command::Stop => return Wake::ToStop,
            Command::Fetched { .. }
            | Command::Room
            | Command::Dropped
            | Command::CalledTools(_) => {}
            Command::Park { done, .. } => done.send(()),
            Command::Forget { conversation, done } => {
                core.change_log.forget(&conversation);
                core.change_log.notify();
                core.forget(&conversation, |removed| done.send(removed));
            }
            Command::SetClass { done, .. } => done.send(false),
            Command::Status(reply) => reply.send(status(core)),
            Command::Cells(reply) => reply.send(cells(core)),
            Command::UnnamedTokens { reply, .. } => reply.send(Vec::new()),
            Command::Save { done, .. } | Command::Settle(done) => {
                core.when_flushed(move || done.send(()))
            }
            Command::Unload(done) => return Wake::ToDrop(done),
        }
    }
}

/// Answers `command` with an error, if it expects an answer.
pub(crate) fn refuse(core: &Core, command: Command, error: TurnError) {
    match command {
        Command::Turn(turn) => {
            core.waiting.fetch_sub(1, Ordering::AcqRel);
            turn.events.fail(error);
        }
        Command::Embed { reply, .. } => reply.send(Err(error)),
        Command::Load(reply) => reply.send(Err(error)),
        _ => {}
    }
}

pub(crate) fn status(core: &Core) -> EngineStatus {
    let options = &core.options;
    let mut free = (0..).map(|slot| SlotStatus {
        slot: SlotId(slot),
        conversation: None,
        adapters: Adapters::default(),
        tokens: 0,
        away_tokens: 0,
        state: SlotState::Free,
    });
    let slots = free.by_ref().take(options.slots).collect();
    EngineStatus {
        slots,
        prefixes: free.take(options.prefixes).collect(),
        residency: Residency::Unloaded,
        ..base_status(core)
    }
}

fn cells(core: &Core) -> Reading {
    let Core { options, change_log, .. } = core;
    let slots = (0..options.slots + options.prefixes).map(|index| SlotReading {
        slot: SlotId(u32::try_from(index).expect("slots are few")),
        prefix: index >= options.slots,
        conversation: None,
        state: SlotState::Free,
        prompt_tokens: None,
        blocks: Vec::new(),
        away: Vec::new(),
        origins: Origins::default(),
        segments: Vec::new(),
    });
    Reading { used_tokens: 0, slots: slots.collect(), left: change_log.evictions() }
}
