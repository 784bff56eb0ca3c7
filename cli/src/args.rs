//! The command line. Flags that are settings come from `hob-config`'s table.

use clap::{Parser, Subcommand};
use hob_config::{ClientFlags, Flags};

use crate::commands::{
    ask, chat, completions, config, conversations, doctor, documents, explain, import, man, models,
    open, prefixes, settings, simulate, slots, status, verify_correctness,
};
use crate::exit;

/// Chat with a local model whose KV cache survives restarts, and manage the saved KV.
#[derive(Parser)]
#[command(name = "hob", version, propagate_version = true)]
#[command(max_term_width = 100, after_help = exit::HELP)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,

    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub json: bool,

    #[command(flatten)]
    pub settings: ClientFlags,
}

#[derive(Subcommand)]
pub enum Command {
    Chat(chat::Args),
    Ask(ask::Args),
    Open(open::Args),
    Conversations(conversations::Args),
    Documents(documents::Args),
    Import(import::Args),
    Explain(explain::Args),
    Slots(slots::Args),
    Prefixes(prefixes::Args),
    Models(models::Args),
    Status(status::Args),
    #[command(hide = true)]
    Simulate(simulate::Args),
    VerifyCorrectness(verify_correctness::Args),
    Doctor(doctor::Args),
    Config(config::Args),
    Settings(settings::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    /// Passes on the flags of a subcommand that are settings too.
    pub fn set_flags(&self, flags: &mut Flags) {
        if let Self::Models(args) = self {
            args.set_flags(flags);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
