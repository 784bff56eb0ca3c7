//! Claims about the default policy on the bundled traces, small enough for every test run. `hob
//! simulate --check` measures the figures.

use hob_simulate::bundled::Traces;
use hob_simulate::closed::{self, Disk};
use hob_simulate::policy::PolicyKind;
use hob_simulate::study::{self, Scope, Setup};

fn scope(policies: &[PolicyKind]) -> Scope {
    Scope { policies: policies.to_vec(), seeds: 2, requests: 1_500, optimum: false }
}

#[test]
fn the_default_is_never_worse_than_lru_and_better_with_cold_prompts() {
    let traces = Traces::bundled();
    let scope = scope(&[PolicyKind::Lru, PolicyKind::DEFAULT]);
    for (setup, least_gap_percent) in
        [(Setup::Mixed(4), 30.0), (Setup::Claude(8), 5.0), (Setup::Claude(16), 9.0)]
    {
        for row in study::hits(&traces, setup, &[275, 550, 2_200], &scope) {
            let cell = |kind| row.cell(kind).unwrap();
            let lead = cell(PolicyKind::DEFAULT).hit_percent - cell(PolicyKind::Lru).hit_percent;
            assert!(lead >= -0.3, "{setup} at {}: {lead} points", row.capacity_blocks);
            if row.capacity_blocks == 550 {
                let gap = cell(PolicyKind::DEFAULT).gap_closed_percent.unwrap();
                assert!(gap >= least_gap_percent, "{setup}: {gap} % of the gap");
            }
        }
    }
}

#[test]
fn graph_score_is_far_below_lru() {
    let scope = scope(&[PolicyKind::Lru, PolicyKind::GraphScore]);
    let row = study::hits(&Traces::bundled(), Setup::Claude(8), &[550], &scope).remove(0);
    let percent = |kind| row.cell(kind).unwrap().hit_percent;
    assert!(percent(PolicyKind::GraphScore) + 10.0 < percent(PolicyKind::Lru));
}

#[test]
fn the_closed_loop_waits_less_than_with_lru_and_a_disk_costs_little_more_than_infinite_memory() {
    let setup = closed::Setup { requests: 1_000, ..closed::Setup::default() };
    let policies = [PolicyKind::Lru, PolicyKind::DEFAULT];
    let rows = study::waits(&Traces::bundled(), &setup, 550, Disk::default(), &policies, 2);
    let mean = |policy: &str, disk| {
        let row = rows.iter().find(|row| row.policy == policy && row.disk == disk).unwrap();
        row.waits.mean_secs
    };
    let default = PolicyKind::DEFAULT.name();
    assert!(mean(default, false) <= 0.75 * mean("lru", false), "{rows:?}");
    assert!(mean(default, true) <= 1.2 * mean("infinite", false), "{rows:?}");
}

#[test]
fn the_same_seed_gives_the_same_table() {
    let scope = scope(&PolicyKind::ALL);
    let traces = Traces::bundled();
    let table = || {
        let rows = study::hits(&traces, Setup::Mixed(2), &[275], &scope);
        serde_json::to_string(&rows).unwrap()
    };
    assert_eq!(table(), table());
}
