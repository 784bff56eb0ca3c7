//! Chooses disk images when there are too many.

use std::collections::HashSet;

use crate::support::memory::Disk;
use crate::support::random::Random;

/// The images that a power cut may leave of `disk`, `most` at most. If there are more: no uncertain
/// change, all, each one alone, then random ones.
pub fn images(disk: &Disk, most: usize, random: &mut Random) -> Vec<Disk> {
    let ways = disk.ways();
    let all = ways.iter().try_fold(1_usize, |all, &ways| all.checked_mul(ways));
    let chosen = match all.filter(|&all| all <= most) {
        Some(all) => (0..all).map(|number| digits(number, &ways)).collect(),
        None => some(&ways, most, random),
    };
    chosen.iter().map(|chosen| disk.left(chosen)).collect()
}

/// A number in the mixed base `ways`.
fn digits(mut number: usize, ways: &[usize]) -> Vec<usize> {
    let digit = |&ways: &usize| {
        let digit = number % ways;
        number /= ways;
        digit
    };
    ways.iter().map(digit).collect()
}

fn some(ways: &[usize], most: usize, random: &mut Random) -> Vec<Vec<usize>> {
    let oldest = vec![0; ways.len()];
    let newest: Vec<usize> = ways.iter().map(|ways| ways - 1).collect();
    let mut chosen = vec![oldest.clone(), newest.clone()];
    for (thing, &ways) in ways.iter().enumerate() {
        for way in 0..ways {
            for base in [&oldest, &newest] {
                let mut one = base.clone();
                one[thing] = way;
                chosen.push(one);
            }
        }
    }
    while chosen.len() < most {
        chosen.push(ways.iter().map(|&ways| random.below(ways)).collect());
    }
    let mut seen = HashSet::new();
    chosen.retain(|one| seen.insert(one.clone()));
    // The first ones and a share of the others, so a small bound covers each.
    let step = chosen.len().div_ceil(most).max(1);
    chosen.into_iter().step_by(step).collect()
}
