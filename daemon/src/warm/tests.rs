//! The warming loop with a real engine on the fake model; each profile is one text.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use hob_prewarm::{Keepalive, PrefixState, TokenOrigin};
use hob_runtime::backend::fake::FakeModel;
use hob_runtime::{EngineOptions, EngineStatus, Model};
use hob_slots::store::Store;
use hob_slots::{ConversationId, ModelHash, Token, TtlClass};

use super::events::WarmEvents;
use super::prefixes::ProfilePrefix;
use super::warm_status::{WarmStatus, WarmStatusReader, warm_status};
use super::*;
use crate::clock::ProcessTime;
use crate::error::ApiError;
use parking_lot::Mutex;

/// Of a state that is to come, each after 10 ms: 180 s, on a machine that may compute other things.
const POLLS: u32 = 18_000;

const RULES: &str = "You are a kettle on a shelf beside the fire. Answer in one short sentence. ";

#[tokio::test]
async fn at_boot_every_prefix_becomes_hot_and_a_prompt_with_the_same_prefix_computes_only_the_rest()
{
    let world = World::new(&[("default", RULES), ("attic", "A spider. ")]).start(None);
    world.boot();
    let warm_status = world.until_warm(2).await;
    let warmed = warm_status.prefixes[&name("default")].warmed.unwrap();
    assert_eq!((warmed.from.main(), warmed.from.computed), (TokenOrigin::Computed, RULES.len()));
    assert_eq!(warm_status.outcomes[&Outcome::Warm(TokenOrigin::Computed)], 2);

    let asked = world.ask("chat", &format!("{RULES}Hello")).await;
    assert_eq!(asked.computed, "Hello".len());
}

#[tokio::test]
async fn the_second_boot_reads_its_prefixes_and_computes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for boot in 0..3 {
        let world = World::new(&[("default", RULES), ("attic", "A spider. ")]);
        let world = world.start(Some(directory.path()));
        world.boot();
        let warm_status = world.until_warm(2).await;
        let computed: Vec<usize> = warm_status
            .prefixes
            .values()
            .map(|prefix| prefix.warmed.unwrap().from.computed)
            .collect();
        if boot == 0 {
            assert_eq!(computed, ["A spider. ".len(), RULES.len()]);
        } else {
            assert_eq!(computed, [0, 0]);
            assert_eq!(
                warm_status.outcomes,
                BTreeMap::from([(Outcome::Warm(TokenOrigin::Disk), 2)])
            );
            assert_eq!(world.status().await.counters.computed_tokens, 0);
        }
        world.engine.shutdown();
    }
}

#[tokio::test]
async fn a_changed_profile_computes_what_follows_the_change_and_nothing_before_it() {
    let world = World::new(&[("default", &format!("{RULES}It is winter."))]).start(None);
    world.boot();
    world.until_warm(1).await;
    world.change("default", &format!("{RULES}It is summer."));
    let is_new = |warm_status: &WarmStatus| {
        warm_status.prefixes[&name("default")].warmed.unwrap().from.shared > 0
    };
    let warm_status = world.until(is_new).await;
    let from = warm_status.prefixes[&name("default")].warmed.unwrap().from;
    assert_eq!((from.shared, from.computed), (RULES.len() + "It is ".len(), "summer.".len()));
}

