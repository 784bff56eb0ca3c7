//! One turn of a conversation at the keyboard.
//!
//! - The daemon is found for each turn: it may have restarted at another address.
//! - A message that does not fit into the context waits in `outgrown` until there is room.

use std::io::Write;

use hob_api::Turn;
use serde_json::Value;

use super::{Chat, note, report_passing};
use crate::client::Client;
use crate::commands::turn::{self, Answer, Question};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{plain, wrapped};

const LEFT_OUT: &str = "from here on the model reads the newest part only; the text stays whole";

const GOES_ON: &str = "this chat is longer than the model can read: it goes on with its newest part, and what you \
                       ask for of the older one comes back; the text stays whole";

/// What a turn asks for. Without new messages: the last answer once more.
#[derive(Default)]
pub struct NewTurn {
    pub new: Vec<Value>,
    /// Leave out the oldest messages.
    pub newest: bool,
    /// Go on with the last answer.
    pub continues: bool,
}

impl Chat<'_> {
    /// One turn, and the offer to go on where it did not fit into the context.
    pub(super) fn say(&mut self, new_turn: NewTurn, context: &mut Context) -> Result<(), Failure> {
        let turn = self.turn(new_turn, context);
        report_passing(turn, context)?;
        if self.outgrown.is_some() {
            self.offer_room(context)?;
        }
        Ok(())
    }

    fn turn(&mut self, new_turn: NewTurn, context: &mut Context) -> Result<(), Failure> {
        let NewTurn { new, newest, continues } = new_turn;
        self.outgrown = None;
        let client = Client::find(context)?;
        let question = Question {
            messages: self.system_message().into_iter().chain(new.clone()).collect(),
            conversation: Some(&self.conversation),
            instructions: self.system.as_deref().filter(|_| !self.is_new),
            newest,
            continues,
            private: self.is_private,
            shape: &self.args.shape,
            interrupt: self.interrupt.as_ref(),
        };
        let mut answer = Answer::default();
        let asked = turn::ask(&client, &question, &mut answer, context);
        let outgrows = asked.as_ref().is_err_and(is_too_long);
        let breaks_off = asked.as_ref().is_err_and(is_broken);
        // The daemon stores the question also when the answer breaks off, or ends with an error.
        if (answer.accepted && !outgrows) || breaks_off {
            (self.is_new, self.system) = (false, None);
            if !new.is_empty() {
                self.files.clear();
            }
        }
        if outgrows && !newest {
            self.outgrown = Some(new);
        }
        asked?;
        if context.json {
            return context.write_json(&answer.to_json());
        }
        if answer.interrupted {
            writeln!(context.out)?;
            return note(context, "stopped; /continue goes on");
        }
        self.stats.add(&answer);
        let footer = wrapped(&turn::footer(&answer.hob), context.columns());
        let footer = context.dim(&footer);
        writeln!(context.out, "\n{footer}")?;
        let turn: Turn = serde_json::from_value(answer.hob).unwrap_or_default();
        if newest && turn.left_out > 0 {
            note(context, LEFT_OUT)?;
        }
        if turn.reanchored.is_some() {
            note(context, GOES_ON)?;
        }
        if turn.context_full {
            self.outgrown = Some(Vec::new());
            let why = turn.cells.and_then(|cells| cells.no_eviction);
            let why = why.map_or(String::new(), |why| {
                format!(": {}; {}", plain(&why.what), plain(&why.remedy))
            });
            note(context, &format!("the context is full, so the answer ends here{why}"))?;
        }
        Ok(context.out.flush()?)
    }
}

fn is_broken(failure: &Failure) -> bool {
    matches!(failure, Failure::BrokenAnswer(_))
}

/// Whether the conversation does not fit into the context any more.
fn is_too_long(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused { code: Some(code), .. } if code == "context_length_exceeded")
}
