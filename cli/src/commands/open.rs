//! `hob open`
//!
//! - The token goes to the browser in a file that only its owner reads, never on a command line, which
//!   every user of the machine may see.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;

const FILE: &str = "open.html";

/// Open the page of the daemon in the browser, signed in
#[derive(clap::Args)]
pub struct Args {
    /// Print the address instead, with the token in it
    #[arg(long)]
    print: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let client = Client::find(context)?;
    let page = client.page();
    if context.json {
        return context.write_json(&serde_json::json!({ "page": page }));
    }
    if args.print {
        return Ok(writeln!(context.out, "{page}")?);
    }
    client.get("/health")?; // Better a sentence here than a browser that finds nobody.
    let file = leave(&context.settings.data_dir, &page)?;
    match open::that_detached(&file) {
        Ok(()) => Ok(writeln!(context.out, "opened http://{} in the browser", client.address())?),
        Err(_) => {
            let told = "no browser can be opened here; `hob open --print` prints the address";
            Ok(writeln!(context.out, "{told}")?)
        }
    }
}

/// Writes the file that leads to the page.
fn leave(data_dir: &Path, page: &str) -> std::io::Result<PathBuf> {
    let path = data_dir.join(FILE);
    // Made anew, so that nobody holds an older one open.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&path)?;
    writeln!(
        file,
        "<!doctype html><title>Hob</title><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0; url={page}\"><a href=\"{page}\">Hob</a>"
    )?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_to_the_page_is_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        for token in ["one", "two"] {
            let page = format!("http://127.0.0.1:1/#token={token}");
            let path = leave(dir.path(), &page).unwrap();
            assert!(fs::read_to_string(&path).unwrap().contains(&format!("url={page}\"")));
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            }
        }
    }
}
