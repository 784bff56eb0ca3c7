//! Keep-alive rounds.

use super::prefixes::{computed, name, shared};
use super::*;
use crate::prefix::TokenOrigin;

impl World {
    /// Answers every touch at once, as a hot prefix does; returns the profiles.
    fn round(&mut self) -> Vec<String> {
        let mut touched = Vec::new();
        self.planner.wake(self.now);
        while let Some(action) = self.next_action() {
            let Action::Touch(profile) = action else { panic!("{action:?} in a round") };
            touched.push(profile.as_str().to_owned());
            self.done(profile.as_str(), shared(100));
        }
        touched
    }

    /// Sleeps until the planner wakes; returns the seconds.
    fn sleep_until_due(&mut self) -> u64 {
        let due = self.planner.next_wake().expect("something is due");
        let slept = self.now.age(due).as_secs();
        self.now = due;
        slept
    }

    fn battery(&mut self, percent: u8, charging: bool) -> &mut Self {
        self.tell(Event::Battery(Battery { percent, charging }))
    }
}

const NONE: [&str; 0] = [];

#[test]
fn a_warm_prefix_is_touched_every_four_minutes() {
    let mut world = World::new();
    world.warm_all(&["default"]);
    for _ in 0..10 {
        assert_eq!(world.sleep_until_due(), 4 * MINUTE);
        assert_eq!(world.round(), ["default"]);
        assert_eq!(world.round(), NONE);
    }
}

#[test]
fn no_prefix_is_untouched_for_longer_than_the_short_ttl() {
    let mut world = World::new();
    world.warm_all(&["attic", "bath"]).sleep(100).use_prefix("bath");
    assert_eq!(world.sleep_until_due(), 140);
    // After 140 seconds the bath needs no touch yet, but would wait for six minutes more.
    assert_eq!(world.round(), ["attic", "bath"]);
}

#[test]
fn a_recently_used_prefix_is_not_touched() {
    let mut world = World::new();
    world.warm_all(&["attic", "bath"]).sleep(4 * MINUTE - 20).use_prefix("bath").sleep(20);
    assert_eq!(world.round(), ["attic"]);
    assert_eq!(world.sleep_until_due(), 4 * MINUTE, "the next round is an interval later");
    assert_eq!(world.round(), ["attic", "bath"]);
}

#[test]
fn a_prefix_that_is_used_all_the_time_is_never_touched() {
    let mut world = World::new();
    world.warm_all(&["default"]);
    for _ in 0..100 {
        world.sleep(3 * MINUTE).use_prefix("default");
        assert_eq!(world.round(), NONE);
    }
}

#[test]
fn a_touch_waits_for_the_end_of_the_turn() {
    let mut world = World::new();
    world.warm_all(&["default"]).sleep(4 * MINUTE - 1).start("chat").sleep(MINUTE);
    assert_eq!(world.round(), NONE);
    assert_eq!(world.planner.next_wake(), None, "the end of the turn plans again");
    assert_eq!(world.end("chat").round(), ["default"]);
}

#[test]
fn a_touch_is_cancelled_by_a_turn_and_repeated_after_it() {
    let mut world = World::new();
    world.warm_all(&["attic", "bath"]).sleep(4 * MINUTE);
    assert_eq!(world.wake(), [Action::Touch(name("attic"))]);
    assert_eq!(world.start("chat").wake(), [Action::Cancel(name("attic"))]);
    assert_eq!(world.start("other").sleep(MINUTE).end("chat").wake(), [], "one turn still runs");
    assert_eq!(world.end("other").round(), ["attic", "bath"]);
}

#[test]
fn a_touch_does_not_count_as_a_turn_of_a_conversation() {
    let mut world = World::new();
    world.warm_all(&["default"]).speak("chat").sleep(4 * MINUTE);
    assert_eq!(world.round(), ["default"]);
    assert_eq!(world.sleep(MINUTE).parked_now(), ["chat"]);
}

#[test]
fn keep_alive_parks_and_warms_nothing() {
    let mut world = World::new();
    world.warm_all(&["attic", "bath"]).start("chat").end("chat").parked_now();
    let day = world.now.after(Duration::from_secs(24 * 60 * MINUTE));
    while world.now < day {
        world.sleep_until_due();
        let mut others = world.wake();
        others.retain(|action| !matches!(action, Action::Touch(_)));
        for profile in ["attic", "bath"] {
            world.done(profile, shared(100)).wake();
        }
        assert!(others.iter().all(|action| *action == Action::Park(id("chat"))), "{others:?}");
    }
}