#[tokio::test]
async fn a_prewarm_is_cancelled_and_restarted_when_its_profile_changes() {
    let model = FakeModel::new().with_pace(Duration::from_millis(2));
    let world = World { model, ..World::new(&[("default", &RULES.repeat(40))]) }.start(None);
    world.boot();
    for _ in 0..POLLS {
        let EngineStatus { slots, prefixes, .. } = world.status().await;
        if slots.iter().chain(&prefixes).any(|slot| slot.tokens > 0) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world.change("default", "You are a kettle.");
    let warm_status = world.until_warm(1).await;
    let warmed = warm_status.prefixes[&name("default")].warmed.unwrap();
    assert_eq!(warmed.from.tokens(), "You are a kettle.".len());
    assert_eq!(warm_status.outcomes[&Outcome::Cancelled], 1);
}

#[tokio::test]
async fn a_profile_that_cannot_be_warmed_says_why_and_delays_no_other() {
    let long = "x".repeat(5_000);
    let world = World::new(&[("long", &long), ("default", RULES)]).start(None);
    world.boot();
    let both = |warm_status: &WarmStatus| {
        let state = |profile: &str| warm_status.prefixes.get(&name(profile)).cloned();
        state("default").is_some_and(|prefix| prefix.state == PrefixState::Warm)
            && state("long").is_some_and(|prefix| prefix.failed.is_some())
    };
    let warm_status = world.until(both).await;
    let failed = warm_status.prefixes[&name("long")].failed.clone().unwrap();
    assert!(failed.reason.contains("the prompt has 5000 tokens"), "{}", failed.reason);
    assert_eq!(warm_status.outcomes[&Outcome::Failed], 1, "it is not tried again at once");
}

#[tokio::test]
async fn a_prefix_that_is_no_longer_learned_is_not_tried_again() {
    let world = World::new(&[("default", RULES)]).start(None);
    let prefixes = vec![name("gone"), name("default")];
    world.events.send(Event::ModelReady { prefixes });
    let warm_status = world.until_warm(1).await;
    assert_eq!(warm_status.prefixes.get(&name("gone")), None);
    assert_eq!(warm_status.outcomes.get(&Outcome::Failed), None);
}

#[tokio::test]
async fn a_hot_prefix_is_touched_and_nothing_is_computed_for_it() {
    let mut world = World::new(&[("default", RULES)]);
    world.keepalive = often();
    let world = world.start(None);
    world.boot();
    world.until_warm(1).await;
    let before = world.status().await.counters.computed_tokens;
    let touches = |warm_status: &WarmStatus| {
        warm_status.outcomes.get(&Outcome::Warm(TokenOrigin::Shared)).copied()
    };
    let warm_status = world.until(|warm_status| touches(warm_status) >= Some(3)).await;
    let warmed = warm_status.prefixes[&name("default")].warmed.unwrap();
    assert!(warmed.touched > warmed.at);
    assert_eq!(
        warmed.from.main(),
        TokenOrigin::Computed,
        "a touch does not replace how it became warm"
    );
    assert_eq!(world.status().await.counters.computed_tokens, before);
}

#[tokio::test]
async fn keep_alive_evicts_nothing() {
    let mut world = World::new(&[("default", RULES)]);
    world.keepalive = often();
    world.options.prefixes = 1;
    let world = world.start(None);
    world.boot();
    world.until_warm(1).await;
    // Another prefix takes the only prefix slot.
    let profiles = world.texts.clone();
    profiles.texts.lock().insert(name("attic"), "You are a spider. ".to_owned());
    let made = job::make_hot(world.engine.clone(), profiles, name("attic"), Purpose::Prewarm).await;
    assert_eq!(made.unwrap().computed, "You are a spider. ".len());
    let owner = |status: EngineStatus| status.prefixes[0].conversation.clone();
    assert_eq!(owner(world.status().await), Some(name("attic").id()));

    let count = |warm_status: &WarmStatus| warm_status.outcomes.values().sum::<u64>();
    let counted = count(&world.reader.read());
    world.until(|warm_status| count(warm_status) >= counted + 3).await;
    assert_eq!(owner(world.status().await), Some(name("attic").id()));
}

#[tokio::test]
async fn reloaded_weights_bring_their_prefixes_and_compute_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::new(&[("default", RULES)]).start(Some(directory.path()));
    world.boot();
    world.until_warm(1).await;
    let before = world.status().await.counters.computed_tokens;
    assert!(world.engine.unload().await);
    world
        .until(|warm_status| warm_status.prefixes[&name("default")].state == PrefixState::Waiting)
        .await;
    world.engine.load();
    let warm_status = world.until_warm(1).await;
    assert_eq!(warm_status.prefixes[&name("default")].warmed.unwrap().from.computed, 0);
    assert_eq!(warm_status.outcomes.get(&Outcome::Failed), None);
    assert_eq!(world.status().await.counters.computed_tokens, before);
}

