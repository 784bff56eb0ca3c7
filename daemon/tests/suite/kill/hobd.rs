//! A hobd on the bundled model that can be killed at any moment.

use std::path::Path;

use hob_slots::ModelHash;
use hob_testkit::{Client, Hobd, Launch};
use serde_json::Value;

pub fn launch(directory: &Path) -> Launch {
    let fixed = ["--threads", "1", "--slots", "2", "--log", "warn"];
    // Every start sweeps and compresses the files of the last one.
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory).separate_slots();
    launch.args(fixed).args(["--compress-after", "1s"])
}

pub fn model(hobd: &Hobd) -> ModelHash {
    hobd.ready["fingerprint"].as_str().unwrap().parse().unwrap()
}

/// The stored conversation; `None` when hobd does not know it.
pub fn conversation(client: &Client, name: &str) -> Option<Value> {
    let list = client.get("/v1/conversations");
    let mut known = list["data"].as_array().unwrap().iter();
    known.find(|known| known["id"] == name)?;
    Some(client.get(&format!("/v1/conversations/{name}")))
}