#[test]
fn a_touch_reports_new_origins_only_when_the_prefix_was_not_hot() {
    let mut world = World::new();
    world.warm_all(&["default"]);
    let warmed = |world: &World| world.planner.prefixes().next().unwrap().1.warmed.unwrap();
    let at = world.now;
    world.sleep(4 * MINUTE).round();
    assert_eq!((warmed(&world).from.main(), warmed(&world).at), (TokenOrigin::Computed, at));
    assert_eq!(warmed(&world).touched, world.now);

    world.sleep(4 * MINUTE).wake();
    world.done("default", TokenOrigins { disk: 99, computed: 1, ..TokenOrigins::default() });
    assert_eq!((warmed(&world).from.main(), warmed(&world).at), (TokenOrigin::Disk, world.now));
}

#[test]
fn a_failed_touch_becomes_a_prewarm_that_is_retried() {
    let mut world = World::new();
    world.warm_all(&["default"]).sleep(4 * MINUTE).wake();
    assert_eq!(world.fail("default").wake(), []);
    assert_eq!(world.sleep_until_due(), 5);
    assert_eq!(world.wake(), [Action::Warm(name("default"))]);
}

#[test]
fn a_changed_prefix_is_warmed_before_others_are_touched() {
    let mut world = World::new();
    world.warm_all(&["attic", "bath", "cellar"]).sleep(4 * MINUTE);
    assert_eq!(world.wake(), [Action::Touch(name("attic"))]);
    world.change("cellar").done("attic", shared(100));
    assert_eq!(world.wake(), [Action::Warm(name("cellar"))]);
    assert_eq!(world.done("cellar", computed(9)).wake(), [Action::Touch(name("bath"))]);
}

#[test]
fn a_low_battery_stops_touches_until_the_machine_charges() {
    let mut world = World::new();
    world.warm_all(&["default"]).battery(19, false).sleep(4 * MINUTE);
    assert_eq!(world.round(), NONE);
    assert_eq!(world.sleep_until_due(), 4 * MINUTE, "only to read the battery");
    assert_eq!(world.battery(18, false).round(), NONE);
    assert_eq!(world.sleep(MINUTE).battery(18, true).round(), ["default"]);
    assert_eq!(world.sleep_until_due(), 4 * MINUTE);
}

#[test]
fn a_battery_that_becomes_low_ends_the_round() {
    let mut world = World::new();
    world.warm_all(&["attic", "bath"]).sleep(4 * MINUTE);
    assert_eq!(world.wake(), [Action::Touch(name("attic"))]);
    assert_eq!(world.battery(19, false).done("attic", shared(100)).wake(), []);
    assert!(world.planner.next_wake().is_some());
    assert_eq!(world.battery(20, false).round(), ["bath"]);
}

#[test]
fn a_low_battery_does_not_keep_a_changed_profile_cold() {
    let mut world = World::new();
    world.warm_all(&["default"]).battery(5, false).change("default");
    assert_eq!(world.wake(), [Action::Warm(name("default"))]);
}

#[test]
fn a_threshold_of_zero_ignores_the_battery() {
    let mut world = World::new();
    let keepalive = Keepalive { battery_percent: 0, ..Keepalive::default() };
    world.planner = Planner::new(Settings { keepalive, ..Settings::default() });
    world.warm_all(&["default"]).battery(0, false).sleep(4 * MINUTE);
    assert_eq!(world.round(), ["default"]);
}

#[test]
fn a_laptops_sleep_causes_one_round() {
    let mut world = World::new();
    world.warm_all(&["attic", "bath"]).sleep(9 * 60 * MINUTE);
    assert_eq!(world.round(), ["attic", "bath"]);
    assert_eq!(world.sleep_until_due(), 4 * MINUTE);
}

#[test]
fn a_clock_step_back_causes_one_round_and_not_early() {
    let mut world = World::new();
    world.warm_all(&["default"]).sleep(4 * MINUTE).round();
    world.sleep(MINUTE).step_back(24 * 60 * MINUTE);
    assert_eq!(world.round(), NONE);
    assert_eq!(world.sleep_until_due(), 4 * MINUTE);
    assert_eq!(world.round(), ["default"]);
    assert_eq!(world.sleep_until_due(), 4 * MINUTE);
}

