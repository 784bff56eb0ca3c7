//! The end of a daemon that runs in the process of its caller, as the app's does.

use std::ops::ControlFlow;

use hob_daemon::startup::{self, Ending, ModelSwitch, OnHang, StartedBy};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::common::Plan;

#[test]
fn the_caller_is_told_once_that_a_daemon_closes() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = Runtime::new().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let daemon = {
        let _inside = runtime.enter();
        let resolved = Plan::new().resolved(directory.path());
        let mut model_switch = ModelSwitch::new(resolved, StartedBy::User);
        let mut report = |_| ControlFlow::Continue(());
        startup::open(&mut model_switch, listener, &mut report).unwrap()
    };
    let mut closed = 0;
    let ending = runtime.block_on(daemon.serve(async {}, OnHang::Report, || closed += 1));
    assert_eq!(ending.unwrap(), Ending::Stopped);
    assert_eq!(closed, 1);
    runtime.shutdown_background();
}
