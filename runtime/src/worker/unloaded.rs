//! What is done while the weights are away: whatever needs no cells. Who speaks, or is about to, wakes
//! the engine; what nobody waits for does not.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use hob_slots::SlotId;

use super::{Command, Core, reading};
use crate::map::{Origins, Reading, SlotReading};
use crate::status::{EngineStatus, Residency, SlotState, SlotStatus};
use crate::turn::{TurnError, TurnEvent};

/// Why a dormant engine wakes.
pub(crate) enum Wake {
    /// For this.
    By(Command),
    /// To stop.
    ToStop,
}

/// Serves what needs no weights, until something does.
pub(crate) fn serve_unloaded(core: &Core, inbox: &Receiver<Command>) -> Wake {
    while let Ok(command) = inbox.recv() {
        match command {
            Command::Turn(turn) if turn.request.purpose.is_prefix() => {
                refuse(core, Command::Turn(turn), TurnError::NotResident);
            }
            Command::Turn(_) | Command::Embed { .. } | Command::Load => return Wake::By(command),
            Command::Stop => return Wake::ToStop,
            Command::Fetched { .. } | Command::Room => {}
            // Replies. An error: the caller went away.
            Command::Park { done, .. } => done.send(()).unwrap_or(()),
            Command::Forget { conversation, done } => {
                core.tiers.forget(&conversation, Vec::new());
                done.send(()).unwrap_or(());
            }
            Command::Sweep(sweep) => core.tiers.sweep(BTreeSet::new(), *sweep),
            Command::Maintain(tending) => core.tiers.maintain(BTreeSet::new(), tending),
            Command::Status(reply) => drop(reply.send(status(core))),
            Command::Cells(reply) => drop(reply.send(cells(core))),
            Command::Unload(done) => drop(done.send(true)),
        }
    }
    Wake::ToStop
}

/// Tells whoever waits for `command` that it will not be done.
pub(crate) fn refuse(core: &Core, command: Command, error: TurnError) {
    match command {
        Command::Turn(turn) => {
            core.waiting.fetch_sub(1, Ordering::AcqRel);
            turn.events.send(TurnEvent::Failed(error)).ok(); // An error: the caller went away.
        }
        Command::Embed { reply, .. } => drop(reply.send(Err(error))), // As above.
        _ => {}
    }
}

pub(crate) fn status(core: &Core) -> EngineStatus {
    let Core { tiers, options, pace, counters, .. } = core;
    let mut free = (0..).map(|slot| SlotStatus {
        slot: SlotId(slot),
        conversation: None,
        tokens: 0,
        state: SlotState::Free,
    });
    let slots = free.by_ref().take(options.slots).collect();
    EngineStatus {
        slots,
        prefixes: free.take(options.prefixes).collect(),
        parked: tiers.known_conversations(),
        residency: Residency::Unloaded,
        ..reading(tiers, options, pace, *counters)
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
        origins: Origins::default(),
        segments: Vec::new(),
    });
    Reading { used_tokens: 0, slots: slots.collect(), left: change_log.left() }
}
