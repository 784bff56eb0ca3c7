//! A hobd of a check's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::http::Client;
use crate::process::Running;
use crate::{tools, wait};

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Noise, or whatever the question says behind "Say this: ".
    Fake,
    /// The tiny model that comes with Hob: it speaks, and remembers.
    Bundled,
}

/// A running hobd with directories of its own, which go with it.
#[derive(Debug)]
pub struct Hobd {
    /// Speaks to it.
    pub client: Client,
    process: Running,
    arguments: Vec<String>,
    directory: TempDir,
}

impl Hobd {
    /// Starts one and waits until requests are served.
    pub fn start(model: Model) -> Self {
        Self::start_with(model, &[])
    }

    /// The same with more arguments.
    pub fn start_with(model: Model, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("there is room for temporary files");
        let model = match model {
            Model::Fake => "fake".to_owned(),
            Model::Bundled => "bundled".to_owned(),
        };
        // Not as a flag: what a file says can be changed on the page.
        fs::write(directory.path().join("hob.toml"), format!("model = {model:?}\n"))
            .expect("the directory can be written");
        let fixed = ["--threads", "1", "--log", "warn"];
        let silent: &[&str] = match arguments.contains(&"--voice-command") {
            true => &[],
            false => &["--voice-command", "off"],
        };
        let arguments = [&fixed, silent, arguments].concat();
        let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        let (process, client) = launch(directory.path(), &arguments, "127.0.0.1:0");
        Self { client, process, arguments, directory }
    }

    /// Ends it in good order.
    pub fn stop(&mut self) {
        self.process.stop(wait::PATIENCE);
    }

    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again over what it left, at the same address.
    pub fn start_again(&mut self) {
        let listen = self.client.address.to_string();
        (self.process, self.client) = launch(self.directory.path(), &self.arguments, &listen);
    }

    /// Ends it in good order and starts it again: nothing of what it held is left but what it has kept.
    pub fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// Writes what prompts of one kind begin with.
    pub fn write_profile(&self, name: &str, text: &str) {
        let profiles = self.directory().join("profiles");
        fs::create_dir_all(&profiles).expect("the directory can be written");
        fs::write(profiles.join(format!("{name}.toml")), text)
            .expect("the directory can be written");
    }

    /// Where the page is, with what lets it in.
    pub fn address_of_the_page(&self) -> String {
        format!("{}/#token={}", self.origin(), self.client.token)
    }

    /// The page's origin.
    pub fn origin(&self) -> String {
        format!("http://{}", self.client.address)
    }

    /// A place for files that live as long as this.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Hobd {
    fn drop(&mut self) {
        // In good order, so that it removes what it has put elsewhere.
        self.process.stop(Duration::from_secs(2));
        if std::thread::panicking() {
            let log = fs::read_to_string(log_file(self.directory.path())).unwrap_or_default();
            eprintln!("hobd said:\n{log}");
        }
    }
}

fn launch(directory: &Path, arguments: &[String], listen: &str) -> (Running, Client) {
    let ready_file = directory.join("ready.json");
    fs::remove_file(&ready_file).ok(); // An error: there is none yet.
    let log = fs::File::options().create(true).append(true).open(log_file(directory));
    let mut process = Running::start(
        Command::new(tools::hobd())
            .env_clear() // The settings of whoever runs the checks must not matter.
            .env("HOME", directory)
            .args(arguments)
            .args(["--listen", listen])
            .arg("--config")
            .arg(directory.join("hob.toml"))
            .arg("--data-dir")
            .arg(directory.join("data"))
            .arg("--slots-dir")
            .arg(directory.join("slots"))
            .arg("--profiles-dir")
            .arg(directory.join("profiles"))
            .arg("--ready-file")
            .arg(&ready_file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("the directory can be written")),
    );
    let ready = wait::until("hobd serves requests", || {
        let said = || fs::read_to_string(log_file(directory)).unwrap_or_default();
        assert!(process.lives(), "hobd ended at once: {}", said());
        // The line ends with its newline: without it, hobd is still writing.
        fs::read_to_string(&ready_file).ok().filter(|line| line.ends_with('\n'))
    });
    let ready: Value = serde_json::from_str(&ready).expect("the ready file is JSON");
    (process, Client::of(&ready))
}

fn log_file(directory: &Path) -> PathBuf {
    directory.join("log")
}
