//! How much of each draft to compute.

/// A draft must promise this factor of the speed without one: chances and costs are estimates.
const MIN_GAIN: f64 = 1.05;

/// How many tokens of each running answer's draft to compute, so that all answers together get the
/// most tokens a second, and none fewer than without drafts.
///
/// `chances`: for each answer, the chance that its first token is right, the first two, and so on.
/// `seconds`: how long it takes with drafts of these lengths; `None` where that is unknown, or there can be none.
pub fn lengths(chances: &[Vec<f64>], seconds: impl Fn(&[usize]) -> Option<f64>) -> Vec<usize> {
    let answers = chances.len();
    let mut best = vec![0; answers];
    let Some(without) = seconds(&best) else { return best };
    let longest = chances.iter().map(Vec::len).max().unwrap_or(0);
    let at = |offset: usize| {
        chances
            .iter()
            .enumerate()
            .filter_map(move |(answer, chances)| Some((answer, *chances.get(offset)?)))
    };
    let mut rows: Vec<(usize, f64)> = (0..longest).flat_map(at).collect();
    // The likeliest first: those of one answer stay in order, because their chances only fall.
    rows.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let mut lengths = vec![0; answers];
    let mut tokens = vec![1.0; answers]; // Expected of each answer.
    let mut most = MIN_GAIN;
    for (answer, chance) in rows {
        lengths[answer] += 1;
        tokens[answer] += chance;
        let Some(seconds) = seconds(&lengths) else { continue };
        let gain = |tokens: f64| tokens * without / seconds;
        let all = gain(tokens.iter().sum::<f64>() / answers as f64);
        if all > most && tokens.iter().all(|&tokens| gain(tokens) >= 1.0) {
            most = all;
            best.clone_from(&lengths);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row takes 0.3 times a micro-batch of one more.
    fn steep(lengths: &[usize]) -> Option<f64> {
        let rows = lengths.len() + lengths.iter().sum::<usize>();
        (rows <= 16).then_some(0.7 + 0.3 * rows as f64)
    }

    fn chances(each: f64) -> Vec<f64> {
        (1..=15).map(|length| each.powi(length)).collect()
    }

    #[test]
    fn a_sure_copy_is_drafted_whole_and_a_doubtful_one_in_part_or_not_at_all() {
        assert_eq!(lengths(&[chances(1.0)], steep), [15]);
        assert_eq!(lengths(&[chances(0.9)], steep), [5]);
        assert_eq!(lengths(&[chances(0.3)], steep), [0]);
        assert_eq!(lengths(&[vec![]], steep), [0]);
    }

    #[test]
    fn what_costs_nothing_is_drafted_whatever_the_chances() {
        assert_eq!(lengths(&[chances(0.3)], |_| Some(1.0)), [15]);
    }

    #[test]
    fn a_long_copy_fills_a_tile_of_cheaper_rows_and_a_doubtful_one_does_not() {
        let with_tile = |lengths: &[usize]| {
            let rows = lengths.len() + lengths.iter().sum::<usize>();
            if rows == 64 { Some(7.0) } else { steep(lengths) }
        };
        let chances = |each: f64| (1..=63).map(|length| each.powi(length)).collect::<Vec<_>>();
        assert_eq!(lengths(&[chances(0.99)], with_tile), [63]);
        assert_eq!(lengths(&[chances(0.9)], with_tile), [5]);
        assert_eq!(lengths(&[chances(0.99), chances(0.99)], with_tile), [31, 31]);
    }

    #[test]
    fn nothing_is_drafted_while_the_cost_is_unknown() {
        assert_eq!(lengths(&[chances(1.0)], |_| None), [0]);
    }

    #[test]
    fn two_copies_share_the_rows_and_no_answer_pays_for_another() {
        assert_eq!(lengths(&[chances(1.0), chances(1.0)], steep), [7, 7]);
        assert_eq!(lengths(&[chances(1.0), vec![]], steep), [0, 0]);
        assert_eq!(lengths(&[chances(1.0), vec![]], |_| Some(1.0)), [15, 0]);
    }
}
