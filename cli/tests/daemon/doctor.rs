//! What `hob doctor` says of the daemon, and of what only the daemon knows.

use std::net::TcpListener;

use serde_json::{Value, json};

use super::common::Home;
use super::fake::Daemon;
use super::terminal::Terminal;

#[test]
fn doctor_says_what_of_the_processor_hobd_uses_and_what_it_does_not() {
    let home = Home::new();
    let status =
        json!({"build": {"processor": ["AVX2", "FMA"], "unused": ["AVX-512"], "backends": []}});
    let daemon = Daemon::new(&home).answer("GET /v1/status", 200, status);
    let check = |name: &str| {
        let checks = home.run(&["doctor", "--json"], &[("HOB_GPU_LAYERS", "0")], "").json();
        checks.as_array().unwrap().iter().find(|check| check["name"] == name).unwrap().clone()
    };
    let processor = check("processor");
    assert_eq!(
        (&processor["state"], &processor["found"]),
        (&json!("notice"), &json!("used: AVX2, FMA; not used: AVX-512"))
    );
    assert!(processor["remedy"].as_str().unwrap().contains("--native"), "{processor}");
    let devices = check("devices");
    assert_eq!(
        (&devices["state"], &devices["found"]),
        (&json!("good"), &json!("the processor alone"))
    );
    let _daemon = daemon.answer("GET /v1/status", 200, json!({"build": {"processor": ["NEON"]}}));
    assert_eq!(check("processor")["state"], "good");
}

#[test]
fn doctor_names_the_token_where_the_daemon_does_not_accept_it() {
    let home = Home::new();
    let error = |message: &str| json!({"error": {"message": message}});
    let mut daemon = Daemon::new(&home);
    for (status, remedy) in [(401, "--token-file"), (503, "wait until"), (500, "restart hobd")] {
        daemon = daemon.answer("GET /v1/status", status, error("no"));
        let ran = home.hob(&["doctor", "--json"]);
        assert_eq!(ran.code, 1, "{ran:?}");
        let checks: Value = serde_json::from_str(&ran.out).unwrap();
        let mut checks = checks.as_array().unwrap().iter();
        let check = checks.find(|check| check["name"] == "daemon").unwrap();
        assert!(check["remedy"].as_str().unwrap().contains(remedy), "{check}");
    }
    drop(daemon);
}

#[test]
fn a_check_fits_its_terminal() {
    let home = Home::new();
    let mut hob = Terminal::start(&home, &["doctor"]);
    let shown = hob.reads("devices");
    assert_eq!(hob.ends(), 0);
    let line = shown.lines().position(|line| line.starts_with("note  daemon")).unwrap();
    let lines: Vec<&str> = shown.lines().skip(line).take(3).collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(lines[1].starts_with(&format!("{:23}no daemon answers", "")), "{shown}");
    assert!(lines[2].starts_with(&format!("{:23}", "")), "the remedy takes two lines: {shown}");
}

#[test]
fn doctor_names_a_daemon_that_hangs() {
    let home = Home::new();
    let _daemon = Daemon::new(&home); // It has the token.
    // The system accepts connections to it, and no one answers.
    let hung = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = hung.local_addr().unwrap().to_string();
    let mut hob = Terminal::start(&home, &["doctor", "--address", &address]);
    hob.reads("BAD   daemon");
    hob.reads("restart hobd");
    assert_eq!(hob.ends(), 1);
}
