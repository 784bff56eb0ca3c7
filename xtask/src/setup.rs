//! Installs missing packages, after printing what they are for and how it installs them.
//!
//! - Installs nothing without consent: prints the commands to run by hand instead.
//! - On an unknown system it lists what to install, and stops.

use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};

use crate::command::{Failure, Line};
use crate::detect;
use crate::gpu::{self, Choice, Gpu, Wish};
use crate::need::Need;
use crate::packages::{self, System};

/// Makes this machine meet `needs`. `yes`: install without asking.
pub fn ensure(needs: &[Need], yes: bool) -> Result<(), Failure> {
    let missing = detect::missing(needs);
    if missing.is_empty() {
        let names: Vec<_> = needs.iter().map(|need| need.name()).collect();
        println!("set-up: complete ({})", names.join(", "));
        return Ok(());
    }
    let system = detect::system();
    println!("set-up: missing");
    for &need in &missing {
        println!(
            "  {:<16} {}: {}",
            system.map_or("", |s| s.package(need)),
            need.name(),
            need.why()
        );
    }
    let Some(system) = system else {
        let names: Vec<_> = missing.iter().map(|need| need.name()).collect();
        return Err(Failure::new(
            "the package names of this system are unknown",
            format!("install {}; then try again", names.join(", ")),
        ));
    };
    install(system, &missing, yes)?;

    // A probe may be wrong; the build reports better what it does not find.
    for need in detect::missing(&missing) {
        eprintln!("set-up: {} was installed, but is still not found; continuing", need.name());
    }
    Ok(())
}

/// Decides what the build computes on, says why, and installs what a device that was asked for needs.
pub fn for_gpu(wish: Wish, yes: bool) -> Result<Choice, Failure> {
    let found = detect::gpu();
    let mut choice = gpu::choose(wish, &found);
    if choice.gpu == Some(Gpu::Cuda) {
        choice.cuda_architectures = detect::cuda_architectures();
        choice.cuda_compiler = detect::cuda_compiler();
    }
    println!("{}", choice.description());
    if let Some((missing, remedy)) = choice.gpu.and_then(|gpu| gpu::makers_tools(gpu, &found)) {
        return Err(Failure::new(missing, remedy));
    }
    let needs = choice.gpu.map_or(&[][..], Gpu::needs);
    if !needs.is_empty() {
        ensure(needs, yes)?;
    }
    let missing = detect::missing(needs);
    if missing.contains(&Need::VulkanHeaders) {
        // Without them, the build ends after minutes with an error of the compiler.
        return Err(Failure::new(
            format!("this system's package has no {}", Need::VulkanHeaders.name()),
            "unpack those of a later system or Khronos' SDK, set VULKAN_SDK to the directory that has \
             them in include/, and try again; or pass --gpu none",
        ));
    }
    Ok(choice)
}

fn install(system: &System, missing: &[Need], yes: bool) -> Result<(), Failure> {
    let is_root = detect::is_root();
    if !is_root && packages::needs_root(system, missing) && !detect::has_sudo() {
        return Err(Failure::new(
            "nothing was installed: there is no sudo",
            by_root(system, missing),
        ));
    }
    let lines = packages::plan(system, missing, is_root);
    let commands = joined(&lines);
    if !yes && !is_ci() && !agreed(system, &commands)? {
        return Err(Failure::new(
            "nothing was installed",
            format!("run `{commands}`, or pass --yes; then try again"),
        ));
    }
    for line in &lines {
        line.run().map_err(|failure| {
            let by_hand = if packages::needs_root(system, missing) {
                by_root(system, missing)
            } else {
                format!("run `{commands}`, with Homebrew from https://brew.sh; then try again")
            };
            failure.with_remedy(format!("see its output above; {by_hand}"))
        })?;
    }
    Ok(())
}

/// The remedy for a user who may not install packages.
fn by_root(system: &System, missing: &[Need]) -> String {
    let commands = joined(&packages::plan(system, missing, true));
    format!("have an administrator run `{commands}` as root; then try again")
}

fn joined(lines: &[Line]) -> String {
    lines.iter().map(Line::to_string).collect::<Vec<_>>().join(" && ")
}

/// Whether continuous integration runs this.
pub fn is_ci() -> bool {
    env::var_os("CI").is_some_and(|value| means_ci(&value))
}

/// Some developers set `CI=false` for other tools.
fn means_ci(value: &OsStr) -> bool {
    !["", "0", "false"].iter().any(|no| value == *no)
}

fn agreed(system: &System, commands: &str) -> Result<bool, Failure> {
    println!("On {}, this installs them:\n  {commands}", system.name);
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    print!("Run it now? [Y/n] ");
    let mut answer = String::new();
    let read = io::stdout().flush().and_then(|()| io::stdin().read_line(&mut answer));
    let read = read.map_err(|e| Failure::new(format!("cannot ask: {e}"), "pass --yes"))?;
    if read == 0 {
        println!(); // The terminal shows no line end for the end of the input.
        return Ok(false);
    }
    Ok(matches!(answer.trim(), "" | "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_denies_continuous_integration_is_no_consent() {
        let means = |value: &str| means_ci(OsStr::new(value));
        assert!(means("true") && means("1"));
        assert!(!means("false") && !means("0") && !means(""));
    }

    #[test]
    fn a_user_who_may_not_install_is_told_what_root_runs() {
        let debian = System::from_id("debian").expect("Debian is listed");
        let remedy = by_root(debian, &[Need::Cmake, Need::Compiler]);
        let commands = "apt-get update && apt-get install --yes --no-install-recommends cmake g++";
        assert!(remedy.contains(&format!("run `{commands}` as root")), "{remedy}");
        assert!(packages::needs_root(debian, &[Need::Cmake]));
        let macos = System::from_id("macos").expect("macOS is listed");
        assert!(!packages::needs_root(macos, &Need::all()), "Homebrew refuses root");
    }
}
