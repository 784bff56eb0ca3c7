//! What the exit code of `hob` means.

/// Every exit code, as scripts see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Something else went wrong.
    Failure = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// No daemon answers.
    NotRunning = 3,
    /// There is no conversation, slot file or model of that name.
    NotFound = 4,
    /// A file is damaged.
    Damaged = 5,
    /// Somebody else is using it, or the daemon has too much to do.
    Busy = 6,
    /// The daemon refuses the request or the token, or an archive is for another model.
    Refused = 7,
}

/// The table at the end of `--help`.
pub const HELP: &str = "\
Exit codes:
  0  done
  1  something else went wrong
  2  the command line or the configuration is wrong
  3  no daemon answers
  4  there is no conversation, slot file or model of that name
  5  a file is damaged
  6  somebody else is using it, or the daemon has too much to do
  7  the daemon refuses the request or the token, or an archive is for another model";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_code() {
        use Exit::{Busy, Damaged, Failure, NotFound, NotRunning, Refused, Usage};
        for exit in [Failure, Usage, NotRunning, NotFound, Damaged, Busy, Refused] {
            assert!(HELP.contains(&format!("\n  {}  ", exit as u8)), "{exit:?}");
        }
    }
}
