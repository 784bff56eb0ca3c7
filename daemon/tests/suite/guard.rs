//! Access checks (token, host, origin) and the limits of a request (size, time, type).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::common::{Call, Plan, TOKEN, World};

#[test]
fn only_health_and_the_page_need_no_token() {
    let world = World::new();
    for path in ["/health", "/"] {
        assert_eq!(Call::new(world.address, "GET", path).send().status, 200, "{path}");
    }
    for path in ["/v1/models", "/metrics", "/v1/status", "/v1/conversations", "/nowhere"] {
        let answer = Call::new(world.address, "GET", path).send();
        assert_eq!(answer.status, 401, "{path}");
        assert_eq!(answer.error()["code"], "missing_token");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    for path in ["/v1/chat/completions", "/v1/completions", "/tokenize"] {
        let answer = Call::new(world.address, "POST", path).json(&json!({})).send();
        assert_eq!(answer.status, 401, "{path}");
    }
}

#[test]
fn a_wrong_token_and_one_in_the_address_are_refused() {
    let world = World::new();
    let wrong = Call::new(world.address, "GET", "/v1/models").header("authorization", "Bearer no");
    assert_eq!(wrong.send().error()["code"], "invalid_api_key");
    let address = Call::new(world.address, "GET", &format!("/v1/models?token={TOKEN}"));
    assert_eq!(address.send().status, 401);
    let counted = "hob_requests_total{route=\"/v1/models\",status=\"401\"} 2";
    assert!(world.get("/metrics").text().contains(counted));
}

#[test]
fn a_foreign_host_is_refused_even_with_the_token() {
    let world = World::new();
    let port = world.address.port();
    for host in ["evil.example", &format!("evil.example:{port}"), "127.0.0.1:1"] {
        let answer = world.call("GET", "/health").header("host", host).send();
        assert_eq!(
            (answer.status, answer.error()["code"].as_str()),
            (403, Some("host_not_allowed"))
        );
    }
    for host in [&format!("localhost:{port}"), "127.0.0.1", &format!("[::1]:{port}")] {
        assert_eq!(
            world.call("GET", "/v1/models").header("host", host).send().status,
            200,
            "{host}"
        );
    }
}

#[test]
fn a_foreign_origin_is_refused_and_ours_gets_no_cors_headers() {
    let world = World::new();
    for origin in ["http://evil.example", "null", "https://127.0.0.1"] {
        let answer = world.call("GET", "/v1/models").header("origin", origin).send();
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (403, None));
    }
    let own = format!("http://{}", world.address);
    let answer = world.call("GET", "/v1/models").header("origin", &own).send();
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, None));
}

#[test]
fn a_configured_origin_is_answered_by_name_and_may_ask_first() {
    let world = Plan::new().origin("https://app.example").start();
    let ask = Call::new(world.address, "OPTIONS", "/v1/chat/completions")
        .header("origin", "https://app.example")
        .header("access-control-request-method", "POST")
        .send();
    assert_eq!(ask.status, 200);
    assert_eq!(ask.header("access-control-allow-origin"), Some("https://app.example"));
    assert!(ask.header("access-control-allow-headers").unwrap().contains("authorization"));

    let answer = world.call("GET", "/v1/models").header("origin", "https://app.example").send();
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(answer.header("vary"), Some("Origin"));
    assert_eq!(world.get("/v1/models").header("access-control-allow-origin"), None);
    let refused = Call::new(world.address, "GET", "/v1/models");
    let refused = refused.header("origin", "https://app.example").send();
    assert_eq!(refused.status, 401, "an allowed origin does not replace the token");
}

#[test]
fn pages_of_this_machine_may_be_allowed_at_any_port() {
    let world = Plan::new().origin("localhost").start();
    let ask = |origin| {
        let answer = world.call("GET", "/v1/models").header("origin", origin).send();
        (answer.status, answer.header("access-control-allow-origin").is_some())
    };
    for origin in ["http://localhost", "http://127.0.0.1:3000", "https://[::1]:3000"] {
        assert_eq!(ask(origin), (200, true), "{origin}");
    }
    for origin in ["http://notlocalhost", "http://localhost.evil.example", "localhost", "null"] {
        assert_eq!(ask(origin), (403, false), "{origin}");
    }
}

#[test]
fn unknown_paths_and_methods_are_errors() {
    let world = World::new();
    let answer = world.get("/v1/nothing");
    assert_eq!((answer.status, answer.error()["code"].as_str()), (404, Some("not_found")));
    let answer = world.get("/v1/chat/completions");
    assert_eq!((answer.status, answer.error()["code"].as_str()), (405, Some("method_not_allowed")));
    let answer = world.get("/v1/models/another");
    assert_eq!((answer.status, answer.error()["param"].as_str()), (404, Some("model")));
}

#[test]
fn a_body_is_bounded_in_size() {
    let world = World::new();
    let large = "x".repeat(100 << 10);
    let answer = world.post("/tokenize", json!({"content": large}));
    assert_eq!((answer.status, answer.error()["code"].as_str()), (413, Some("body_too_large")));

    let announced = world.call("POST", "/tokenize").header("content-length", "99999999").send();
    assert_eq!(announced.status, 413);
}

#[test]
fn a_body_is_bounded_in_time() {
    let world = Plan::new().body_time(Duration::from_millis(300)).start();
    let call = world.call("POST", "/tokenize").header("content-length", "20");
    let answer = call.send();
    assert_eq!((answer.status, answer.error()["code"].as_str()), (408, Some("timeout")));
}

#[test]
fn headers_are_bounded_in_size() {
    let world = World::new();
    let mut socket = TcpStream::connect(world.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!("GET /health HTTP/1.1\r\nx-filler: {}\r\n\r\n", "x".repeat(256 << 10));
    let _ = socket.write_all(head.as_bytes());
    let mut answer = [0; 12];
    let read = socket.read(&mut answer).unwrap_or(0);
    assert_ne!(&answer[..read], b"HTTP/1.1 200");
    assert_eq!(world.get("/v1/models").status, 200, "the daemon still serves other clients");
}

#[test]
fn a_body_of_another_type_is_refused() {
    let world = World::new();
    let call = world.call("POST", "/tokenize").header("content-type", "text/plain").body("words");
    let answer = call.send();
    assert_eq!(
        (answer.status, answer.error()["code"].as_str()),
        (415, Some("unsupported_media_type"))
    );
}
