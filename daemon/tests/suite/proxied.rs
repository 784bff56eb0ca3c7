//! Three hobds behind a real proxy, set up by the files in `examples/`, with a shared tier: a conversation stays on
//! its daemon, moves when that is killed, goes on from the KV of the tier, and comes back.
//!
//! A test runs where its proxy is installed, as `cargo xtask setup` does it; elsewhere it says that it is skipped.
//! Continuous integration (`CI` is set) installs both: a proxy that is missing there fails its test.

use std::fs;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hob_testkit::client::Event;
use hob_testkit::{Answer, Client, Hobd, Launch, Process, free_port, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The addresses in the examples.
const DAEMONS: [&str; 3] = ["10.0.0.1:8642", "10.0.0.2:8642", "10.0.0.3:8642"];
const PROXY: &str = "127.0.0.1:8600";
const CHAT: &str = "/v1/chat/completions";
const TALKS: usize = 6;
/// Of each.
const TURNS: usize = 4;

/// Which model the daemons have.
#[derive(Clone, Copy)]
enum Model {
    Fake,
    #[cfg_attr(not(feature = "llama"), expect(dead_code))]
    Bundled,
}

impl Model {
    fn name(self) -> &'static str {
        match self {
            Self::Fake => "fake",
            Self::Bundled => "bundled",
        }
    }

    /// Long enough for several blocks, and slow to compute, so that fetching KV is quicker.
    fn question(self, name: &str) -> String {
        let words = "Please tell me something new about the sea and the long way home. ";
        match self {
            // No conversation begins like another one.
            Self::Fake => format!("Read this slowly: {name} {words}"),
            Self::Bundled => format!("{name} {}", words.repeat(8)),
        }
    }
}

#[test]
fn behind_haproxy_a_conversation_stays_moves_with_its_kv_and_comes_back() {
    let Some(program) = program("haproxy") else { return };
    stays_moves_and_comes_back(&World::start(Model::Fake, haproxy(program)));
}

#[test]
fn behind_nginx_a_conversation_stays_moves_with_its_kv_and_comes_back() {
    let Some(program) = program("nginx") else { return };
    stays_moves_and_comes_back(&World::start(Model::Fake, nginx(program)));
}

#[cfg(feature = "llama")]
#[test]
fn the_bundled_model_goes_on_from_the_shared_kv_behind_haproxy() {
    let Some(program) = program("haproxy") else { return };
    stays_moves_and_comes_back(&World::start(Model::Bundled, haproxy(program)));
}

fn haproxy(program: PathBuf) -> impl FnOnce(&Path, &Addresses) -> Command {
    |directory, addresses| {
        let file = configured(directory, "haproxy.cfg", addresses);
        let mut command = Command::new(program);
        command.arg("-db").arg("-f").arg(file);
        command
    }
}

fn nginx(program: PathBuf) -> impl FnOnce(&Path, &Addresses) -> Command {
    |directory, addresses| {
        let included = configured(directory, "nginx.conf", addresses);
        let file = directory.join("whole.conf");
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary = temporary.map(|name| format!("{name}_temp_path {name};")).concat();
        // As root, nginx computes as another user, who cannot write below a directory of this one.
        let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
        let text = format!(
            "daemon off; pid nginx.pid; {user} error_log stderr; worker_processes 1; events {{}} \
             http {{ access_log off; {temporary} include {}; }}",
            included.display()
        );
        fs::write(&file, text).unwrap();
        let mut command = Command::new(program);
        command.arg("-p").arg(directory).arg("-c").arg(file).args(["-e", "stderr"]);
        command
    }
}

