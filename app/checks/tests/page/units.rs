//! The unit tests of the page's pure modules (`units/`), in the browser, straight from the source tree.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;

use hob_checks::{Browser, Look, Page, tools};

/// Fewer means that a file of tests was not loaded.
const MIN_TESTS: u64 = 145;

#[test]
fn pure_modules_pass_their_unit_tests() {
    let address = serve_the_source_tree();
    let page = Page::of(Browser::chromium(Look::default()));
    page.go(&format!("http://{address}/units.html"));
    let outcome = page.until("the unit tests have run", "window.outcome");

    let failed = outcome["failed"].as_array().expect("a list");
    for case in failed {
        eprintln!("{}\n    {}\n", text(&case["name"]), text(&case["why"]).replace('\n', "\n    "));
    }
    let names: Vec<_> = failed.iter().map(|case| text(&case["name"])).collect();
    assert!(names.is_empty(), "{} unit tests failed: {names:#?}", names.len());
    for note in outcome["notes"].as_array().expect("a list") {
        println!("{}", text(note));
    }
    let passed = outcome["passed"].as_u64().expect("a number");
    assert!(passed >= MIN_TESTS, "only {passed} unit tests ran");
    println!("{passed} unit tests");
}

fn text(value: &serde_json::Value) -> &str {
    value.as_str().expect("a text")
}

/// Serves `app/ui`, with `units/` beside it, on loopback. The thread ends with the process.
fn serve_the_source_tree() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(|| answer(stream));
        }
    });
    address
}

fn answer(mut stream: TcpStream) -> Option<()> {
    let mut lines = BufReader::new(&stream).lines();
    let request = lines.next()?.ok()?;
    lines.take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).for_each(drop);
    let path = request.split(' ').nth(1)?.trim_start_matches('/');
    let (status, body) = match fs::read(file(path)) {
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let length = body.len();
    let kind = content_type(path);
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(&body).ok()
}

fn file(path: &str) -> PathBuf {
    let app = tools::root().join("app");
    match path {
        "units.html" => app.join("checks/units/units.html"),
        path if path.starts_with("units/") => app.join("checks").join(path),
        path => app.join("ui").join(path),
    }
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        _ => "application/json",
    }
}
