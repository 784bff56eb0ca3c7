//! Properties of every policy.

use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits { budget: 64 * 8, micro_batch: 64 };

/// A demand for as many as needed, and no more.
fn exactly(needed: usize) -> Demand {
    Demand { needed, wanted: needed }
}

fn freed(blocks: &[BlockFacts], leave: &[usize]) -> usize {
    leave.iter().map(|&at| blocks[at].own_cells).sum()
}

#[test]
fn a_block_of_which_all_cells_are_shared_does_not_leave() {
    let mut blocks = fixtures::chat(6);
    blocks[1].own_cells = 0;
    blocks[2].own_cells = 10;
    let input = ScorerInput { blocks: &blocks, candidates: &[1, 2, 3, 4], turn: 6 };

    assert_eq!(choose(&recency::Recency, &input, 64), [2, 3]);
}

#[test]
fn nothing_leaves_when_nothing_is_needed() {
    let blocks = fixtures::chat(6);
    for policy in Policy::ALL {
        assert_eq!(leaving(&*policy.scorer(1), &blocks, LIMITS, 6, exactly(0)), [] as [usize; 0]);
    }
}

#[test]
fn protection_is_given_up_in_order() {
    let mut blocks = fixtures::chat(8);
    blocks[2].brought_back = Some(8);
    blocks[4].pinned = true;
    let leave = |cells| leaving(&streaming::Streaming, &blocks, LIMITS, 8, exactly(cells));

    // A tail of 2 blocks stays, then what was brought back leaves, then the older half of the tail.
    assert_eq!(leave(64 * 3), [1, 3, 5]);
    assert_eq!(leave(64 * 4), [1, 3, 5, 2]);
    assert_eq!(leave(64 * 5), [1, 3, 5, 2, 6]);
    assert_eq!(leave(64 * 100), [1, 3, 5, 2, 6]);
}

#[test]
fn protection_is_given_up_for_what_is_needed_alone() {
    let mut blocks = fixtures::chat(8);
    blocks[2].brought_back = Some(8);
    let leave = |needed| {
        let demand = Demand { needed, wanted: 64 * 100 };
        leaving(&streaming::Streaming, &blocks, LIMITS, 8, demand)
    };

    assert_eq!(leave(64), [1, 3, 4, 5]);
    assert_eq!(leave(64 * 5), [1, 3, 4, 5, 2]);
}

#[test]
fn scores_sort_as_their_bits() {
    let scores = [-1e30, -3.5, -1.0, -1e-30, 0.0, 1e-30, 0.7, 1.0, 3e7];
    assert!(scores.map(sortable).is_sorted());
    assert_eq!(sortable(-0.0), sortable(0.0));
}

proptest! {
    #[test]
    fn what_leaves_frees_enough_or_all_that_it_can(
        (blocks, turn) in fixtures::conversations(),
        budget in 0_usize..3_000,
        micro_batch in 1_usize..128,
        needed in 0_usize..2_000,
        wanted in 0_usize..2_000,
        policy in prop::sample::select(Policy::ALL.to_vec()),
        seed in any::<u64>(),
    ) {
        let limits = Limits { budget, micro_batch };
        let leave = leaving(&*policy.scorer(seed), &blocks, limits, turn, Demand { needed, wanted });
        let may_leave = candidates(&blocks, limits, turn, Protection::Least);

        prop_assert!(leave.iter().all(|at| may_leave.contains(at)), "a protected block leaves");
        prop_assert!(leave.iter().all(|&at| blocks[at].own_cells > 0), "a block frees nothing");
        let distinct: std::collections::BTreeSet<_> = leave.iter().collect();
        prop_assert_eq!(distinct.len(), leave.len(), "a block leaves twice");
        prop_assert!(freed(&blocks, &leave) >= needed.min(freed(&blocks, &may_leave)));
        let unprotected = candidates(&blocks, limits, turn, Protection::Full);
        prop_assert!(freed(&blocks, &leave) >= wanted.min(freed(&blocks, &unprotected)));
        // The last one had to leave.
        if let Some((last, others)) = leave.split_last() {
            let cells = if unprotected.contains(last) { needed.max(wanted) } else { needed };
            prop_assert!(freed(&blocks, others) < cells);
        }
    }

    #[test]
    fn a_choice_depends_on_its_input_alone(
        (blocks, turn) in fixtures::conversations(),
        (other_blocks, other_turn) in fixtures::conversations(),
        cells in 1_usize..1_000,
        policy in prop::sample::select(Policy::ALL.to_vec()),
        seed in any::<u64>(),
    ) {
        let fresh = leaving(&*policy.scorer(seed), &blocks, LIMITS, turn, exactly(cells));
        let used = policy.scorer(seed);
        leaving(&*used, &other_blocks, LIMITS, other_turn, exactly(cells));
        leaving(&*used, &blocks, LIMITS, turn, exactly(cells + 100));
        prop_assert_eq!(leaving(&*used, &blocks, LIMITS, turn, exactly(cells)), fresh);
    }

    #[test]
    fn the_lowest_scores_leave_and_of_equal_ones_the_oldest(
        (blocks, turn) in fixtures::conversations(),
        cells in 1_usize..1_000,
        policy in prop::sample::select(Policy::ALL.to_vec()),
    ) {
        let candidates = candidates(&blocks, LIMITS, turn, Protection::Full);
        let input = ScorerInput { blocks: &blocks, candidates: &candidates, turn };
        let scorer = policy.scorer(1);
        let mut naive: Vec<_> = candidates.iter().copied().zip(scorer.scores(&input)).collect();
        naive.sort_by(|(_, one), (_, other)| one.partial_cmp(other).expect("finite scores"));
        naive.retain(|&(at, _)| blocks[at].own_cells > 0);

        let leave = choose(&*scorer, &input, cells);
        prop_assert!(naive.iter().map(|&(at, _)| at).take(leave.len()).eq(leave));
    }
}