fn stays_moves_and_comes_back(world: &World) {
    // The daemons' token, and no other, passes through.
    let without = hob_testkit::Call::new(world.proxy.address, "GET", "/v1/models").send();
    assert_eq!(without.status, 401, "{}", without.text());

    let mut talks: Vec<Talk> = (0..TALKS).map(|number| Talk::new(number, world.model)).collect();
    for talk in &mut talks {
        for _ in 0..TURNS {
            let before = talk.prompt_tokens;
            let tokens = world.ask(talk);
            assert!(reused(&tokens) >= before, "{}: {tokens} after {before}", talk.name);
        }
    }
    let owners: Vec<usize> = talks.iter().map(|talk| world.owner(&talk.name)).collect();
    assert!(owners.iter().any(|owner| *owner != owners[0]), "one daemon has all: {owners:?}");
    if let Model::Fake = world.model {
        each_token_passes_as_it_comes(world);
    }
    // Reading a conversation reaches its daemon, too: another one would fetch the text, and list it.
    for (talk, owner) in talks.iter().zip(&owners) {
        let version = if talk.in_header { "/v1" } else { "" }; // A client may leave it out.
        let path = format!("{version}/conversations/{}", talk.name.replace('.', "%2E")); // As `hob` writes it.
        let messages = world.proxy.get(&path)["messages"].as_array().unwrap().len();
        assert_eq!(messages, talk.messages.len(), "{}", talk.name);
        assert_eq!(world.owner(&talk.name), *owner);
    }

    let killed = owners[0];
    world.kill(killed);
    for (talk, owner) in talks.iter_mut().zip(&owners) {
        let (before, new) = (talk.prompt_tokens, talk.computed);
        let tokens = world.ask(talk);
        assert!(reused(&tokens) >= before, "{tokens} after {before}");
        // The same question as in each turn: it computes as many tokens, and perhaps the last one of the KV.
        assert!(talk.computed <= new + 1, "{tokens} after {new} computed");
        if *owner == killed {
            // All but what another conversation of that daemon begins with, too.
            assert!(tokens["disk"].as_u64() > Some(before / 2), "it had none of it: {tokens}");
        }
    }

    let again = world.launches[killed].start();
    for (talk, _) in talks.iter_mut().zip(&owners).filter(|(_, owner)| **owner == killed) {
        wait::until("the conversation is back on its daemon", || {
            let new = talk.computed;
            let tokens = world.ask(talk);
            let has_all = listed(&again.client, &talk.name) == Some(talk.messages.len());
            // What it had saved before it was killed, and what another daemon has added to it.
            has_all.then(|| {
                assert!(tokens["disk"].as_u64() > Some(0), "{tokens}");
                assert!(talk.computed <= new + 1, "{tokens} after {new} computed");
            })
        });
    }
}

/// The first tokens arrive while the fake model, which writes one each 10 ms, has hundreds of others to write.
fn each_token_passes_as_it_comes(world: &World) {
    let words = "one two three four five six seven eight nine ten ".repeat(40);
    let events = world.proxy.events(&json!({
        "stream": true, "max_tokens": 2000,
        "messages": [{"role": "user", "content": format!("Say this slowly: {words}")}],
    }));
    let has_text = |event: &Event| match event {
        Event::Data(data) => data["choices"][0]["delta"]["content"].as_str() > Some(""),
        Event::Done => false,
    };
    let mut arrived = events.filter(has_text);
    for _ in 0..5 {
        arrived.next().expect("the answer goes on");
    }
    let writes = |daemon: &Hobd| {
        let status = daemon.client.get("/v1/status");
        status["slots"].as_array().unwrap().iter().any(|slot| slot["state"] == "decoding")
    };
    assert!(world.daemons.iter().any(writes), "the proxy has held the answer back");
}

/// A conversation whose client sends its whole history.
struct Talk {
    /// Of the last prompt.
    prompt_tokens: u64,
    /// Of these, those that no KV was there for.
    computed: u64,
    name: String,
    question: String,
    /// Half of the clients name the conversation in a header, half in the body.
    in_header: bool,
    messages: Vec<Value>,
}

impl Talk {
    fn new(number: usize, model: Model) -> Self {
        let name = format!("talk.{number}");
        let question = model.question(&name);
        let in_header = number.is_multiple_of(2);
        Self { name, question, in_header, messages: Vec::new(), prompt_tokens: 0, computed: 0 }
    }

    /// Asks a further question; returns the tokens of the prompt by origin.
    fn ask(&mut self, proxy: &Client) -> Value {
        self.messages.push(json!({"role": "user", "content": self.question}));
        let mut body = json!({"temperature": 0, "max_tokens": 12, "messages": self.messages});
        let mut call = proxy.call("POST", CHAT);
        if self.in_header {
            call = call.header("x-session-id", &self.name);
        } else {
            body["conversation"] = self.name.clone().into();
        }
        let answer = call.json(&body).send();
        assert_eq!(answer.status, 200, "{}: {}", self.name, answer.text());
        let answer = answer.json();
        self.messages.push(answer["choices"][0]["message"].clone());
        let tokens = answer["hob"]["tokens"].clone();
        self.computed = tokens["computed"].as_u64().unwrap();
        self.prompt_tokens = reused(&tokens) + self.computed;
        tokens
    }
}

/// Tokens of a prompt that were not computed.
fn reused(tokens: &Value) -> u64 {
    let origins = ["shared", "memory", "disk", "away"];
    origins.iter().map(|name| tokens[name].as_u64().unwrap_or(0)).sum()
}

