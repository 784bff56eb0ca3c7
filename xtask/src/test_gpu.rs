//! `cargo xtask test --gpu`: checks a build for a device, on the device.
//!
//! - The round trips of every family of models, and KV that a build for the processor and this one
//!   write and read in turn.
//! - One test at a time: a software device computes each on all cores.
//! - Not among the checks of `test`: llama.cpp is compiled once more, with all that the device computes.

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::command::{Failure, Line};
use crate::gpu::Gpu;
use crate::need::Need;
use crate::{detect, setup};

const TESTS: &str = "cargo test --release --package hob-runtime --test devices";
/// llama.cpp uses a software device only where a variable names it, by its index.
const SOFTWARE: (&str, &str) = ("GGML_VK_VISIBLE_DEVICES", "0");

pub fn run(gpu: Gpu, yes: bool) -> Result<(), Failure> {
    let is_software =
        gpu == Gpu::Vulkan && !detect::gpu().render_node && std::env::var_os(SOFTWARE.0).is_none();
    if is_software {
        println!("gpu: no graphics card is here: the checks run on Mesa's software device");
        setup::ensure(&[Need::SoftwareVulkan], yes)?;
    }
    let exchange = exchange()?;
    let exchanged = |line: Line| line.env("HOB_TEST_EXCHANGE", exchange.clone());
    let on_device = |line: Line| {
        let line = exchanged(line).env("HOB_TEST_DEVICE", "1");
        if is_software { line.env(SOFTWARE.0, SOFTWARE.1) } else { line }
    };
    let begun = Instant::now();
    // Writes what the device reads.
    exchanged(Line::new(TESTS)).run()?;
    let tests = Line::new(TESTS).args(["--test", "families", "--features", gpu.feature()]);
    on_device(tests.clone().arg("--no-run")).run()?;
    println!("--- built: {:.0} s", begun.elapsed().as_secs_f64());
    on_device(tests.args(["--", "--test-threads", "1", "--nocapture"])).run()?;
    // Reads what the device wrote.
    exchanged(Line::new(TESTS)).args(["--", "--nocapture", "another_build"]).run()?;
    println!("--- checked: {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// The path of an empty directory. Tests run in that of their package, so it is absolute.
fn exchange() -> Result<String, Failure> {
    let directory = Path::new("target/exchange");
    let failed = |error: std::io::Error| {
        Failure::new(format!("cannot empty {}: {error}", directory.display()), "remove it")
    };
    if directory.exists() {
        fs::remove_dir_all(directory).map_err(failed)?;
    }
    fs::create_dir_all(directory).map_err(failed)?;
    let path = fs::canonicalize(directory).map_err(failed)?;
    path.into_os_string()
        .into_string()
        .map_err(|_| Failure::new("the path of the project is not UTF-8", "move it to one that is"))
}
