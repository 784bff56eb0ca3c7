//! How much the KV of the same tokens differs between two states.

use std::collections::BTreeMap;

use super::rotate::NumberType;
use super::state::{PlainState, Section};

/// The layer whose K is compared: the first one that depends on what a token attended to.
pub const PROBED: usize = 1;

/// The square of the distance between the K of each position in both states, in [`PROBED`]. `None` where they
/// hold other positions or have another layout.
pub fn deviations(one: &[u8], other: &[u8]) -> Option<BTreeMap<usize, f32>> {
    let (mut one, other) = (probed(one)?, probed(other)?);
    if one.len() != other.len() {
        return None;
    }
    let distance = |(position, to): (usize, Vec<f32>)| {
        let from = one.remove(&position)?;
        let squares = from.iter().zip(&to).map(|(x, y)| (x - y) * (x - y));
        Some((position, squares.sum()))
    };
    other.into_iter().map(distance).collect()
}

/// How far apart K and V are in both states: the distance over the length in `other`, a mean over K and V of all layers;
/// 0 for equal ones. `None` where they hold other positions or have another layout.
pub fn difference(one: &[u8], other: &[u8]) -> Option<f32> {
    let (from, to) = (PlainState::parse(one)?, PlainState::parse(other)?);
    let mut parts = Vec::new();
    for (from_section, to_section) in from.typed_rows().zip(to.typed_rows()) {
        let (before, after) = (rows(one, &from, from_section)?, rows(other, &to, to_section)?);
        if before.len() != after.len() {
            return None;
        }
        let (mut distance, mut length) = (0.0_f32, 0.0_f32);
        for (position, row) in &after {
            let was = before.get(position).filter(|was| was.len() == row.len())?;
            distance += was.iter().zip(row).map(|(x, y)| (x - y) * (x - y)).sum::<f32>();
            length += row.iter().map(|x| x * x).sum::<f32>();
        }
        parts.push((distance / length.max(f32::MIN_POSITIVE)).sqrt());
    }
    (!parts.is_empty()).then(|| parts.iter().sum::<f32>() / parts.len() as f32)
}

fn probed(state: &[u8]) -> Option<BTreeMap<usize, Vec<f32>>> {
    let parsed = PlainState::parse(state)?;
    let section = parsed.keys().nth(PROBED)?;
    rows(state, &parsed, section)
}

/// The numbers of a section, by position.
fn rows(
    state: &[u8],
    parsed: &PlainState<'_>,
    section: Section,
) -> Option<BTreeMap<usize, Vec<f32>>> {
    let number_type = NumberType::of(section.number_type)?;
    let rows = state[section.rows].chunks_exact(section.row_bytes).map(|bytes| {
        let mut row = Vec::new();
        number_type.read(bytes, &mut row);
        row
    });
    let positions = parsed.positions().map(|at| usize::try_from(at).ok());
    positions.zip(rows).map(|(at, row)| Some((at?, row))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two layers of one f32 each, as llama.cpp writes them. `keys`: of the second layer, by position.
    fn state(keys: &[(i32, f32)]) -> Vec<u8> {
        let words = |words: &[i32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
        let cells = i32::try_from(keys.len()).unwrap();
        let mut state = words(&[0x67_67, 5, 1, cells]);
        keys.iter().for_each(|(position, _)| state.extend(words(&[*position, 1, 5])));
        state.extend(words(&[0, 2, 0, 0]));
        for section in 0..4 {
            state.extend(words(&[0, 4, 0]));
            let number = |key: f32| if section == 1 { key } else { 9.0 };
            keys.iter().for_each(|(_, key)| state.extend(number(*key).to_le_bytes()));
        }
        state
    }

    #[test]
    fn k_is_compared_by_position_whatever_the_order_of_the_cells() {
        let (one, other) = (state(&[(7, 1.0), (8, 2.0)]), state(&[(8, 2.5), (7, 1.0)]));
        let found = deviations(&one, &other).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(7, 0.0), (8, 0.25)]);
    }

    #[test]
    fn the_difference_is_a_part_of_the_length_and_a_mean_of_all_layers() {
        let (one, other) = (state(&[(7, 0.0), (8, 3.0)]), state(&[(8, 4.0), (7, 0.0)]));
        // Of the second layer's K a quarter; the other three are equal.
        assert_eq!(difference(&one, &other), Some(0.0625));
        assert_eq!(difference(&one, &one), Some(0.0));
        assert_eq!(difference(&state(&[(7, 1.0)]), &state(&[(8, 1.0)])), None);
        assert_eq!(difference(&state(&[(7, 1.0)]), &[1, 2, 3]), None);
    }

    #[test]
    fn states_of_other_positions_are_not_compared() {
        assert_eq!(deviations(&state(&[(7, 1.0)]), &state(&[(8, 1.0)])), None);
        assert_eq!(deviations(&state(&[(7, 1.0)]), &state(&[(7, 1.0), (8, 1.0)])), None);
        assert_eq!(deviations(&state(&[(7, 1.0)]), &[1, 2, 3]), None);
    }
}
