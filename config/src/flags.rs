//! The table of settings as clap arguments.
//!
//! - [`DaemonFlags`] and [`ClientFlags`] are flattened into a program's own `Args`.
//! - Values stay text here: [`layers`](crate::layers) parses those of every layer alike.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use crate::key::{Audience, Key};
use crate::parse::Raw;

/// Settings given on the command line, or chosen as if they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags(Vec<(Key, Raw)>);

impl Flags {
    /// Sets a key as if its flag had been given.
    pub fn set(&mut self, key: Key, value: impl Into<String>) -> &mut Self {
        self.0.retain(|(known, _)| *known != key);
        self.0.push((key, Raw::Text(value.into())));
        self
    }

    pub fn get(&self, key: Key) -> Option<&Raw> {
        self.0.iter().find(|(known, _)| *known == key).map(|(_, raw)| raw)
    }

    fn read(matches: &ArgMatches, audience: Audience) -> Self {
        let given = |key: &Key| {
            let values = matches.get_many::<String>(key.name())?;
            Some((*key, values.cloned().collect::<Vec<_>>()))
        };
        let raw = |(key, mut values): (Key, Vec<String>)| {
            if key.row().is_list {
                Some((key, Raw::List(values)))
            } else {
                values.pop().map(|value| (key, Raw::Text(value)))
            }
        };
        Self(keys_for(audience).filter_map(|key| given(&key)).filter_map(raw).collect())
    }
}

/// The flags of `hobd`.
#[derive(Clone, Debug, Default)]
pub struct DaemonFlags(pub Flags);

/// The flags of `hob`, global to its subcommands.
#[derive(Clone, Debug, Default)]
pub struct ClientFlags(pub Flags);

/// The settings that `hob` takes as flags.
pub fn client_keys() -> impl Iterator<Item = Key> {
    keys_for(Audience::Client)
}

fn keys_for(audience: Audience) -> impl Iterator<Item = Key> {
    Key::all().filter(move |key| [audience, Audience::Everyone].contains(&key.row().audience))
}

fn arguments(command: Command, audience: Audience) -> Command {
    keys_for(audience).fold(command, |command, key| command.arg(argument(key, audience)))
}

fn argument(key: Key, audience: Audience) -> Arg {
    let row = key.row();
    let help = match row.default {
        "" => format!("{} [env: {}]", row.help, key.variable()),
        default => format!("{} [default: {default}] [env: {}]", row.help, key.variable()),
    };
    let action = if key.row().is_list { ArgAction::Append } else { ArgAction::Set };
    Arg::new(row.name)
        .long(key.flag())
        .value_name(row.placeholder)
        .help(help)
        .help_heading("Settings")
        .action(action)
        .global(audience == Audience::Client)
        // `hob help settings` lists them once for all commands.
        .hide(audience == Audience::Client)
}

macro_rules! clap_arguments {
    ($flags:ident, $audience:expr) => {
        impl Args for $flags {
            fn augment_args(command: Command) -> Command {
                arguments(command, $audience)
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl FromArgMatches for $flags {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
                Ok(Self(Flags::read(matches, $audience)))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }
    };
}

clap_arguments!(DaemonFlags, Audience::Daemon);
clap_arguments!(ClientFlags, Audience::Client);

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon(words: &[&str]) -> Result<Flags, Error> {
        let command = DaemonFlags::augment_args(Command::new("hobd").no_binary_name(true));
        let matches = command.try_get_matches_from(words)?;
        DaemonFlags::from_arg_matches(&matches).map(|flags| flags.0)
    }

    #[test]
    fn a_flag_is_spelled_with_dashes() {
        let flags = daemon(&["--listen", "127.0.0.1:0", "--data-dir", "/d"]).unwrap();
        assert_eq!(flags.get(Key::DataDir), Some(&Raw::Text("/d".into())));
        assert_eq!(flags.get(Key::Model), None);
    }

    #[test]
    fn the_flag_of_a_list_may_be_repeated() {
        let flags = daemon(&["--allow-host", "a", "--allow-host", "b"]).unwrap();
        assert_eq!(flags.get(Key::AllowHost), Some(&Raw::List(vec!["a".into(), "b".into()])));
    }

    #[test]
    fn the_daemon_refuses_the_flags_of_its_clients() {
        assert!(daemon(&["--address", "127.0.0.1:1"]).is_err());
    }
}
