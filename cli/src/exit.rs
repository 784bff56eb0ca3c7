//! The exit codes of `hob`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Any other failure.
    Failure = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// No daemon answers.
    NotRunning = 3,
    /// No conversation, document, prefix, saved KV or model has that name.
    NotFound = 4,
    /// A file is damaged.
    Damaged = 5,
    /// Another process uses it, or the daemon's queue is full.
    Busy = 6,
    /// The daemon refuses the request or the token, or an archive belongs to another model.
    Refused = 7,
}

/// The end of `--help`.
pub const HELP: &str = "\
Settings are flags of every command: hob help settings

Exit codes:
  0  done
  1  any other failure
  2  the command line or the configuration is wrong
  3  no daemon answers
  4  nothing has that name: no conversation, document, prefix, KV or model
  5  a file is damaged
  6  another process uses it, or the daemon's queue is full
  7  the daemon refuses the request or the token, or an archive belongs to another model";

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
