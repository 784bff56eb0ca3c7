//! `hob doctor`
//!
//! - Every check prints what it found and, when something is wrong, the remedy. None changes anything.
//! - A stopped daemon is a notice; a token that others can read is a failure.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use hob_api::status::Upstream;
use hob_api::{Build, Status, Text};
use hob_config::{GpuLayers, Key, ModelChoice, paths};
use hob_models::{ModelFile, discover};
use hob_slots::store::files::free_bytes;
use hob_slots::{Miss, Rejected};
use serde::Serialize;

use super::slots::{no_room, saved};
use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{
    conversations, counted, device_words, layer_words, plain, shell_word, size, wrapped,
};

const MIN_FREE_DISK_BYTES: u64 = 1 << 30;

/// The time for the daemon's status, which it sends within milliseconds unless it hangs.
const PATIENCE: Duration = Duration::from_secs(2);

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// In front of what a check has found.
const INDENT: usize = 23;
/// What it has found is no narrower, however narrow the terminal is.
const MIN_TEXT_WIDTH: usize = 20;

/// Check directories, permissions, model, disk and daemon
#[derive(clap::Args)]
pub struct Args {}

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    found: String,
    remedy: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Good,
    Notice,
    Bad,
}

pub fn run(_: &Args, context: &mut Context) -> Result<(), Failure> {
    let settings = &context.settings;
    let answer = Client::find_within(context, Some(PATIENCE)).and_then(|client| {
        let status = client.status()?;
        Ok((client.address().to_owned(), status))
    });
    let status = answer.as_ref().ok().map(|(_, status)| status);
    let checks = [
        configuration(context),
        directory("data directory", &settings.data_dir, Key::DataDir),
        directory("slots directory", &settings.slots_dir, Key::SlotsDir),
        saved_kv(context),
        disk(context),
        token(&settings.token_file),
        model(context, status),
        daemon(&answer, context),
        processor(status),
        devices(status, settings.gpu_layers),
    ];
    if context.json {
        context.write_json(&checks)?;
    } else {
        checks.iter().try_for_each(|check| write(check, context))?;
    }
    let bad = checks.iter().filter(|check| check.state == State::Bad).count();
    match bad {
        0 => Ok(()),
        1 => Err(Failure::Unhealthy("1 check failed".to_owned())),
        _ => Err(Failure::Unhealthy(format!("{bad} checks failed"))),
    }
}

fn write(check: &Check, context: &mut Context) -> Result<(), Failure> {
    let mark = match check.state {
        State::Good => "ok",
        State::Notice => "note",
        State::Bad => "BAD",
    };
    let width = context.columns().map(|columns| columns.saturating_sub(INDENT).max(MIN_TEXT_WIDTH));
    let mut head = format!("{mark:<5} {:<16} ", check.name);
    for text in [Some(&check.found), check.remedy.as_ref()].into_iter().flatten() {
        for line in wrapped(&plain(text), width).lines() {
            writeln!(context.out, "{head}{}", line.trim_end())?;
            head = " ".repeat(INDENT);
        }
    }
    Ok(())
}

impl Check {
    fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Good, found: found.into(), remedy: None }
    }

    fn notice(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, state: State::Notice, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn bad(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, state: State::Bad, found: found.into(), remedy: Some(remedy.into()) }
    }
}

/// Names the configuration file. Wrong settings have ended the program before any check.
fn configuration(context: &Context) -> Check {
    let file = &context.resolved.entries[Key::Config as usize].value;
    let found = match file.as_str() {
        Some(path) => path.to_owned(),
        None => format!("no file at {}", context.resolved.user_dirs.config_file().display()),
    };
    Check::good("configuration", found)
}

fn directory(name: &'static str, path: &Path, key: Key) -> Check {
    let shown = path.display();
    let remedy = format!("make it writable, or choose another with --{}", key.flag());
    let facts = match fs::metadata(path) {
        Ok(facts) => facts,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Check::good(name, format!("{shown} (created on first use)"));
        }
        Err(error) => return Check::bad(name, format!("{shown}: {error}"), remedy),
    };
    if !facts.is_dir() {
        return Check::bad(name, format!("{shown} is not a directory"), remedy);
    }
    if !is_writable(path) {
        return Check::bad(name, format!("{shown} is not writable"), remedy);
    }
    if open_to_others(&facts) {
        let found = format!("{shown} can be read by other users");
        return Check::notice(name, found, format!("chmod 700 {}", shell_word(&shown.to_string())));
    }
    Check::good(name, shown.to_string())
}

