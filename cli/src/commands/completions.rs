//! `hob completions SHELL`

use std::io;

use clap_complete::Shell;

use crate::failure::Failure;

const INSTALL: &str = "\
To install it:
  bash  echo 'source <(hob completions bash)' >> ~/.bashrc
  zsh   hob completions zsh > DIR/_hob, where DIR is in $fpath
  fish  hob completions fish > ~/.config/fish/completions/hob.fish";

/// Print the completion script of a shell
#[derive(clap::Args)]
#[command(after_help = INSTALL)]
pub struct Args {
    /// The name of the shell
    shell: Shell,
}

pub fn run(args: &Args, mut hob: clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut hob, "hob", &mut script);
    Ok(io::Write::write_all(&mut io::stdout(), &script)?)
}
