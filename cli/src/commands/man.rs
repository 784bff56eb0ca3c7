//! `hob man`

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap_mangen::Man;

use crate::failure::Failure;

/// Print the manual page
#[derive(clap::Args)]
pub struct Args {
    /// Write the pages of all commands to this directory instead
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn run(args: &Args, hob: clap::Command) -> Result<(), Failure> {
    match &args.dir {
        None => {
            let mut page = Vec::new();
            Man::new(hob).render(&mut page)?;
            Ok(io::stdout().write_all(&page)?)
        }
        Some(dir) => {
            let failed = |source| Failure::File { doing: "write", path: dir.clone(), source };
            fs::create_dir_all(dir).map_err(failed)?;
            clap_mangen::generate_to(hob, dir).map_err(failed)
        }
    }
}