/// Three daemons and a proxy before them.
struct World {
    model: Model,
    launches: Vec<Launch>,
    daemons: Vec<Hobd>,
    proxy: Client,
    _process: Process,
    _directory: TempDir,
}

impl World {
    /// `command`: runs the proxy in a directory, at an address, for the daemons in `daemons` there.
    fn start(model: Model, command: impl FnOnce(&Path, &Addresses) -> Command) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let shared = directory.path().join("shared");
        fs::create_dir(&shared).unwrap();
        let shared = format!("file://{}", shared.display());
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let (mut launches, mut daemons) = (Vec::new(), Vec::new());
        let token = directory.path().join("token");
        for number in 0..DAEMONS.len() {
            let place = directory.path().join(number.to_string());
            fs::create_dir(&place).unwrap();
            let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), &place).fetching_shared_kv();
            let launch = launch.listen(SocketAddr::from(([127, 0, 0, 1], free_port())));
            let launch = launch.args(["--model", model.name(), "--threads", "1", "--log", "warn"]);
            let launch = launch.args(["--shared", &shared]);
            let launch = launch.args(["--token-file".as_ref(), token.as_os_str()]);
            let launch = launch.args(["--allow-host", &address.to_string()]);
            daemons.push(launch.start());
            launches.push(launch);
        }
        let addresses = daemons.iter().map(|daemon| daemon.client.address).collect();
        let addresses = Addresses { proxy: address, daemons: addresses };
        let mut command = command(directory.path(), &addresses);
        let process = Process::start(command.stdin(Stdio::null()));
        let proxy = Client { address, token: daemons[0].client.token.clone() };
        wait::until("the proxy answers", || {
            let health = proxy.call("GET", "/health").try_send().ok();
            health.filter(|answer: &Answer| answer.status == 200)
        });
        Self { model, launches, daemons, proxy, _process: process, _directory: directory }
    }

    /// The one daemon that has the conversation.
    fn owner(&self, name: &str) -> usize {
        let has = |number: &usize| listed(&self.daemons[*number].client, name).is_some();
        let owners: Vec<usize> = (0..self.daemons.len()).filter(has).collect();
        assert_eq!(owners.len(), 1, "{name} is on {owners:?}");
        owners[0]
    }

    /// Asks a further question, and waits until the shared tier has the turn. Returns the tokens of the prompt.
    fn ask(&self, talk: &mut Talk) -> Value {
        let before = self.published();
        let tokens = talk.ask(&self.proxy);
        wait::until("the turn is published", || (self.published() > before).then_some(()));
        tokens
    }

    /// How often the daemons that run have written to the shared tier.
    fn published(&self) -> u64 {
        let of = |daemon: &Hobd| daemon.client.try_status()?["shared"]["published"].as_u64();
        self.daemons.iter().filter_map(of).sum()
    }

    fn kill(&self, number: usize) {
        let daemon = &self.daemons[number];
        Process::signal(daemon.process.id(), hob_testkit::Signal::KILL);
        // While it dies, the system accepts connections for it; a request then fails, and is sent again.
        wait::until("it refuses connections", || TcpStream::connect(daemon.client.address).err());
    }
}

struct Addresses {
    proxy: SocketAddr,
    daemons: Vec<SocketAddr>,
}

/// Messages of a conversation on a daemon's own list, which asks the shared tier for nothing; `None` where it is not
/// on it.
fn listed(client: &Client, name: &str) -> Option<usize> {
    let list = client.get("/v1/conversations");
    let found = list["data"].as_array().unwrap().iter().find(|entry| entry["id"] == name)?;
    found["message_count"].as_u64().map(|count| count as usize)
}

/// Writes the example with these addresses instead of its own.
fn configured(directory: &Path, name: &str, addresses: &Addresses) -> PathBuf {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    let mut text = fs::read_to_string(example).unwrap();
    let pairs = DAEMONS.iter().zip(&addresses.daemons);
    for (shown, used) in pairs.chain([(&PROXY, &addresses.proxy)]) {
        assert!(text.contains(shown), "{name} names {shown}");
        text = text.replace(shown, &used.to_string());
    }
    let file = directory.join(name);
    fs::write(&file, text).unwrap();
    file
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let found = places.map(|place| place.join(name)).find(|file| file.is_file());
    if found.is_none() {
        let missing = format!("{name} is not installed; `cargo xtask setup` installs it");
        let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        assert!(!is_ci, "{missing}");
        // Past the test harness, which shows nothing that a passed test prints.
        writeln!(io::stderr(), "a conversation behind {name} ... skipped: {missing}").ok();
    }
    found
}
