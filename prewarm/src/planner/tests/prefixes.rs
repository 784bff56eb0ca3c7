//! How prefixes become warm.

use super::*;
use crate::prefix::{PrefixState, TokenOrigin};

impl World {
    pub(super) fn boot(&mut self, profiles: &[&str]) -> &mut Self {
        let prefixes = profiles.iter().map(|profile| name(profile)).collect();
        self.tell(Event::ModelReady { prefixes })
    }

    pub(super) fn change(&mut self, profile: &str) -> &mut Self {
        self.tell(Event::PrefixChanged { prefix: name(profile) })
    }

    pub(super) fn use_prefix(&mut self, profile: &str) -> &mut Self {
        self.tell(Event::Used { prefix: name(profile) })
    }

    /// Whether a turn that begins with the prefix renews its record.
    fn renews(&mut self, profile: &str) -> bool {
        self.use_prefix(profile);
        let mut actions = std::iter::from_fn(|| self.planner.next_action());
        actions.any(|action| action == Action::Renew(name(profile)))
    }

    fn remove(&mut self, profile: &str) -> &mut Self {
        self.tell(Event::PrefixRemoved { prefix: name(profile) })
    }

    pub(super) fn done(&mut self, profile: &str, from: TokenOrigins) -> &mut Self {
        self.tell(Event::PrefixDone { prefix: name(profile), from })
    }

    pub(super) fn fail(&mut self, profile: &str) -> &mut Self {
        let reason = "the queue is full".to_owned();
        self.tell(Event::PrefixFailed { prefix: name(profile), reason })
    }

    /// Warms all these prefixes at once.
    pub(super) fn warm_all(&mut self, profiles: &[&str]) -> &mut Self {
        self.boot(profiles);
        for profile in profiles {
            assert_eq!(self.wake(), [Action::Warm(name(profile))]);
            self.done(profile, computed(100));
        }
        assert_eq!(self.wake(), []);
        self
    }

    fn prefix(&self, profile: &str) -> TrackedPrefix {
        let mut all = self.planner.prefixes();
        all.find(|(known, _)| known.as_str() == profile).expect("it is known").1
    }
}

pub(super) fn name(text: &str) -> PrefixName {
    PrefixName::Profile(text.parse().unwrap())
}

pub(super) fn computed(computed: usize) -> TokenOrigins {
    TokenOrigins { computed, ..TokenOrigins::default() }
}

pub(super) fn shared(shared: usize) -> TokenOrigins {
    TokenOrigins { shared, ..TokenOrigins::default() }
}

#[test]
fn prefixes_are_warmed_one_at_a_time_in_the_given_order() {
    let mut world = World::new();
    world.boot(&["default", "attic", "bath"]);
    for profile in ["default", "attic", "bath"] {
        assert_eq!(world.wake(), [Action::Warm(name(profile))]);
        assert_eq!(world.prefix(profile).state, PrefixState::Warming);
        assert_eq!(world.sleep(MINUTE).wake(), [], "one at a time");
        world.done(profile, computed(2_048));
    }
    assert_eq!(world.wake(), []);
}

#[test]
fn a_profile_shows_how_its_prefix_became_warm() {
    let mut world = World::new();
    world.boot(&["default"]).wake();
    let from = TokenOrigins { shared: 1, memory: 0, disk: 2_040, computed: 7 };
    world.done("default", from);
    let prefix = world.prefix("default");
    assert_eq!(prefix.state, PrefixState::Warm);
    let warmed = prefix.warmed.unwrap();
    assert_eq!((warmed.from.tokens(), warmed.from.main()), (2_048, TokenOrigin::Disk));
    assert_eq!(warmed.at, world.now);
}

#[test]
fn a_changed_profile_is_warmed_again_and_no_other_is() {
    let mut world = World::new();
    world.warm_all(&["default", "attic"]).change("attic");
    assert_eq!(world.wake(), [Action::Warm(name("attic"))]);
    assert_eq!(world.done("attic", computed(9)).wake(), []);
}

#[test]
fn a_change_of_a_profile_being_warmed_cancels_and_restarts_it() {
    let mut world = World::new();
    world.boot(&["default"]).wake();
    let again = [Action::Cancel(name("default")), Action::Warm(name("default"))];
    assert_eq!(world.change("default").wake(), again);
}

#[test]
fn a_changed_profile_waits_for_the_one_being_warmed() {
    let mut world = World::new();
    world.boot(&["default"]).wake();
    assert_eq!(world.change("attic").wake(), []);
    assert_eq!(world.done("default", computed(9)).wake(), [Action::Warm(name("attic"))]);
}

#[test]
fn a_removed_profile_is_cancelled_and_never_warmed_again() {
    let mut world = World::new();
    world.boot(&["default", "attic"]).wake();
    let next = [Action::Cancel(name("default")), Action::Warm(name("attic"))];
    assert_eq!(world.remove("default").wake(), next);
    world.done("attic", computed(9)).remove("attic");
    assert_eq!(world.sleep(60 * MINUTE).wake(), []);
    assert_eq!(world.planner.next_wake(), None);
}