fn saved_kv(context: &Context) -> Check {
    let name = "saved KV";
    if !context.settings.slots_dir.exists() {
        return Check::good(name, "nothing yet");
    }
    match saved(context) {
        Err(error) => {
            let remedy = "check the permissions of the directory, and the key in slots_key_file";
            Check::bad(name, error.to_string(), remedy)
        }
        Ok(listing) if !listing.rejected.is_empty() && listing.rejected.iter().all(is_later) => {
            let later = counted(listing.rejected.len(), "slot file");
            Check::notice(
                name,
                format!(
                    "{}; {later} of a later version of Hob",
                    conversations(listing.slots.len())
                ),
                "that version reads them; until they expire, older KV that no other conversation needs stays on \
                 disk: `hob slots ls` lists them, `hob slots rm` removes them",
            )
        }
        Ok(listing) if !listing.rejected.is_empty() => Check::notice(
            name,
            format!(
                "{}; {} cannot be used",
                conversations(listing.slots.len()),
                counted(listing.rejected.len(), "file")
            ),
            "no text is lost, their tokens are computed again: `hob slots ls` lists them, the daemon \
             quarantines them",
        ),
        Ok(listing) => Check::good(name, conversations(listing.slots.len())),
    }
}

fn is_later(file: &Rejected) -> bool {
    matches!(file.miss, Miss::Newer { .. })
}

fn disk(context: &Context) -> Check {
    let (name, dir) = ("disk space", &*context.settings.slots_dir);
    let existing = dir.ancestors().find(|path| path.exists()).unwrap_or(dir);
    let free_bytes = free_bytes(existing).ok();
    match free_bytes {
        None => {
            Check::notice(name, "unknown on this system", "make sure that there is room for KV")
        }
        Some(bytes) if bytes < MIN_FREE_DISK_BYTES => Check::notice(
            name,
            format!("{} free at {}", size(bytes), existing.display()),
            "`hob slots prune` frees some",
        ),
        Some(bytes) => {
            let found = format!("{} free", size(bytes));
            match no_room(context) {
                Some(no_room) => Check::notice(name, found, no_room.to_string()),
                None => Check::good(name, found),
            }
        }
    }
}

fn token(path: &Path) -> Check {
    let name = "token file";
    let shown = path.display();
    match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Check::good(name, format!("{shown} (created on first start)"))
        }
        Err(error) => Check::bad(name, format!("{shown}: {error}"), "check its permissions"),
        Ok(facts) if open_to_others(&facts) => Check::bad(
            name,
            format!("{shown} can be read by other users"),
            format!(
                "chmod 600 {}; delete it and restart hobd for a new token",
                shell_word(&shown.to_string())
            ),
        ),
        Ok(facts) if facts.len() == 0 => {
            Check::bad(name, format!("{shown} is empty"), "delete it and restart hobd")
        }
        Ok(_) => Check::good(name, shown.to_string()),
    }
}

fn model(context: &Context, status: Option<&Status>) -> Check {
    let check = "model";
    if let Some(Upstream { url, error, .. }) = status.and_then(|status| status.upstream.as_ref()) {
        let found = format!("that of the upstream {}", plain(url));
        return match error {
            Some(error) => Check::notice(check, found, plain(error)),
            None => Check::good(check, found),
        };
    }
    let ModelChoice::Named(name) = &context.settings.model else {
        return Check::good(check, "the bundled model");
    };
    let found = |model: ModelFile| {
        let architecture = &model.summary.architecture;
        let size = size(model.size_bytes);
        Check::good(check, format!("{} ({architecture}, {size})", model.path.display()))
    };
    match hob_models::resolve(name, || discover(&context.roots)) {
        Ok(model) => found(model),
        Err(error) => Check::bad(check, error.to_string(), "set `model` to one of `hob models`"),
    }
}

/// `answer`: the address of the daemon and its status.
fn daemon(answer: &Result<(String, Status), Failure>, context: &Context) -> Check {
    let name = "daemon";
    match answer {
        Ok((address, status)) => {
            let model = if status.model.is_empty() { "a model" } else { &status.model };
            let found = format!("answers at {address} with {model}");
            let version = &*status.version;
            match (status.crashes, &status.crash) {
                (0, _) if !version.is_empty() && version != VERSION => {
                    let found = format!("{found}; it is hobd {version}, and this is hob {VERSION}");
                    Check::notice(name, found, "restart hobd: it may be from before an update")
                }
                (0, _) => Check::good(name, found),
                (crashes, reason) => {
                    let times =
                        if crashes == 1 { "once".into() } else { format!("{crashes} times") };
                    let reason =
                        reason.as_ref().map(|it| format!(", last: {it}")).unwrap_or_default();
                    let found = format!("{found}; it crashed {times} and started again{reason}");
                    Check::notice(name, found, "its log says more; please report it")
                }
            }
        }
        Err(failure @ Failure::NotRunning { .. }) => {
            let left = paths::daemon_file(&context.settings.data_dir).exists();
            let found = if left { "ended unexpectedly" } else { "does not run" };
            Check::notice(name, found, failure.to_string())
        }
        Err(failure) => {
            let remedy = match failure {
                Failure::Token { .. } | Failure::Refused { status: 401, .. } => {
                    "name the token file of this daemon with --token-file"
                }
                Failure::Refused { status: 503, .. } => "wait until it has done its work",
                _ => "restart hobd",
            };
            Check::bad(name, failure.to_string(), remedy)
        }
    }
}

