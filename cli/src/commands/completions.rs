//! `hob completions SHELL`

use std::io;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::failure::Failure;

/// Print the completion script of a shell
#[derive(clap::Args)]
pub struct Args {
    /// The name of the shell
    shell: Shell,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::args::Args::command(), "hob", &mut script);
    Ok(io::Write::write_all(&mut io::stdout(), &script)?)
}
