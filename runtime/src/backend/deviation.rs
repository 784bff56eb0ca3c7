//! How much the K of the same tokens differs between two states.

use std::collections::BTreeMap;

use super::rotate::NumberType;
use super::state::PlainState;

/// The layer whose K is compared: the first one that depends on what a token attended to.
pub const PROBED: usize = 1;

/// The square of the distance between the K of each position in both states, in [`PROBED`]. `None` where they
/// hold other positions or have another layout.
pub fn deviations(one: &[u8], other: &[u8]) -> Option<BTreeMap<usize, f32>> {
    let (mut one, other) = (rows(one)?, rows(other)?);
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

fn rows(state: &[u8]) -> Option<BTreeMap<usize, Vec<f32>>> {
    let state_of = PlainState::parse(state)?;
    let section = state_of.keys().nth(PROBED)?;
    let number_type = NumberType::of(section.number_type)?;
    let rows = state[section.rows].chunks_exact(section.row_bytes).map(|bytes| {
        let mut row = Vec::new();
        number_type.read(bytes, &mut row);
        row
    });
    let positions = state_of.positions().map(|at| usize::try_from(at).ok());
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
    fn states_of_other_positions_are_not_compared() {
        assert_eq!(deviations(&state(&[(7, 1.0)]), &state(&[(8, 1.0)])), None);
        assert_eq!(deviations(&state(&[(7, 1.0)]), &state(&[(7, 1.0), (8, 1.0)])), None);
        assert_eq!(deviations(&state(&[(7, 1.0)]), &[1, 2, 3]), None);
    }
}
