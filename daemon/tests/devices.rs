//! The settings about devices, through the built hobd: which are refused, which are without effect where
//! no device is, and what the status says.
//!
//! With a device, which `cargo xtask test --gpu` says by `HOB_TEST_DEVICE`, layers go there.

#![cfg(feature = "llama")]

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use hob_testkit::{Client, Hobd, Launch, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

/// No machine of the tests has it.
const NOWHERE: &str = "CUDA7";

/// By these, drivers are found and devices chosen; the first names Vulkan's software device.
const FOR_DRIVERS: [&str; 5] = [
    "GGML_VK_VISIBLE_DEVICES",
    "VK_DRIVER_FILES",
    "VK_ICD_FILENAMES",
    "CUDA_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH",
];

fn launch(directory: &TempDir, flags: &[&str]) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--ctx", "2048"]).args(flags.iter().copied());
    let named = flags.contains(&"--model");
    let launch = if named { launch } else { launch.args(["--model", "bundled"]) };
    FOR_DRIVERS.iter().fold(launch, |launch, name| match env::var_os(name) {
        Some(value) => launch.env(name, value),
        None => launch,
    })
}

fn has_device() -> bool {
    env::var_os("HOB_TEST_DEVICE").is_some()
}

fn say(client: &Client, text: &str) -> Value {
    client.chat(&json!({
        "conversation": "room", "hob": {"append": true}, "temperature": 0, "max_tokens": 16,
        "messages": [{"role": "user", "content": text}],
    }))
}

#[test]
fn a_device_that_is_not_here_ends_the_start_and_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = launch(&directory, &["--device", NOWHERE]).command();
    let output = command.args(["--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains(NOWHERE), "{told}");
    let remedy = if has_device() { "device" } else { "leave the setting `device` out" };
    assert!(told.contains(remedy), "{told}");
}

#[test]
fn without_a_device_layers_are_the_processors_and_the_log_says_so() {
    if has_device() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let asks = ["--gpu-layers", "20", "--tensor-split", "3,1", "--kv-offload", "false"];
    let launch = launch(&directory, &asks);
    let hobd = launch.start();
    let status = hobd.client.get("/v1/status");
    assert_eq!((&status["offload"], &status["devices"]), (&Value::Null, &json!([])), "{status}");
    let build = &status["build"];
    assert_eq!(build["backends"], json!([]), "{build}");
    assert_ne!(build["processor"], json!([]), "{build}");
    let memory = hobd.client.get("/v1/memory");
    assert_eq!((&memory["offload"], &memory["devices"]), (&Value::Null, &json!([])), "{memory}");
    let log = launch.log();
    let line = log.lines().find(|line| line.contains("has no device")).expect("a warning");
    assert!(line.contains("gpu_layers, tensor_split, kv_offload"), "{line}");
    assert!(line.contains("the processor"), "{line}");
}

#[test]
fn layers_are_on_a_device_and_what_it_computed_comes_back_after_a_restart() {
    if !has_device() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(&directory, &["--gpu-layers", "2"]);
    while_it_runs(launch.start(), |hobd| {
        let status = hobd.client.get("/v1/status");
        assert_eq!(status["offload"]["layers"], 2, "{status}");
        assert_ne!(status["devices"], json!([]), "{status}");
        assert_ne!(status["build"]["backends"], json!([]), "{status}");
        assert_eq!(hobd.client.get("/v1/memory")["offload"]["layers"], 2);
        say(&hobd.client, &"My locker code is 48213. ".repeat(12));
        wait::until("its KV is on disk", || {
            let slots = hobd.client.get("/v1/slots");
            let mut rows = slots["data"].as_array()?.iter();
            rows.any(|row| row["conversation"] == "room").then_some(())
        });
        hobd.process.terminate(wait::PATIENCE);
    });
    while_it_runs(launch.start(), |hobd| {
        let again = say(&hobd.client, "What is my locker code?");
        let tokens = &again["hob"]["tokens"];
        assert!(tokens["disk"].as_u64() > Some(64), "{tokens}");
    });
}

/// The bundled model is not probed.
#[test]
fn a_file_is_probed_without_the_device_and_served_on_it() {
    if !has_device() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../assets/fixtures/qwen3.gguf");
    let launch = launch(&directory, &["--model", file]);
    while_it_runs(launch.start(), |hobd| {
        let status = hobd.client.get("/v1/status");
        assert_eq!(status["offload"]["layers"], status["offload"]["all_layers"], "{status}");
        assert!(launch.log().contains("was probed"), "{}", launch.log());
        say(&hobd.client, "Hello!");
    });
}

/// A signal that ends hobd, of a crash in a device's driver, ends this process too, so that `cargo xtask test
/// --gpu` tells it from a failure.
fn while_it_runs(mut hobd: Hobd, body: impl FnOnce(&mut Hobd)) {
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| body(&mut hobd)));
    let Err(failure) = outcome else { return };
    std::thread::sleep(Duration::from_secs(1)); // Until the system has written what it writes of a crash.
    if hobd.process.exit_status().is_some_and(|status| status.signal().is_some()) {
        eprintln!("hobd was ended by a signal");
        std::process::abort();
    }
    panic::resume_unwind(failure);
}
