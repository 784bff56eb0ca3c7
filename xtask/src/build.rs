//! Builds the programs that the tasks start, all with one selection of packages and features.
//!
//! - Cargo chooses the features of a dependency by the selected packages, by their features, and by whether
//!   dev-dependencies count. It compiles a crate once for each set of features of the crates below it. With hobd and hob
//!   alone, 142 of the 506 units of hob-daemon would differ from those of the tests, and so would all crates of ours.
//! - `--bin` chooses what is compiled, and no features. So the crates and system packages of the desktop app are needed
//!   where the app is built, and nowhere else. Other builds download its crates and those of the tests, 13 MB, and
//!   compile none of the app's.
//! - A bundle is apart: it has a target directory and features of its own.

use crate::command::{Failure, Line};
use crate::gpu::Choice;

/// All packages, with the desktop app: what the tests build, too.
pub const ALL: [&str; 4] = ["--release", "--workspace", "--features", "hob-desktop/desktop"];

/// The package whose feature chooses the device. Hobd and the app use the same one, so that they share crates.
const COMPUTES: &str = "hob-daemon";

/// Builds these programs for the processor into `target/release`.
pub fn programs(names: &[&str]) -> Result<(), Failure> {
    run(&line(names), names)
}

/// Builds these programs for the chosen device into the directory of [`crate::gpu::programs`].
pub fn programs_for(choice: &Choice, names: &[&str]) -> Result<(), Failure> {
    run(&choice.add_to(line(names), COMPUTES), names)
}

fn run(line: &Line, names: &[&str]) -> Result<(), Failure> {
    println!(
        "build: {}, with the features of all packages, so that no other task compiles these crates again",
        names.join(" and ")
    );
    line.run()
}

fn line(names: &[&str]) -> Line {
    // Without tests or examples among the targets, cargo would leave out the features that dev-dependencies ask for. The
    // only example compiles in seconds.
    let line = Line::new("cargo build").args(ALL).arg("--examples");
    line.args(names.iter().flat_map(|&name| ["--bin", name]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::{Gpu, Machine, Wish, choose};

    #[test]
    fn hobd_is_built_with_the_features_of_the_tests_and_without_the_app() {
        let built = line(&["hobd", "hob"]).to_string();
        let tests = Line::new("cargo build").args(ALL).to_string();
        assert_eq!(built, format!("{tests} --examples --bin hobd --bin hob"));
    }

    #[test]
    fn hobd_and_the_app_have_the_same_features_on_a_device() {
        let choice = choose(Wish::Only(Gpu::Vulkan), &Machine::default());
        let built = |name| choice.add_to(line(&[name]), COMPUTES).to_string();
        assert!(built("hobd").ends_with(" --features hob-daemon/vulkan"), "{}", built("hobd"));
        assert_eq!(
            built("hob-desktop").replace("hob-desktop --features", "hobd --features"),
            built("hobd")
        );
    }
}
