//! Addresses and URLs: of this daemon, of servers, and of the shared tier.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use super::{InvalidValue, Raw, invalid, text};
use crate::values::SharedPlace;

/// An IP address and a port; `localhost` stands for 127.0.0.1.
pub fn address(raw: &Raw) -> Result<SocketAddr, InvalidValue> {
    let remedy = "write an IP address and a port, such as 127.0.0.1:8642";
    let url = text(raw)?;
    let address = url.strip_prefix("http://").unwrap_or(&url).trim_end_matches('/');
    if let Some(port) = address.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    address.parse().map_err(|_| invalid("is not an address", remedy))
}

/// A directory, or a bucket and a prefix in it.
pub fn shared(raw: &Raw) -> Result<SharedPlace, InvalidValue> {
    let remedy = "write file:///path for a directory, or s3://bucket/prefix";
    let url = text(raw)?;
    if let Some(path) = url.strip_prefix("file://") {
        let path = Path::new(path);
        return if path.is_absolute() {
            Ok(SharedPlace::Directory(path.to_owned()))
        } else {
            Err(invalid("is not the URL of an absolute path", remedy))
        };
    }
    let Some(place) = url.strip_prefix("s3://") else {
        return Err(invalid("is neither a directory nor a bucket", remedy));
    };
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let prefix = prefix.trim_end_matches('/');
    let mut names = prefix.split('/').filter(|_| !prefix.is_empty()).chain([bucket]);
    if names.any(|name| name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain)) {
        let problem = "has a name that is not made of letters, digits, `-`, `_` and `.`";
        return Err(invalid(problem, remedy));
    }
    Ok(SharedPlace::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
}

/// The URL of a server.
pub fn endpoint(raw: &Raw) -> Result<String, InvalidValue> {
    let url = text(raw)?;
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    if host.is_some_and(|host| !host.trim_end_matches('/').is_empty()) {
        Ok(url.trim_end_matches('/').to_owned())
    } else {
        Err(invalid("is not a URL", "write one such as https://s3.example:9000"))
    }
}

/// The URL of a server of OpenAI's API, without the `/v1` with which its routes begin.
pub fn upstream(raw: &Raw) -> Result<String, InvalidValue> {
    let url = endpoint(raw).map_err(|_| {
        invalid("is not the URL of a server", "write one such as http://127.0.0.1:8000")
    })?;
    Ok(url.strip_suffix("/v1").unwrap_or(&url).to_owned())
}

/// The path of elizaOS's device bridge.
const DEVICE_BRIDGE: &str = "/api/local-inference/device-bridge";

/// The URL of an elizaOS agent's device bridge, as a WebSocket's. The path may be left out.
pub fn device_bridge(raw: &Raw) -> Result<String, InvalidValue> {
    let given = text(raw)?;
    let schemes =
        [("ws://", "ws://"), ("http://", "ws://"), ("wss://", "wss://"), ("https://", "wss://")];
    let found = schemes.iter().find_map(|(from, to)| Some((given.strip_prefix(from)?, to)));
    let (host, path) = match found {
        Some((rest, _)) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", ""),
    };
    match found {
        Some((_, scheme)) if !host.is_empty() => {
            let path = if path.len() > 1 { path } else { DEVICE_BRIDGE };
            Ok(format!("{scheme}{host}{path}"))
        }
        _ => Err(invalid("is not the URL of an agent", "write one such as ws://127.0.0.1:3000")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::Text(text.to_owned())
    }

    #[test]
    fn an_address_needs_an_ip_and_a_port() {
        assert_eq!(address(&raw("[::1]:0")).unwrap().port(), 0);
        assert!(address(&raw("localhost:8642")).unwrap().ip().is_loopback());
        assert!(address(&raw("http://127.0.0.1:8642/")).unwrap().ip().is_loopback());
        for wrong in ["8642", "127.0.0.1", "example.org:80", ""] {
            assert!(address(&raw(wrong)).is_err(), "{wrong:?} was accepted");
        }
    }

    #[test]
    fn a_shared_place_is_a_directory_or_a_bucket() {
        let shown = |url: &str| shared(&raw(url)).map(|place| place.to_string());
        for url in ["file:///srv/hob", "s3://bucket", "s3://bucket/some/prefix"] {
            assert_eq!(shown(url).as_deref(), Ok(url));
        }
        assert_eq!(shown("s3://bucket/prefix/").as_deref(), Ok("s3://bucket/prefix"));
        for wrong in
            ["/srv/hob", "file://srv", "s3://", "s3:///x", "s3://a/../b", "s3://a b", "gs://a"]
        {
            assert!(shown(wrong).unwrap_err().remedy.contains("s3://bucket/prefix"), "{wrong}");
        }
        assert_eq!(endpoint(&raw("http://[::1]:9000/")).as_deref(), Ok("http://[::1]:9000"));
        for wrong in ["s3.example", "http://", "ftp://a"] {
            assert!(endpoint(&raw(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_addresses_of_engines_and_agents_are_completed() {
        assert_eq!(upstream(&raw("http://gpu:8000/v1/")).as_deref(), Ok("http://gpu:8000"));
        assert!(upstream(&raw("gpu:8000")).is_err());
        let bridge = Ok("ws://agent:3000/api/local-inference/device-bridge");
        assert_eq!(device_bridge(&raw("http://agent:3000/")).as_deref(), bridge);
        assert_eq!(device_bridge(&raw("wss://agent/x")).as_deref(), Ok("wss://agent/x"));
        assert!(device_bridge(&raw("ws:///x")).is_err() && device_bridge(&raw("agent")).is_err());
    }
}