#[test]
fn an_interval_longer_than_the_ttl_applies() {
    let mut world = World::new();
    let interval = Duration::from_secs(30 * MINUTE);
    let keepalive = Keepalive { interval, ..Keepalive::default() };
    world.planner = Planner::new(Settings { keepalive, ..Settings::default() });
    world.warm_all(&["default"]).sleep(4 * MINUTE);
    assert_eq!(world.round(), ["default"]);
    assert_eq!(world.sleep_until_due(), 30 * MINUTE);
}

#[test]
fn twenty_warm_prefixes_without_turns_wake_the_loop_only_for_keep_alive() {
    let mut world = World::new();
    let names: Vec<String> = (0..20).map(|number| format!("room-{number}")).collect();
    world.warm_all(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let week = Duration::from_secs(7 * 24 * 60 * MINUTE);
    let (began, mut wakes) = (world.now, 0);
    while began.age(world.now) < week {
        assert_eq!(world.sleep_until_due(), 4 * MINUTE);
        assert_eq!(world.round().len(), 20);
        wakes += 1;
    }
    assert_eq!(wakes, 7 * 24 * 60 / 4);
}

/// Turns run, profiles change and fail, the battery runs down, the laptop sleeps and the clock
/// jumps. Between these the loop sleeps until the planner's next wake, like the daemon's.
#[test]
fn prefixes_stay_touched_and_the_loop_does_not_spin_in_a_week_of_use() {
    let mut world = World::new();
    let mut week = Week { on_power: true, fails: false, actions: 0 };
    world.boot(&["attic", "bath", "cellar"]);
    let end = world.now.after(Duration::from_secs(7 * 24 * 60 * MINUTE));
    let mut step = 0_u64;
    while world.now < end {
        step += 1;
        let chance = step.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let profile = ["attic", "bath", "cellar"][(chance % 3) as usize];
        week.fails = chance.is_multiple_of(17);
        match chance % 23 {
            0 => {
                world.start("chat");
                week.pass(&mut world, chance % MAX_TURN_SECS);
                world.end("chat");
            }
            1 => drop(world.use_prefix(profile)),
            2 if chance.is_multiple_of(5) => drop(world.change(profile)),
            3 => {
                let (percent, charging) = ((chance % 100) as u8, chance.is_multiple_of(2));
                week.on_power = charging || percent >= 20;
                world.battery(percent, charging);
            }
            4 if chance.is_multiple_of(31) => drop(world.step_back(chance % 7_200)),
            5 if chance.is_multiple_of(31) => drop(world.sleep(8 * 60 * MINUTE)),
            _ => {}
        }
        week.pass(&mut world, chance % 240);
    }
    // Three prefixes and 2,520 intervals of four minutes, on power for three fifths of them.
    assert!((3_000..9_000).contains(&week.actions), "{} actions", week.actions);
}

const MAX_TURN_SECS: u64 = 90;

struct Week {
    on_power: bool,
    fails: bool,
    actions: usize,
}

impl Week {
    fn pass(&mut self, world: &mut World, seconds: u64) {
        let end = world.now.after(Duration::from_secs(seconds));
        self.act(world);
        while let Some(wake) = world.planner.next_wake().filter(|wake| *wake <= end) {
            assert!(wake > world.now, "the planner asks to be woken at once");
            world.now = wake;
            self.act(world);
        }
        world.now = end;
        self.act(world);
    }

    fn act(&mut self, world: &mut World) {
        world.planner.wake(world.now);
        while let Some(action) = world.next_action() {
            self.actions += 1;
            match action {
                Action::Warm(profile) | Action::Touch(profile) if self.fails => {
                    world.fail(profile.as_str())
                }
                Action::Warm(profile) => world.done(profile.as_str(), computed(100)),
                Action::Touch(profile) => world.done(profile.as_str(), shared(100)),
                Action::Cancel(_) | Action::Park(_) | Action::Unload | Action::Renew(_) => {
                    continue;
                }
            };
        }
        for (profile, prefix) in world.planner.prefixes() {
            let Some(warmed) = prefix.warmed.filter(|_| prefix.failed.is_none()) else { continue };
            let age = warmed.touched.age(world.now).as_secs();
            assert!(!self.on_power || age <= 5 * MINUTE + MAX_TURN_SECS, "{profile}: {age} s");
        }
    }
}
