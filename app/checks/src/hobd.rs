//! A hobd of a check's own.

use std::fs;
use std::path::Path;
use std::time::Duration;

use hob_testkit::{Client, Launch, Process, wait};
use tempfile::TempDir;

use crate::tools;

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
    process: Process,
    launch: Launch,
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
        let silent: &[&str] = match arguments.contains(&"--voice-command") {
            true => &[],
            false => &["--voice-command", "off"],
        };
        let launch = Launch::new(tools::hobd(), directory.path()).separate_slots();
        let launch = launch.args(["--threads", "1", "--log", "warn"]).args(silent.iter().copied());
        let launch = launch.args(arguments.iter().copied()).args([
            "--config".into(),
            directory.path().join("hob.toml").into_os_string(),
            "--profiles-dir".into(),
            directory.path().join("profiles").into_os_string(),
        ]);
        let hob_testkit::Hobd { client, process, .. } = launch.start();
        Self { client, process, launch, directory }
    }

    /// Ends it in good order.
    pub fn stop(&mut self) {
        self.process.terminate(wait::PATIENCE);
    }

    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again over what it left, at the same address.
    pub fn start_again(&mut self) {
        let started = self.launch.clone().listen(self.client.address).start();
        (self.process, self.client) = (started.process, started.client);
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
        self.process.terminate(Duration::from_secs(2));
        if std::thread::panicking() {
            eprintln!("the log of hobd:\n{}", self.launch.log());
        }
    }
}
