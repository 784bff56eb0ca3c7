//! The weights are unloaded and come back.

use super::*;

fn world(unload_after: u64) -> World {
    let unload_after = Some(Duration::from_secs(unload_after));
    let settings = Settings { unload_after, ..Settings::default() };
    World { planner: Planner::new(settings), now: Timestamp(1_000_000_000) }
}

impl World {
    fn model(&mut self, event: Event) -> &mut Self {
        self.planner.handle(event, self.now);
        self
    }

    fn unloads(&mut self) -> bool {
        self.wake().contains(&Action::Unload)
    }
}

fn ready() -> Event {
    Event::ModelReady { prefixes: vec![PrefixName::Profile("default".parse().unwrap())] }
}

#[test]
fn weights_are_unloaded_once_after_the_idle_time() {
    let mut world = world(30 * MINUTE);
    world.model(ready());
    assert!(!world.sleep(29 * MINUTE).unloads());
    world.speak("chat");
    assert!(!world.sleep(29 * MINUTE).unloads());
    assert!(world.sleep(MINUTE).unloads());
    assert!(!world.sleep(MINUTE).unloads());
}

#[test]
fn an_unloaded_model_warms_no_prefix_and_causes_no_wake() {
    let mut world = world(30 * MINUTE);
    world.model(ready()).sleep(31 * MINUTE).wake();
    world.model(Event::ModelUnloaded);
    assert_eq!(world.planner.next_wake(), None);
    assert_eq!(world.sleep(24 * 60 * MINUTE).wake(), []);
    world.model(ready());
    let warm = Action::Warm(PrefixName::Profile("default".parse().unwrap()));
    assert!(world.wake().contains(&warm), "they are back");
}

#[test]
fn weights_stay_during_a_turn_and_after_a_refusal() {
    let mut world = world(30 * MINUTE);
    world.model(ready()).start("chat");
    assert!(!world.sleep(60 * MINUTE).unloads());
    world.end("chat");
    assert!(world.sleep(30 * MINUTE).unloads());
    world.model(Event::UnloadRefused);
    assert!(!world.sleep(29 * MINUTE).unloads());
    assert!(world.sleep(MINUTE).unloads());
}

#[test]
fn weights_stay_forever_by_default() {
    let mut world = World::new();
    world.model(ready());
    assert!(!world.sleep(1_000_000).unloads());
}

#[test]
fn turns_without_a_conversation_keep_the_weights_in_memory() {
    let mut world = world(30 * MINUTE);
    let turn = |started: bool| {
        if started {
            Event::TurnStarted { conversation: None }
        } else {
            Event::TurnEnded { conversation: None }
        }
    };
    world.model(ready());
    for _ in 0..4 {
        assert!(!world.sleep(20 * MINUTE).unloads());
        world.model(turn(true)).sleep(1).model(turn(false));
    }
    world.model(turn(true));
    assert!(!world.sleep(60 * MINUTE).unloads(), "it still runs");
    world.model(turn(false));
    assert!(world.sleep(30 * MINUTE).unloads());
}

#[test]
fn a_request_may_ask_for_another_time_once() {
    let mut world = world(30 * MINUTE);
    let stay = |secs| Event::StayLoaded(Some(StayLoaded::For(Duration::from_secs(secs))));
    world.model(ready()).model(stay(5 * MINUTE));
    assert!(!world.sleep(4 * MINUTE).unloads());
    assert_eq!(world.planner.unload_at(), Some(world.now.after(Duration::from_secs(MINUTE))));
    assert!(world.sleep(MINUTE).unloads());
    world.model(Event::ModelUnloaded).model(ready());
    assert!(!world.sleep(29 * MINUTE).unloads(), "the setting counts again");
    assert!(world.sleep(MINUTE).unloads());
}

#[test]
fn weights_stay_forever_where_a_request_asks_for_it() {
    let mut world = world(30 * MINUTE);
    world.model(ready()).model(Event::StayLoaded(Some(StayLoaded::Forever)));
    assert!(!world.sleep(24 * 60 * MINUTE).unloads());
    world.model(Event::StayLoaded(None));
    assert!(world.unloads());
}

#[test]
fn a_refused_wish_is_not_repeated() {
    let mut world = World::new();
    let now = StayLoaded::For(Duration::ZERO);
    world.model(ready()).start("chat");
    world.model(Event::StayLoaded(Some(now)));
    assert!(!world.unloads());
    world.end("chat");
    assert!(world.unloads());
    world.model(Event::UnloadRefused);
    assert!(!world.sleep(MINUTE).unloads());
    assert_eq!(world.planner.unload_at(), None);
}
