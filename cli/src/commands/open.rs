//! `hob open`
//!
//! - The browser gets the token in a file that only its owner can read: every user of the machine could
//!   read it on a command line.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;

const FILE: &str = "open.html";

/// Open the daemon's page in the browser, signed in
#[derive(clap::Args)]
pub struct Args {
    /// Print the address, which contains the token, instead
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
    client.get::<serde_json::Value>("/health")?; // Fails here rather than in the browser.
    let file = context.settings.data_dir.join(FILE);
    let failed = |source| Failure::File { doing: "write", path: file.clone(), source };
    write_redirect(&file, &page).map_err(failed)?;
    match open::that_detached(&file) {
        Ok(()) => Ok(writeln!(context.out, "opened http://{} in the browser", client.address())?),
        Err(_) => Err(Failure::NoBrowser),
    }
}

/// Writes the HTML file that redirects to the page.
fn write_redirect(path: &Path, page: &str) -> std::io::Result<()> {
    // A new file: a process that holds the old one open must not read this token.
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    writeln!(
        file,
        "<!doctype html><title>Hob</title><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0; url={page}\"><a href=\"{page}\">Hob</a>"
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_redirect_is_readable_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        for token in ["one", "two"] {
            let page = format!("http://127.0.0.1:1/#token={token}");
            let path = dir.path().join(FILE);
            write_redirect(&path, &page).unwrap();
            assert!(fs::read_to_string(&path).unwrap().contains(&format!("url={page}\"")));
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
