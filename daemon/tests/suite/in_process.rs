//! A daemon that runs in the process of its caller, as the app's does: from when it answers, and its end.

use std::ops::ControlFlow;
use std::path::Path;

use hob_daemon::startup::{self, Daemon, Ending, ModelSwitch, OnHang, StartedBy};
use hob_testkit::Client;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::common::Plan;

fn open(runtime: &Runtime, directory: &Path) -> Daemon {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let _inside = runtime.enter();
    let mut model_switch = ModelSwitch::new(Plan::new().resolved(directory), StartedBy::User);
    startup::open(&mut model_switch, listener, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// The ready file is written between the two: its reader would get conversations without the places of their KV.
#[test]
fn a_daemon_answers_all_routes_before_it_is_announced() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = Runtime::new().unwrap();
    let daemon = open(&runtime, directory.path());
    let client = Client::of(&json!(daemon.running()));
    assert_eq!(client.get("/health")["status"], "ok");
    runtime.block_on(daemon.serve(async {}, OnHang::Report, || ())).unwrap();
    runtime.shutdown_background();
}

#[test]
fn the_caller_is_told_once_that_a_daemon_closes() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = Runtime::new().unwrap();
    let daemon = open(&runtime, directory.path());
    let mut closed = 0;
    let ending = runtime.block_on(daemon.serve(async {}, OnHang::Report, || closed += 1));
    assert_eq!(ending.unwrap(), Ending::Stopped);
    assert_eq!(closed, 1);
    runtime.shutdown_background();
}
