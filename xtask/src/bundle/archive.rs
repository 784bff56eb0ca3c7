//! The archive: hobd and hob with their libraries, which run where they are unpacked.

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::{Portable, documents};
use crate::command::{Failure, Line};

/// The bundled model answers within a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Packs the tree, unpacks it elsewhere, and has hobd there answer a question.
pub fn make(build: Portable) -> Result<(), Failure> {
    let failed =
        |error| Failure::new(format!("cannot write the archive: {error}"), "see the free disk");
    documents::copy(Path::new("."), &build.tree().join("share/doc/hob")).map_err(failed)?;
    let (name, target) = (name(build), build.target());
    let path = format!("{target}/{name}.tar.gz");
    let tree = build.tree().display().to_string();
    let options = options(&name, cfg!(target_os = "macos"));
    Line::new(&format!("tar {options} -czf {path} -C {tree} .")).run()?;
    let elsewhere = format!("{target}/unpacked");
    fs::remove_dir_all(&elsewhere).or_else(super::absent).map_err(failed)?;
    fs::create_dir_all(&elsewhere).map_err(failed)?;
    Line::new(&format!("tar -xzf {path} -C {elsewhere}")).run()?;
    let root = Path::new(&elsewhere).join(name);
    answers(&root, None)?;
    answer_on_older_processors(&root)?;
    println!("made {path}");
    Ok(())
}

/// Such as `hob-0.1.0-linux-x86_64`, and `-vulkan` behind it.
fn name(build: Portable) -> String {
    use std::env::consts::{ARCH, OS};
    let device = build.gpu.map(|gpu| format!("-{}", gpu.feature())).unwrap_or_default();
    format!("hob-{}-{OS}-{ARCH}{device}", env!("CARGO_PKG_VERSION"))
}

/// What makes tar put the files below a directory of this name, as those of root. macOS has BSD's tar, which has other
/// options for it.
fn options(name: &str, is_macos: bool) -> String {
    let renamed = format!(",^\\.,{name},");
    if is_macos {
        format!("--uid 0 --gid 0 -s {renamed}")
    } else {
        format!("--owner=0 --group=0 --transform s{renamed}")
    }
}

/// Without AVX, with it, and with AVX2, as QEMU knows them.
const OLDER_PROCESSORS: [&str; 3] = ["Nehalem", "SandyBridge", "Haswell"];

/// An instruction that such a processor lacks ends the emulated hobd, as it would end a real one.
fn answer_on_older_processors(root: &Path) -> Result<(), Failure> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Ok(());
    }
    if !Line::new("qemu-x86_64 --version").succeeds() {
        println!("not tried on older processors: there is no qemu-x86_64 (Debian: qemu-user)");
        return Ok(());
    }
    OLDER_PROCESSORS.into_iter().try_for_each(|processor| answers(root, Some(processor)))
}

/// Starts the unpacked hobd on the bundled model and asks it a question through the unpacked hob.
/// `processor`: emulated; only hobd computes.
fn answers(root: &Path, processor: Option<&str>) -> Result<(), Failure> {
    let program = |name: &str| root.join("bin").join(name).display().to_string();
    let data = root.join("data").display().to_string();
    let emulator = processor.map(|it| format!("qemu-x86_64 -cpu {it}")).unwrap_or_default();
    let line = Line::new(&emulator)
        .arg(program("hobd"))
        .args(["--model", "bundled", "--data-dir", &data])
        .args(["--listen", "127.0.0.1:0", "--log", "hob_runtime=info,warn"]);
    println!("$ {line}");
    let hobd = Running(line.command().spawn().map_err(|error| line.not_started(&error))?);
    let ask = Line::new("").arg(program("hob")).args(["ask", "--data-dir", &data, "Who are you?"]);
    let until = Instant::now() + PATIENCE;
    while !ask.succeeds() {
        if Instant::now() > until {
            return Err(Failure::new("the packed hobd does not answer", "see its log above"));
        }
        thread::sleep(Duration::from_millis(200));
    }
    ask.run()?;
    drop(hobd);
    Ok(())
}

/// Ends with the check, whatever its result.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tar_of_macos_gets_options_that_it_knows() {
        let bsd = options("hob-0.1.0-macos-aarch64", true);
        assert_eq!(bsd, "--uid 0 --gid 0 -s ,^\\.,hob-0.1.0-macos-aarch64,");
        let gnu = options("hob-0.1.0-linux-x86_64", false);
        assert_eq!(gnu, "--owner=0 --group=0 --transform s,^\\.,hob-0.1.0-linux-x86_64,");
    }
}