/// Only the daemon knows: this program is built without llama.cpp.
const UNKNOWN: &str = "known while hobd runs";

fn processor(status: Option<&Status>) -> Check {
    let name = "processor";
    let Some(Build { processor, unused, .. }) = status.map(|status| &status.build) else {
        return Check::good(name, UNKNOWN);
    };
    if processor.is_empty() {
        return Check::good(name, "hobd does not say what it uses of it");
    }
    let used = format!("used: {}", plain(&processor.join(", ")));
    if unused.is_empty() {
        return Check::good(name, used);
    }
    let found = format!("{used}; not used: {}", plain(&unused.join(", ")));
    Check::notice(name, found, "`cargo xtask run --native` builds for this processor alone")
}

fn devices(status: Option<&Status>, layers: GpuLayers) -> Check {
    let name = "devices";
    let Some(status) = status else { return Check::good(name, UNKNOWN) };
    let found: Vec<_> = status.devices.iter().map(device_words).collect();
    match (found.is_empty(), &status.offload) {
        (true, _) => without_device(&status.build.backends, layers, has_card()),
        (false, Some(offload)) => {
            Check::good(name, format!("{}; {}", found.join("; "), layer_words(offload)))
        }
        (false, None) => {
            let found = format!("{}; the model has no layer there", found.join("; "));
            if layers == GpuLayers::Count(0) {
                return Check::good(name, found);
            }
            Check::notice(name, found, "hobd's log says why: mostly too little free memory")
        }
    }
}

/// hobd finds none. `backends`: those for devices that it has; `has_card`: whether this machine has a graphics card.
fn without_device(backends: &[Text], layers: GpuLayers, has_card: bool) -> Check {
    let (name, found) = ("devices", "the processor alone");
    if !has_card || layers == GpuLayers::Count(0) {
        return Check::good(name, found);
    }
    if backends.is_empty() {
        return Check::notice(
            name,
            format!("{found}: a graphics card is here, and this hobd is built for none"),
            "`cargo xtask run` builds for it, or says what is missing for that",
        );
    }
    Check::notice(
        name,
        format!(
            "{found}: a graphics card is here, and none answers by {}, for which this hobd is built",
            plain(&backends.join(" or "))
        ),
        "see the card's driver; `cargo xtask run` says what it would build for",
    )
}

/// What Linux shows of a graphics card or unit: a render node, NVIDIA's driver, or the card of Windows below WSL.
fn has_card() -> bool {
    let nodes = fs::read_dir("/dev/dri").into_iter().flatten().flatten();
    let mut nodes = nodes.map(|node| node.file_name());
    nodes.any(|name| name.to_string_lossy().starts_with("renderD"))
        || ["/dev/nvidiactl", "/dev/dxg"].iter().any(|path| Path::new(path).exists())
}

fn is_writable(path: &Path) -> bool {
    let wanted = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(path, wanted).is_ok()
}

fn open_to_others(facts: &fs::Metadata) -> bool {
    facts.permissions().mode() & 0o077 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_others_can_read_is_bad() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my token");
        assert_eq!(token(&path).state, State::Good, "hobd creates it");
        fs::write(&path, "secret").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let check = token(&path);
        assert_eq!(check.state, State::Bad);
        let remedy = check.remedy.unwrap();
        assert!(remedy.starts_with(&format!("chmod 600 '{}';", path.display())), "{remedy}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(token(&path).state, State::Good);
    }

    #[test]
    fn a_card_that_hobd_does_not_use_is_a_notice_with_the_remedy() {
        let check = |backends: &[&'static str], layers, has_card| {
            let backends: Vec<Text> = backends.iter().map(|&name| name.into()).collect();
            without_device(&backends, layers, has_card)
        };
        let said = |check: Check| {
            assert_eq!(check.state, State::Notice, "{check:?}");
            format!("{} {}", check.found, check.remedy.unwrap_or_default())
        };
        let built_for_none = said(check(&[], GpuLayers::Auto, true));
        assert!(built_for_none.contains("built for none `cargo xtask run`"), "{built_for_none}");
        let silent = said(check(&["cuda", "vulkan"], GpuLayers::Count(9), true));
        assert!(silent.contains("cuda or vulkan") && silent.contains("driver"), "{silent}");
        for (layers, has_card) in [(GpuLayers::Auto, false), (GpuLayers::Count(0), true)] {
            assert_eq!(check(&[], layers, has_card).state, State::Good, "{layers:?}");
        }
    }

    #[test]
    fn a_directory_that_is_a_file_is_bad() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slots");
        fs::write(&path, "").unwrap();
        assert_eq!(directory("slots directory", &path, Key::SlotsDir).state, State::Bad);
    }
}