#[tokio::test]
async fn an_idle_conversation_is_parked() {
    let mut world = World::new(&[]);
    world.idle_after = Duration::from_millis(50);
    let world = world.start(None);
    world.ask("chat", "Hello").await;
    let conversation = ConversationId::new("chat").unwrap();
    world.events.send(Event::TurnEnded { conversation: Some(conversation.clone()) });
    for _ in 0..POLLS {
        if world.status().await.parked.iter().any(|saved| saved.conversation == conversation) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing is parked");
}

/// A loop before its start.
struct World {
    model: FakeModel,
    options: EngineOptions,
    keepalive: Keepalive,
    idle_after: Duration,
    texts: BTreeMap<PrefixName, String>,
    order: Vec<PrefixName>,
}

struct Running {
    engine: Engine,
    texts: Texts,
    order: Vec<PrefixName>,
    events: WarmEvents,
    reader: WarmStatusReader,
}

#[derive(Clone)]
struct Texts {
    engine: Engine,
    texts: Arc<Mutex<BTreeMap<PrefixName, String>>>,
}

impl Prefixes for Texts {
    async fn prefix(&self, profile: &PrefixName) -> Result<ProfilePrefix, ApiError> {
        let texts = self.texts.lock();
        let text = texts.get(profile).ok_or_else(|| ApiError::not_found("it is not learned"))?;
        let tokens = self.engine.model().tokenize(text, false, true);
        Ok(named(profile.id(), tokens))
    }
}

impl World {
    fn new(profiles: &[(&str, &str)]) -> Self {
        let options = EngineOptions {
            context_tokens: 4096,
            micro_batch: 32,
            micro_batch_target: None,
            ..EngineOptions::default()
        };
        Self {
            model: FakeModel::new(),
            options,
            keepalive: Keepalive::default(),
            idle_after: Duration::from_secs(3600),
            order: profiles.iter().map(|(profile, _)| name(profile)).collect(),
            texts: profiles.iter().map(|(at, text)| (name(at), (*text).to_owned())).collect(),
        }
    }

    fn start(self, directory: Option<&Path>) -> Running {
        let store = directory.map(|path| Arc::new(Store::open(path).unwrap()));
        let model: Arc<dyn Model> = Arc::new(self.model);
        let engine = Engine::start(model, ModelHash([7; 8]), store, self.options).unwrap();
        let (events, inbox) = WarmEvents::channel();
        let (writer, reader) = warm_status();
        let texts = Texts { engine: engine.clone(), texts: Arc::new(Mutex::new(self.texts)) };
        let settings =
            Settings { idle_after: self.idle_after, keepalive: self.keepalive, unload_after: None };
        tokio::spawn(run(Options {
            engine: engine.clone(),
            prefixes: texts.clone(),
            settings,
            time: ProcessTime::system(),
            read_battery: || None,
            events: inbox,
            warm_status: writer,
        }));
        Running { engine, texts, order: self.order, events, reader }
    }
}

impl Running {
    fn boot(&self) {
        self.events.send(Event::ModelReady { prefixes: self.order.clone() });
    }

    fn change(&self, profile: &str, text: &str) {
        self.texts.texts.lock().insert(name(profile), text.to_owned());
        self.events.send(Event::PrefixChanged { prefix: name(profile) });
    }

    async fn ask(&self, conversation: &str, text: &str) -> TokenOrigins {
        let tokens = self.engine.model().tokenize(text, false, true);
        let prefix = named(ConversationId::new(conversation).unwrap(), tokens);
        let request = job::request(prefix, Purpose::Answer);
        job::report(self.engine.submit(request).unwrap()).await.unwrap()
    }

    async fn status(&self) -> EngineStatus {
        self.engine.status().await.unwrap()
    }

    async fn until(&self, done: impl Fn(&WarmStatus) -> bool) -> WarmStatus {
        for _ in 0..POLLS {
            let warm_status = self.reader.read();
            if done(&warm_status) {
                return warm_status;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("still not: {:?}", self.reader.read());
    }

    async fn until_warm(&self, profiles: usize) -> WarmStatus {
        let warm = |prefix: &&hob_prewarm::TrackedPrefix| prefix.state == PrefixState::Warm;
        self.until(|warm_status| warm_status.prefixes.values().filter(warm).count() == profiles)
            .await
    }
}

/// Keep-alive every 20 ms.
fn often() -> Keepalive {
    let short = Duration::from_millis(20);
    Keepalive { interval: short, short_ttl: short, battery_percent: 0 }
}

fn named(id: ConversationId, tokens: Vec<Token>) -> ProfilePrefix {
    ProfilePrefix { id, class: TtlClass::Long, tokens, segments: Vec::new() }
}

fn name(text: &str) -> PrefixName {
    PrefixName::Profile(text.parse().unwrap())
}
