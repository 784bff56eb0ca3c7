//! A hobd with directories of its own.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use hob_testkit::{Client, Fault, Launch, Process, free_port, real_model, wait};
use tempfile::TempDir;

use crate::tools;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Answers noise, or what the question says behind "Say this: ".
    Fake,
    /// The tiny model that comes with Hob: it answers in sentences.
    Bundled,
    /// The fetched model, where it is; otherwise the bundled one.
    Real,
}

/// A running hobd. Dropping it ends the process and removes its directories.
#[derive(Debug)]
pub struct Hobd {
    pub client: Client,
    process: Process,
    launch: Launch,
    directory: TempDir,
}

impl Hobd {
    /// Starts hobd and waits until it serves requests.
    pub fn start(model: Model) -> Self {
        Self::start_with(model, &[])
    }

    /// The same with more arguments.
    pub fn start_with(model: Model, arguments: &[&str]) -> Self {
        Self::start_changed(model, arguments, |launch, _| launch)
    }

    /// Starts it with a change of the launch, which also gets the directory.
    pub fn start_changed(
        model: Model,
        arguments: &[&str],
        change: impl FnOnce(Launch, &Path) -> Launch,
    ) -> Self {
        let directory = tempfile::tempdir().expect("there is room for temporary files");
        let model = match model {
            Model::Fake => "fake".to_owned(),
            Model::Bundled => "bundled".to_owned(),
            Model::Real => real_model("a picture").map_or("bundled".to_owned(), |path| {
                let path = path.canonicalize().expect("it was found there");
                path.display().to_string()
            }),
        };
        // In a file: a model that a flag chooses runs again at the next start.
        fs::write(directory.path().join("hob.toml"), format!("model = {model:?}\n"))
            .expect("the directory can be written");
        let has_voice = arguments.contains(&"--voice-command");
        let silent: &[&str] = if has_voice { &[] } else { &["--voice-command", "off"] };
        // The page's origin stays the same where it is started again.
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let launch = Launch::new(tools::hobd(), directory.path()).separate_slots().listen(address);
        let launch = launch.args(["--threads", "1", "--log", "warn"]).args(silent.iter().copied());
        let launch = launch.args(arguments.iter().copied()).args([
            "--config".into(),
            directory.path().join("hob.toml").into_os_string(),
            "--profiles-dir".into(),
            directory.path().join("profiles").into_os_string(),
        ]);
        let launch = change(launch, directory.path());
        let hob_testkit::Hobd { client, process, .. } = launch.start();
        Self { client, process, launch, directory }
    }

    /// Ends it with SIGTERM: it saves everything.
    pub fn stop(&mut self) {
        self.process.terminate(wait::PATIENCE);
    }

    /// Ends it with SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again on the same directories and address.
    pub fn start_again(&mut self) {
        let started = self.launch.clone().listen(self.client.address).start();
        (self.process, self.client) = (started.process, started.client);
    }

    /// Ends it with SIGTERM and starts it again: only saved state is left.
    pub fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// Lets time pass for a hobd with a clock, running or not.
    pub fn pass(&self, time: Duration) {
        self.launch.pass(time);
    }

    /// The engine computes nothing until the fault ends: 10 s at most, or hobd takes it for dead. For a
    /// hobd that was started `with_faults`.
    pub fn pause_engine(&self) -> Fault {
        self.launch.inject("engine", "wait")
    }

    /// Writes a profile with these texts, a segment of the layer `rules` each.
    pub fn write_rules(&self, name: &str, texts: &[&str]) {
        let segment = |text: &&str| format!("[[segment]]\nlayer = \"rules\"\ntext = {text:?}\n");
        let segments: Vec<String> = texts.iter().map(segment).collect();
        self.write_profile(name, &segments.join("\n"));
    }

    /// Writes the file of a profile.
    pub fn write_profile(&self, name: &str, text: &str) {
        let profiles = self.directory().join("profiles");
        fs::create_dir_all(&profiles).expect("the directory can be written");
        fs::write(profiles.join(format!("{name}.toml")), text)
            .expect("the directory can be written");
    }

    /// The cells of the fullest slot that computes nothing.
    pub fn idle_tokens(&self) -> u64 {
        let slots = self.client.get("/v1/status")["slots"].clone();
        let idle = slots.as_array().into_iter().flatten().filter(|slot| slot["state"] == "idle");
        idle.filter_map(|slot| slot["tokens"].as_u64()).max().unwrap_or(0)
    }

    /// Tokens of speculative prefills that have begun, before their message was sent.
    pub fn tokens_ahead(&self) -> u64 {
        let page = self.client.call("GET", "/metrics").send().text();
        let tokens = page.lines().find_map(|line| line.strip_prefix("hob_ahead_tokens_total "));
        tokens.and_then(|tokens| tokens.parse().ok()).unwrap_or(0)
    }

    /// The address of the page, with the token.
    pub fn address_of_the_page(&self) -> String {
        format!("{}/#token={}", self.origin(), self.client.token)
    }

    pub fn origin(&self) -> String {
        format!("http://{}", self.client.address)
    }

    /// The directory above those of hobd.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Hobd {
    fn drop(&mut self) {
        // With SIGTERM, so that hobd removes its temporary files elsewhere.
        self.process.terminate(Duration::from_secs(2));
        if std::thread::panicking() {
            eprintln!("the log of hobd:\n{}", self.launch.log());
        }
    }
}
