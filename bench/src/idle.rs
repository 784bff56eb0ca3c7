//! What being ready costs while nobody asks: the real hobd, the bundled model, and very many profiles
//! whose prefixes are warm.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::measure::{beside_us, cpu_time};

#[derive(clap::Args)]
pub struct Options {
    /// Profiles, and so prefixes.
    #[arg(long, default_value_t = 20)]
    profiles: usize,
    /// How long nobody asks.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Print the figure and succeed whatever it is.
    #[arg(long)]
    no_bars: bool,
}

/// Of one core.
const BAR: f64 = 0.005;

/// How long the prefixes may take to become warm.
const PATIENCE: Duration = Duration::from_secs(120);

pub fn run(options: &Options) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let profiles = directory.path().join("profiles");
    fs::create_dir(&profiles)?;
    for number in 0..options.profiles {
        let text = format!("You are kettle {number} on the shelf. ").repeat(20);
        let profile = format!("[[segment]]\nlayer = \"identity\"\ntext = \"{text}\"\n");
        fs::write(profiles.join(format!("kettle-{number}.toml")), profile)?;
    }
    let hobd = Hobd::start(directory.path(), &profiles)?;
    hobd.wait_until_warm(options.profiles)?;
    std::thread::sleep(Duration::from_secs(5)); // What was computed is written.

    let process = hobd.process.id().to_string();
    let before = cpu_time(&process)?;
    std::thread::sleep(Duration::from_secs(options.seconds));
    let used = cpu_time(&process)?.saturating_sub(before);
    let share = used.as_secs_f64() / options.seconds as f64;
    println!(
        "{} warm prefixes, nobody asks for {} s: {:.0} ms of processor time, {:.2} % of one core \
         (to reach: {:.2} %)",
        options.profiles,
        options.seconds,
        used.as_secs_f64() * 1e3,
        share * 100.0,
        BAR * 100.0
    );
    if share > BAR && !options.no_bars {
        bail!("missed: {:.2} % of one core", share * 100.0);
    }
    Ok(())
}

struct Hobd {
    process: Child,
    log: std::path::PathBuf,
}

impl Hobd {
    fn start(directory: &Path, profiles: &Path) -> Result<Self> {
        let log = directory.join("log");
        let mut command = Command::new(beside_us("hobd", "hob-daemon")?);
        command.env_clear().env("HOME", directory).arg("--data-dir").arg(directory.join("data"));
        command.arg("--profiles-dir").arg(profiles).args(["--listen", "127.0.0.1:0"]);
        let process = command.stdout(Stdio::null()).stderr(fs::File::create(&log)?).spawn();
        Ok(Self { process: process.context("cannot run hobd")?, log })
    }

    /// It says so of each.
    fn wait_until_warm(&self, profiles: usize) -> Result<()> {
        let began = Instant::now();
        loop {
            let log = fs::read_to_string(&self.log)?;
            let warm = log.lines().filter(|line| line.contains(" warm profile=")).count();
            if warm >= profiles {
                return Ok(());
            }
            ensure!(began.elapsed() < PATIENCE, "only {warm} prefixes are warm:\n{log}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Hobd {
    fn drop(&mut self) {
        let _ = self.process.kill(); // An error: it has ended already.
        let _ = self.process.wait();
    }
}
