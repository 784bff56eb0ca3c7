//! Chromiums that checks take one after the other: a start and an end take 3 s of the processor, a third of
//! a check.
//!
//! - A check gets a tab of its own, in front of an origin of its own (the port of its hobd). What its hobd
//!   stored in the browser, cookies and permissions go with it.
//! - A browser whose check has failed, or that cannot be cleared, ends. The others end with this program.

use std::io::{PipeReader, PipeWriter};
use std::process::Command;
use std::sync::LazyLock;
use std::thread;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::session::{Refused, Session};
use crate::tools;

/// What a Chromium cannot change once it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// `Accept-Language`.
    pub(crate) language: &'static str,
    /// Its driver logs the requests of its pages, which takes time.
    pub(crate) logs_requests: bool,
}

/// Browsers that no check uses, the latest last.
static FREE: Mutex<Vec<(Kind, Session)>> = Mutex::new(Vec::new());

/// Starts the program behind `$0`, waits until the input ends, ends all of its group, and removes the
/// directory `$0`.
const KEEPER: &str =
    r#"trap : TERM; "$@" & read -r _; kill -TERM 0; sleep 1; rm -rf -- "$0"; kill -KILL 0"#;

/// Nothing is written to it: it ends when this program has ended, which drops no [`FREE`] one.
static END: LazyLock<(PipeReader, PipeWriter)> =
    LazyLock::new(|| std::io::pipe().expect("pipes can be opened"));

/// One that was given back, or a new one.
pub(crate) fn take(kind: Kind) -> Session {
    let mut free = FREE.lock();
    let at = free.iter().rposition(|(its, _)| *its == kind);
    let taken = at.map(|at| free.remove(at).1);
    drop(free);
    taken.unwrap_or_else(|| start(kind))
}

/// Clears it for another check.
pub(crate) fn give_back(kind: Kind, session: Session) {
    if clear(&session).is_err() {
        return; // It ends.
    }
    // Checks run on as many threads: more would only take memory.
    let most = thread::available_parallelism().map_or(1, usize::from);
    let mut free = FREE.lock();
    free.push((kind, session));
    let oldest = (free.len() > most).then(|| free.remove(0));
    drop(free);
    drop(oldest);
}

/// Leaves a new tab alone.
fn clear(session: &Session) -> Result<(), Refused> {
    session.cdp("Storage.clearDataForOrigin", &json!({"origin": "*", "storageTypes": "all"}))?;
    session.cdp("Network.clearBrowserCookies", &json!({}))?;
    session.cdp("Network.clearBrowserCache", &json!({}))?;
    session.cdp("Browser.resetPermissions", &json!({}))?;
    let open = session.command("window/handles", None)?;
    let tab = session.wait(|client| async move { client.new_window(true).await })?;
    for handle in open.as_array().into_iter().flatten() {
        session.command("window", Some(json!({"handle": handle})))?;
        session.wait(|client| async move { client.close_window().await })?;
    }
    session.command("window", Some(json!({"handle": String::from(tab.handle)})))?;
    for log in ["browser", "performance"] {
        session.command("se/log", Some(json!({"type": log}))).ok();
    }
    Ok(())
}

fn start(kind: Kind) -> Session {
    let home = tempfile::tempdir().expect("there is room for temporary files");
    let mut arguments = vec![
        "--headless=new".to_owned(),
        "--disable-gpu".to_owned(),
        "--disable-dev-shm-usage".to_owned(),
        "--no-first-run".to_owned(),
        "--disable-background-networking".to_owned(),
        "--disable-component-update".to_owned(),
        "--disable-sync".to_owned(),
        "--force-color-profile=srgb".to_owned(),
        "--use-fake-device-for-media-stream".to_owned(),
        "--use-fake-ui-for-media-stream".to_owned(),
        format!("--lang={}", kind.language),
        format!("--user-data-dir={}", home.path().join("profile").display()),
    ];
    if rustix::process::getuid().is_root() {
        arguments.push("--no-sandbox".to_owned());
    }
    let mut logs = json!({"browser": "ALL"});
    if kind.logs_requests {
        logs["performance"] = Value::from("ALL");
    }
    let capabilities = json!({
        "goog:chromeOptions": {
            "binary": tools::CHROMIUM.find(),
            "args": arguments,
            "prefs": {"intl.accept_languages": kind.language},
        },
        "goog:loggingPrefs": logs,
        "unhandledPromptBehavior": "ignore", // A check must see an unexpected dialogue.
    });
    let end = END.0.try_clone().expect("pipes can be opened");
    let mut kept = Command::new("sh");
    kept.args(["-c", KEEPER]).arg(home.path()).arg(tools::CHROMEDRIVER.find());
    kept.env("HOME", home.path()).stdin(end);
    Session::open(kept, &capabilities, home)
}
