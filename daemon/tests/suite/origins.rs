//! Pages of other origins: what browsers ask before a request, and how an origin is compared.

use crate::common::{Answer, Call, Plan, World};

const CHAT: &str = "/v1/chat/completions";

/// A browser's question before a request with these headers.
fn preflight(world: &World, origin: &str, headers: &str) -> Answer {
    Call::new(world.address, "OPTIONS", CHAT)
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", headers)
        .send()
}

#[test]
fn a_page_may_send_the_headers_of_its_sdk() {
    let world = Plan::new().origin("https://app.example").start();
    let asked = "authorization,content-type,x-stainless-os,x-stainless-retry-count";
    let answer = preflight(&world, "https://app.example", asked);
    let allowed = answer.header("access-control-allow-headers").unwrap().to_owned();
    let allowed: Vec<&str> = allowed.split(',').map(str::trim).collect();
    for name in asked.split(',').chain(["x-session-id"]) {
        assert!(allowed.contains(&name), "{name} in {allowed:?}");
    }
    let refused = preflight(&world, "https://evil.example", asked);
    assert_eq!((refused.status, refused.header("access-control-allow-headers")), (403, None));
    let answer = world.call("GET", "/v1/models").header("origin", "https://app.example").send();
    assert_eq!(answer.header("access-control-expose-headers"), Some("retry-after"));
}

#[test]
fn an_origin_is_compared_as_browsers_write_it() {
    for (set, sent) in [
        ("file://", "file://"),
        ("https://App.Example/", "https://app.example"),
        ("VSCODE-WEBVIEW://Abc", "vscode-webview://abc"),
        ("null", "null"),
        ("*", "http://localhost:3000"),
    ] {
        let world = Plan::new().origin(set).start();
        let call = world.call("GET", "/v1/models").header("origin", sent);
        let answer = call.send();
        let allowed = answer.header("access-control-allow-origin");
        assert_eq!((answer.status, allowed), (200, Some(sent)), "{set}");
        let call = Call::new(world.address, "GET", "/v1/models").header("origin", sent);
        assert_eq!(call.send().status, 401, "{set}: the token is still needed");
    }
}
