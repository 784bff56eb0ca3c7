//! Runs the clients of others, for Python and for JavaScript, against a real hobd, and keeps docs/CLIENTS.md.
//!
//! - Each directory of tests has an environment of its own, because not all clients take the same version of
//!   another. A stamp file says what is installed.
//! - Nothing but Python is needed of the system: node comes from pip's index, too.
//! - The tests of coding agents skip themselves where these cannot be installed: their programs take 800 MB, and
//!   exist for some systems alone.

use std::fs;
use std::path::Path;

use crate::command::{Failure, Line};

/// The tests of one virtual environment.
struct Suite {
    /// Has `requirements.txt`.
    directory: &'static str,
    venv: &'static str,
    /// What the clients of this run are exercised with.
    notes: &'static str,
}

const MAIN: Suite =
    Suite { directory: "tests/openai", venv: "target/venv", notes: "target/clients/openai.json" };

const SUITES: [Suite; 3] = [
    MAIN,
    Suite {
        directory: "tests/openai/openai_2",
        venv: "target/venv-openai-2",
        notes: "target/clients/openai_2.json",
    },
    Suite {
        directory: "tests/openai/older",
        venv: "target/venv-older",
        notes: "target/clients/older.json",
    },
];

/// Installs the others.
const UV: &str = "uv==0.13.9";

/// A package of our own beside those from npm.
const OWN: &str = "elizaos-core";

/// Runs all tests. `writes`: makes the page anew instead of comparing it.
pub fn check(writes: bool) -> Result<(), Failure> {
    for suite in &SUITES {
        suite.install()?;
    }
    install_packages("node", &[OWN])?;
    install_packages("node_older", &[])?;
    if let Err(failure) = install_packages("coding_agents", &[]) {
        println!("{failure}\nThe tests of coding agents are skipped.");
    }
    for suite in &SUITES {
        suite.run()?;
    }
    let page = Line::new("target/venv/bin/python tests/openai/page.py");
    let page = if writes { page.arg("--write") } else { page };
    page.args(SUITES.iter().map(|suite| suite.notes)).run()
}

/// Installs the environment of the first suite, which other checks use, too.
pub fn install() -> Result<(), Failure> {
    MAIN.install()
}

impl Suite {
    fn run(&self) -> Result<(), Failure> {
        Line::new(&format!("{}/bin/python -m pytest {}", self.venv, self.directory))
            .args(["-rs", "-p", "no:cacheprovider", "--rootdir", ".", "--clients-to", self.notes])
            .env("HOBD", "target/release/hobd")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .run()
    }

    /// With uv, which takes a tenth of pip's time for 180 packages (22 s, 208 with pip).
    fn install(&self) -> Result<(), Failure> {
        let requirements = format!("{}/requirements.txt", self.directory);
        once(&format!("{}/installed.txt", self.venv), &[&requirements], || {
            Line::new("python3 -m venv --clear").arg(self.venv).run()?;
            let bin = format!("{}/bin", self.venv);
            let pip = format!("{bin}/python -m pip install --quiet --disable-pip-version-check");
            let pip = Line::new(&pip);
            pip.clone().arg(UV).run()?;
            let uv =
                format!("{bin}/uv pip install --quiet --cache-dir target/uv --python {bin}/python");
            let installed = Line::new(&uv).arg("--requirement").arg(&requirements).run();
            // uv does not read pip's settings, such as the address of a mirror.
            installed.or_else(|_| pip.arg("--requirement").arg(&requirements).run())
        })
    }
}

/// From npm, those of the directory's package.json, and its `own`. The tests copy scripts beside them.
fn install_packages(directory: &str, own: &[&str]) -> Result<(), Failure> {
    let from = |name: &str| format!("tests/openai/{directory}/{name}");
    let target = format!("target/{directory}");
    let files = ["package.json", "package-lock.json", ".npmrc"].map(from);
    let own_files = own
        .iter()
        .flat_map(|name| ["package.json", "index.js"].map(|file| from(&format!("{name}/{file}"))));
    let sources: Vec<String> = files.iter().cloned().chain(own_files).collect();
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    once(&format!("{target}/installed.txt"), &sources, || {
        Line::new("mkdir -p").arg(&target).run()?;
        Line::new("cp").args(&files).arg(&target).run()?;
        for name in own {
            Line::new("cp -r").arg(from(name)).arg(&target).run()?;
        }
        Line::new("target/venv/bin/npm ci --prefix").arg(&target).run()
    })
}

/// Installs, unless the stamp file has the text of the sources.
fn once(
    stamp: &str,
    sources: &[&str],
    install: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut wanted = String::new();
    for source in sources {
        wanted += &fs::read_to_string(source).map_err(|e| {
            Failure::new(format!("cannot read {source}: {e}"), "restore it from git")
        })?;
    }
    if fs::read_to_string(stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    install()?;
    let written = fs::write(Path::new(stamp), wanted);
    written.map_err(|e| {
        Failure::new(format!("cannot write {stamp}: {e}"), "check the permissions of target/")
    })
}
