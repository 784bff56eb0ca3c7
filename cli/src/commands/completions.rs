//! `hob completions SHELL`

use std::io;

use clap_complete::Shell;

use crate::failure::Failure;

/// Print the completion script of a shell
#[derive(clap::Args)]
pub struct Args {
    /// The name of the shell
    shell: Shell,
}

pub fn run(args: &Args, mut hob: clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut hob, "hob", &mut script);
    Ok(io::Write::write_all(&mut io::stdout(), &script)?)
}
