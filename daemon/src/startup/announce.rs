//! Announces the daemon: to clients by files, to people on the terminal.

use std::io::{self, IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hob_config::{RunningDaemon, Settings};

use crate::auth::AccessToken;

/// Writes the description that clients read, and the ready file.
pub fn begin(running: &RunningDaemon, settings: &Settings) -> Result<()> {
    let running = for_clients(running);
    running
        .write(&settings.data_dir)
        .with_context(|| format!("cannot write to {}", settings.data_dir.display()))?;
    if let Some(path) = &settings.ready_file {
        running.write_line(path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Removes the description. The ready file stays: it belongs to the caller that asked for it.
pub fn end(running: &RunningDaemon, settings: &Settings) {
    if let Err(error) = running.remove(&settings.data_dir) {
        tracing::warn!(%error, "cannot remove the description of this daemon");
    }
}

/// The path for a client, whose working directory may be another.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// With the address by which clients of this machine reach it. Browsers do not take a page at `0.0.0.0` for one of this
/// machine: they open no microphone for it, and some do not open the page.
fn for_clients(running: &RunningDaemon) -> RunningDaemon {
    let ip: IpAddr = match running.address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    RunningDaemon { address: SocketAddr::new(ip, running.address.port()), ..running.clone() }
}

/// Prints the address and what hobd does there, such as `serves qwen3`, on standard error; with `hints`, also commands
/// to paste. The signed-in address has the token: it is printed on a terminal only, and never into a log.
pub fn print(running: &RunningDaemon, token: &AccessToken, what: &str, hints: Option<&Hints>) {
    let running = &for_clients(running);
    let mut lines = vec![format!("hobd {what} at {}", running.url())];
    if let Some(hints) = hints {
        let signed = io::stderr().is_terminal().then_some(token);
        lines.push(format!("\n{}\n", hints.first_steps(running, signed)));
    }
    lines.push(format!("token file: {}", running.token_file.display()));
    if hints.is_some() {
        lines.push(format!("\n{}", curl(running)));
    }
    // An error: the terminal was closed, or the disk of the log is full. Clients read the files.
    writeln!(io::stderr(), "{}", lines.join("\n")).ok();
}

/// Commands to paste.
pub struct Hints {
    /// The data directory, where `hob` would not look by itself.
    pub data_dir: Option<PathBuf>,
}

impl Hints {
    /// The page first: most people want it.
    fn first_steps(&self, running: &RunningDaemon, signed: Option<&AccessToken>) -> String {
        let at = match &self.data_dir {
            // It has the address and the token.
            Some(data_dir) => format!("--data-dir {}", quoted(data_dir)),
            None => format!("--address {}", running.address),
        };
        let page = match signed {
            Some(token) => format!("Open in a browser, signed in: {}", page(running, token)),
            None => format!("hob open {at}"),
        };
        format!("{page}\nhob chat {at}")
    }
}

fn page(running: &RunningDaemon, token: &AccessToken) -> String {
    format!("{}/#token={}", running.url(), token.secret())
}

fn curl(running: &RunningDaemon) -> String {
    let body = r#"{"conversation": "hello", "messages": [{"role": "user", "content": "Hello"}]}"#;
    format!(
        "curl {}/v1/chat/completions -H \"Authorization: Bearer $(cat {})\" \
         -H 'Content-Type: application/json' -d '{body}'",
        running.url(),
        quoted(&running.token_file),
    )
}

/// Quoted for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_quotes_can_be_pasted() {
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }

    fn running(address: &str) -> RunningDaemon {
        RunningDaemon {
            address: address.parse().unwrap(),
            token_file: "/d/token".into(),
            pid: 7,
            model: "fake".into(),
            fingerprint: "0123456789abcdef".into(),
            slots_dir: "/d/slots".into(),
        }
    }

    #[test]
    fn a_daemon_that_listens_everywhere_is_announced_at_the_address_of_this_machine() {
        for (listens, announced) in [
            ("0.0.0.0:8642", "127.0.0.1:8642"),
            ("[::]:8642", "[::1]:8642"),
            ("192.0.2.7:8642", "192.0.2.7:8642"),
        ] {
            assert_eq!(for_clients(&running(listens)).address.to_string(), announced);
        }
    }

    #[test]
    fn the_page_comes_first_signed_in_on_a_terminal_and_without_the_token_elsewhere() {
        let running = running("127.0.0.1:8642");
        let token = AccessToken::new("secret");
        let hints = Hints { data_dir: None };
        let first = |signed| hints.first_steps(&running, signed).lines().next().unwrap().to_owned();
        assert!(first(Some(&token)).ends_with("http://127.0.0.1:8642/#token=secret"));
        assert_eq!(first(None), "hob open --address 127.0.0.1:8642");
        let elsewhere = Hints { data_dir: Some("/my data".into()) };
        let commands = "hob open --data-dir '/my data'\nhob chat --data-dir '/my data'";
        assert_eq!(elsewhere.first_steps(&running, None), commands);
        assert!(!curl(&running).contains("secret"));
    }
}
