//! The weights leave and come back.

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
    Event::ModelReady { profiles: vec!["default".parse().unwrap()] }
}

#[test]
fn they_leave_once_when_nobody_has_spoken_for_so_long() {
    let mut world = world(30 * MINUTE);
    world.model(ready());
    assert!(!world.sleep(29 * MINUTE).unloads());
    world.speak("chat");
    assert!(!world.sleep(29 * MINUTE).unloads());
    assert!(world.sleep(MINUTE).unloads());
    assert!(!world.sleep(MINUTE).unloads());
}

#[test]
fn while_they_are_away_nothing_is_made_warm_and_nothing_wakes_us() {
    let mut world = world(30 * MINUTE);
    world.model(ready()).sleep(31 * MINUTE).wake();
    world.model(Event::ModelUnloaded);
    assert_eq!(world.planner.next_wake(), None);
    assert_eq!(world.sleep(24 * 60 * MINUTE).wake(), []);
    world.model(ready());
    let warm = Action::Warm("default".parse().unwrap());
    assert!(world.wake().contains(&warm), "they are back");
}

#[test]
fn they_stay_while_somebody_speaks_and_when_the_engine_says_so() {
    let mut world = world(30 * MINUTE);
    world.model(ready()).start("chat");
    assert!(!world.sleep(60 * MINUTE).unloads());
    world.end("chat");
    assert!(world.sleep(30 * MINUTE).unloads());
    world.model(Event::ModelStays);
    assert!(!world.sleep(29 * MINUTE).unloads());
    assert!(world.sleep(MINUTE).unloads());
}

#[test]
fn unless_it_is_asked_for_they_stay_for_ever() {
    let mut world = World::new();
    world.model(ready());
    assert!(!world.sleep(1_000_000).unloads());
}
