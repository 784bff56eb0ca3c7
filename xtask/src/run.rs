//! Builds hobd and hob, starts hobd, and prints commands to paste.
//!
//! - This process *becomes* hobd, so that Ctrl-C, signals and the exit status are hobd's own.
//! - A second process waits for hobd's ready file, prints its content and the commands, and exits;
//!   it also exits when hobd does.

use std::fs;
use std::os::unix::process::{CommandExt, parent_id};
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::args::NATIVE;
use crate::build;
use crate::command::{Failure, Line, quoted};
use crate::gpu::{Choice, programs};

const READY_FILE: &str = "target/run/ready.json";

/// Builds, then becomes hobd; returns only after a failure.
pub fn run(choice: &Choice, hobd_args: &[String]) -> Result<(), Failure> {
    build::programs_for(choice, &["hobd", "hob"])?;
    prepare_ready_file().map_err(|e| {
        Failure::new(
            format!("cannot prepare {READY_FILE}: {e}"),
            "check the permissions of target/",
        )
    })?;

    let hobd = format!("{}/hobd --ready-file", programs(choice.native));
    let hobd = Line::new(&hobd).arg(READY_FILE).args(hobd_args);

    let this = std::env::current_exe().ok().and_then(|path| path.to_str().map(str::to_owned));
    let xtask = this.ok_or_else(|| Failure::new("cannot find the path of xtask", "try again"))?;
    let announcer = Line::new("").arg(xtask).arg("announce");
    let announcer = announcer.args(choice.native.then_some(NATIVE));
    let announcer = announcer.arg(READY_FILE).args(shared_flags(hobd_args));
    announcer.command().spawn().map_err(|e| announcer.not_started(&e))?;

    println!("$ {hobd}");
    Err(hobd.not_started(&hobd.command().exec()))
}

/// Waits for the ready file of the parent process, and prints commands to paste. `hob_flags` let
/// hob find that hobd; `native`: both are built for this processor alone.
pub fn announce(ready_file: &Path, native: bool, hob_flags: &[String]) -> Result<(), Failure> {
    let hobd = parent_id();
    while parent_id() == hobd {
        // Without the newline at the end, hobd is still writing.
        let line = fs::read_to_string(ready_file).unwrap_or_default();
        if line.ends_with('\n') {
            let ready: Value = serde_json::from_str(&line).map_err(|e| {
                Failure::new(format!("hobd wrote a ready file that is not JSON: {e}"), "report it")
            })?;
            println!("{}", announcement(&ready, &programs(native), hob_flags));
            return Ok(());
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn prepare_ready_file() -> std::io::Result<()> {
    let path = Path::new(READY_FILE);
    fs::create_dir_all(path.parent().expect("it is in a directory"))?;
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// The value of hobd's flag `name`, in either spelling.
pub fn value_of<'a>(name: &str, hobd_args: &'a [String]) -> Option<&'a str> {
    let given = |(at, word): (usize, &'a String)| match word.strip_prefix(name) {
        Some("") => hobd_args.get(at + 1).map(String::as_str),
        Some(rest) => rest.strip_prefix('='),
        None => None,
    };
    hobd_args.iter().enumerate().find_map(given)
}

/// The flags of hobd that hob needs too.
pub fn shared_flags(hobd_args: &[String]) -> Vec<String> {
    const SHARED: [&str; 4] = ["--config", "--data-dir", "--slots-dir", "--token-file"];
    let mut flags = Vec::new();
    let mut words = hobd_args.iter();
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some((name, _)) if SHARED.contains(&name) => flags.push(word.clone()),
            None if SHARED.contains(&word.as_str()) => {
                flags.extend([word].into_iter().chain(words.next()).cloned());
            }
            _ => {}
        }
    }
    flags
}

/// `programs`: the directory of hob.
fn announcement(ready: &Value, programs: &str, hob_flags: &[String]) -> String {
    let field = |name: &str| ready[name].as_str().unwrap_or("?");
    let (address, token_file, model) = (field("address"), field("token_file"), field("model"));
    let body = serde_json::json!({
        "conversation": "locker",
        "messages": [{ "role": "user", "content": "My locker code is 48213." }],
    });
    let curl = format!(
        "curl http://{address}/v1/chat/completions -H 'Content-Type: application/json' \
         -H \"Authorization: Bearer $(cat {})\" -d {}",
        quoted(token_file),
        quoted(&body.to_string()),
    );
    let hob = Line::new(&format!("{programs}/hob")).args(hob_flags);
    let (chat, open) = (hob.clone().arg("chat"), hob.arg("open"));
    format!(
        "\nHob is ready.\n\
         \n  address     http://{address}\
         \n  token file  {token_file}\
         \n  model       {model}\n\
         \nIn another terminal:\n\
         \n  {curl}\
         \n  {chat}\
         \n  {open}\n\
         \nCtrl-C stops hobd; it saves the conversations.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_announcement_can_be_pasted() {
        let ready = serde_json::json!({
            "address": "127.0.0.1:8642",
            "token_file": "/home/ann lee/.local/share/hob/token",
            "model": "/hob/assets/hob-tiny-f16.gguf",
        });
        let text = announcement(&ready, &programs(false), &[]);
        assert!(text.contains("  address     http://127.0.0.1:8642\n"));
        assert!(text.contains("Bearer $(cat '/home/ann lee/.local/share/hob/token')\""));
        assert!(text.contains(r#"-d '{"conversation":"locker","messages":[{"role":"user","#));
        assert!(text.contains("\n  target/release/hob chat\n"));
        assert!(text.contains("\n  target/release/hob open\n"));
        let native = announcement(&ready, &programs(true), &[]);
        assert!(native.contains("\n  target/native/release/hob chat\n"), "{native}");
    }

    #[test]
    fn a_flag_is_read_in_both_spellings() {
        let hobd_args = ["--ctx", "4096", "--model=smollm2"].map(str::to_owned);
        assert_eq!(value_of("--model", &hobd_args), Some("smollm2"));
        assert_eq!(value_of("--ctx", &hobd_args), Some("4096"));
        assert_eq!(value_of("--mod", &hobd_args), None);
    }

    #[test]
    fn hob_gets_the_paths_of_hobd() {
        let hobd_args = ["--ctx", "4096", "--data-dir", "/my data", "--config=hob.toml"];
        let flags = shared_flags(&hobd_args.map(str::to_owned));
        assert_eq!(flags, ["--data-dir", "/my data", "--config=hob.toml"]);

        let text = announcement(&Value::Null, &programs(false), &flags);
        assert!(text.contains("hob --data-dir '/my data' --config=hob.toml chat"));
    }
}
