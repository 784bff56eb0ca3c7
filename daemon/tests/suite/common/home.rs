//! A directory for built hobds whose clock the test moves, and what is saved in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hob_testkit::{Client, Hobd, Launch, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

pub const HOUR: Duration = Duration::from_secs(3600);
pub const MINUTE: Duration = Duration::from_secs(60);

/// A directory, and how hobd is started on it. Its profiles are in `profiles/`.
pub struct Home {
    pub directory: TempDir,
    pub launch: Launch,
}

impl Home {
    /// On the bundled model; without llama.cpp on the fake one.
    pub fn new() -> Self {
        if cfg!(feature = "llama") { Self::empty() } else { Self::on_fake() }
    }

    /// On the fake model.
    pub fn on_fake() -> Self {
        Self::empty().with(&["--model", "fake"])
    }

    /// Without `--model`: the configuration chooses.
    pub fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path()).with_clock();
        let profiles = directory.path().join("profiles");
        fs::create_dir(&profiles).unwrap();
        let launch = launch.args(["--threads", "1"]);
        let launch = launch.args(["--profiles-dir".into(), profiles.into_os_string()]);
        Self { directory, launch }
    }

    pub fn with(self, arguments: &[&str]) -> Self {
        Self { launch: self.launch.args(arguments.iter().copied()), ..self }
    }

    /// Writes a profile of one segment.
    pub fn profile(&self, name: &str, text: &str) {
        let text = format!("[[segment]]\nlayer = 'rules'\nkey = 'tone'\ntext = '''{text}'''\n");
        fs::write(self.path().join("profiles").join(format!("{name}.toml")), text).unwrap();
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn slots(&self) -> PathBuf {
        self.path().join("data/slots")
    }

    pub fn start(&self) -> Hobd {
        self.launch.start()
    }

    /// Ends hobd, which saves everything.
    pub fn stop(&self, mut hobd: Hobd) {
        let status = hobd.process.terminate(wait::PATIENCE);
        assert!(status.success(), "{status}: {}", self.launch.log());
    }

    /// Lets time pass for hobd, running or not.
    pub fn pass(&self, time: Duration) {
        self.launch.pass(time);
    }

    /// Lets `awake` pass for hobd, and `asleep` while the machine sleeps.
    pub fn pass_with_sleep(&self, awake: Duration, asleep: Duration) {
        self.launch.pass_with_sleep(awake, asleep);
    }
}

/// Says something new and waits until all of it is on disk. Returns the answer's `hob` object, and
/// in it `prompt_tokens`.
pub fn say(client: &Client, conversation: &str, text: &str) -> Value {
    say_with(client, conversation, text, json!({}))
}

/// The same with these fields of `hob`.
pub fn say_with(client: &Client, conversation: &str, text: &str, hob: Value) -> Value {
    let mut hob = hob;
    hob["append"] = true.into();
    let answer = client.chat(&json!({
        "conversation": conversation, "hob": hob, "temperature": 0, "max_tokens": 24,
        "messages": [{"role": "user", "content": text}],
    }));
    let count = |name: &str| answer["usage"][name].as_u64().unwrap();
    let tokens = count("prompt_tokens") + count("completion_tokens");
    wait::until("the answer is saved", || {
        let saved = saved(client, conversation)?;
        // The end of a text that was cut by its length is not sampled.
        (saved["tokens"].as_u64().unwrap() + 1 >= tokens).then_some(())
    });
    let mut hob = answer["hob"].clone();
    hob["prompt_tokens"] = count("prompt_tokens").into();
    hob
}

/// The row of a saved conversation in `GET /v1/slots`; of several, which models with other names saved, the longest.
pub fn saved(client: &Client, conversation: &str) -> Option<Value> {
    let list = client.get("/v1/slots");
    let rows = list["data"].as_array().unwrap().iter();
    let of_it = rows.filter(|row| row["conversation"] == conversation);
    of_it.max_by_key(|row| row["tokens"].as_u64()).cloned()
}

/// Waits until no slot holds a conversation.
pub fn until_parked(client: &Client) {
    wait::until("no conversation is hot", || {
        let status = client.get("/v1/status");
        let slots = status["slots"].as_array().unwrap();
        slots.iter().all(|slot| slot["conversation"].is_null()).then_some(())
    });
}

/// A profile's prefix in `GET /v1/status`.
pub fn prefix(client: &Client, profile: &str) -> Option<Value> {
    let status = client.get("/v1/status");
    let mut prefixes = status["prefixes"].as_array().unwrap().iter();
    prefixes.find(|row| row["profile"] == profile).cloned()
}

/// The same, once it is warm.
pub fn until_warm(client: &Client, profile: &str) -> Value {
    wait::until("the prefix is warm", || {
        prefix(client, profile).filter(|prefix| prefix["state"] == "warm")
    })
}