#[test]
fn a_new_model_starts_with_cold_prefixes() {
    let mut world = World::new();
    world.warm_all(&["default"]).change("default").wake();
    let anew = [Action::Cancel(name("default")), Action::Warm(name("attic"))];
    assert_eq!(world.boot(&["attic"]).wake(), anew);
    assert_eq!(world.planner.prefixes().count(), 1);
}

#[test]
fn prefixes_wait_while_the_model_is_unloaded() {
    let mut world = World::new();
    world.warm_all(&["default", "attic"]).change("attic").wake();
    assert_eq!(world.tell(Event::ModelUnloaded).wake(), [Action::Cancel(name("attic"))]);
    assert_eq!(world.prefix("default").state, PrefixState::Waiting);
    assert_eq!(world.sleep(60 * MINUTE).change("attic").wake(), []);
    assert_eq!(world.planner.next_wake(), None);
    assert_eq!(world.boot(&["default", "attic"]).wake(), [Action::Warm(name("default"))]);
}

#[test]
fn a_failed_prefix_is_retried_after_pauses_that_grow_up_to_ten_minutes() {
    let mut world = World::new();
    world.boot(&["default"]).wake();
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let failed = world.fail("default").now;
        assert_eq!(world.wake(), [], "never at once");
        world.now = world.planner.next_wake().unwrap();
        pauses.push(failed.age(world.now).as_secs());
        assert_eq!(world.wake(), [Action::Warm(name("default"))]);
    }
    assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 600, 600]);
    let failed = world.prefix("default").failed.unwrap();
    assert_eq!((failed.times, failed.reason.as_str()), (9, "the queue is full"));
    world.done("default", computed(9));
    assert_eq!(world.prefix("default").failed, None);
}

#[test]
fn a_failed_prefix_delays_no_other() {
    let mut world = World::new();
    world.boot(&["default", "attic"]).wake();
    assert_eq!(world.fail("default").wake(), [Action::Warm(name("attic"))]);
    assert_eq!(world.sleep(MINUTE).wake(), [], "the attic is still being warmed");
    assert_eq!(world.done("attic", computed(9)).wake(), [Action::Warm(name("default"))]);
}

#[test]
fn a_failed_profile_that_changes_is_retried_at_once() {
    let mut world = World::new();
    world.boot(&["default"]).wake();
    world.fail("default").sleep(1).wake();
    assert_eq!(world.change("default").wake(), [Action::Warm(name("default"))]);
}

#[test]
fn a_prewarm_continues_during_a_turn() {
    let mut world = World::new();
    world.boot(&["default", "attic"]).wake();
    assert_eq!(world.start("chat").wake(), [], "nothing is cancelled: the turn may share it");
    assert_eq!(world.done("default", computed(9)).wake(), [Action::Warm(name("attic"))]);
}

#[test]
fn a_prefix_waits_for_a_turn_that_computes_it() {
    let mut world = World::new();
    world.boot(&["default", "attic"]).wake();
    let left_to_the_turn = [Action::Cancel(name("default")), Action::Warm(name("attic"))];
    assert_eq!(world.start("chat").use_prefix("default").wake(), left_to_the_turn);
    assert_eq!(world.done("attic", computed(9)).sleep(10).wake(), []);
    assert_eq!(world.end("chat").wake(), [Action::Warm(name("default"))]);
    assert_eq!(world.done("default", shared(100)).wake(), []);
}

#[test]
fn a_prefix_waits_for_a_turn_at_most_half_a_minute() {
    let mut world = World::new();
    world.boot(&["default"]).wake();
    world.start("chat").use_prefix("default").wake();
    assert_eq!(world.sleep(29).wake(), []);
    assert_eq!(world.sleep(1).wake(), [Action::Warm(name("default"))]);
}

#[test]
fn a_turn_does_not_shorten_the_pause_after_a_failure() {
    let mut world = World::new();
    world.boot(&["default"]).wake();
    world.fail("default").start("chat").use_prefix("default").end("chat");
    assert_eq!(world.sleep(4).wake(), []);
    assert_eq!(world.sleep(1).wake(), [Action::Warm(name("default"))]);
}

#[test]
fn a_clock_step_back_does_not_lengthen_the_pause_before_a_retry() {
    let mut world = World::new();
    world.boot(&["default"]).wake();
    world.fail("default").step_back(24 * 60 * MINUTE);
    assert_eq!(world.wake(), []);
    assert_eq!(world.sleep(5).wake(), [Action::Warm(name("default"))]);
}

#[test]
fn the_record_of_a_prefix_in_use_is_renewed_every_five_minutes_at_most() {
    let mut world = World::new();
    world.warm_all(&["default"]);
    assert!(!world.renews("default"), "it was just written");
    assert!(world.sleep(5 * MINUTE).renews("default"));
    assert!(!world.sleep(5 * MINUTE - 1).renews("default"));
    assert!(world.sleep(1).renews("default"));
    assert!(!world.step_back(MINUTE).renews("default"));
    assert!(world.sleep(5 * MINUTE).renews("default"));
    assert!(!world.sleep(5 * MINUTE).remove("default").renews("default"));
}
