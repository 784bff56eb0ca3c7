use proptest::prelude::*;

use super::*;
use crate::backend::state::JoinedState;

/// A state of `layers` with rows of `width` numbers of this type, as llama.cpp writes one.
fn state(number_type: u32, cells: usize, layers: usize, width: usize, numbers: &[f32]) -> Vec<u8> {
    let words = |words: &[i32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
    let int = |number: usize| i32::try_from(number).unwrap();
    let mut state = words(&[0x67_67, 5, 1, int(cells)]);
    (0..cells).for_each(|cell| state.extend(words(&[7 + int(cell), 1, 5])));
    state.extend(words(&[0, int(layers), 0, 0]));
    let types = NumberType::of(number_type).unwrap();
    let row_bytes = match types {
        NumberType::F32 => 4 * width,
        NumberType::F16 | NumberType::Bf16 => 2 * width,
        NumberType::Q8_0 => width / 32 * 34,
    };
    let mut numbers = numbers.iter().cycle();
    for _ in 0..2 * layers {
        state.extend(number_type.to_le_bytes());
        state.extend((row_bytes as u64).to_le_bytes());
        for _ in 0..cells {
            let row: Vec<f32> = numbers.by_ref().take(width).copied().collect();
            let mut bytes = vec![0; row_bytes];
            types.write(&row, &mut bytes);
            state.extend(bytes);
        }
    }
    state
}

fn numbers_of(state: &[u8], section: usize) -> Vec<f32> {
    let plain = PlainState::parse(state).unwrap();
    let section = plain.typed_rows().nth(section).unwrap();
    let number_type = NumberType::of(section.number_type).unwrap();
    let (mut row, mut all) = (Vec::new(), Vec::new());
    for bytes in state[section.rows].chunks_exact(section.row_bytes) {
        number_type.read(bytes, &mut row);
        all.extend_from_slice(&row);
    }
    all
}

const LAYOUT: Option<Unrounded> = Some(Unrounded::Layout);

fn waves(count: usize) -> Vec<f32> {
    (0..count).map(|n| ((n * n % 1_009) as f32).sin() * (1.0 + (n % 64) as f32 / 8.0)).collect()
}

/// The largest distance of each section's numbers, as a part of the group's span.
fn check_distances(before: &[u8], after: &[u8], lossy: Lossy, cells: usize, width: usize) {
    let sections = PlainState::parse(before).unwrap().rows().count();
    for section in 0..sections {
        let (old, new) = (numbers_of(before, section), numbers_of(after, section));
        let of_channels = lossy == Lossy::Q4 && section < sections / 2;
        for (at, (&x, &y)) in old.iter().zip(&new).enumerate() {
            let group: Vec<f32> = if of_channels {
                (0..cells).map(|cell| old[cell * width + at % width]).collect()
            } else {
                let size = if lossy == Lossy::Q8 { 32 } else { 64 };
                let row = at / width * width;
                let start = row + at % width / size * size;
                old[start..(start + size).min(row + width)].to_vec()
            };
            let most = group.iter().fold(0.0_f32, |most, it| most.max(it.abs()));
            let least = group.iter().copied().fold(f32::INFINITY, f32::min);
            let span = group.iter().copied().fold(f32::NEG_INFINITY, f32::max) - least;
            let half_step = match lossy {
                Lossy::Q8 => most / 127.0 / 2.0,
                Lossy::Q4 => span / 15.0 / 2.0,
            };
            // Factors, least numbers, steps and results are rounded to f16.
            let bound = half_step * 1.01 + most / 1_000.0 + 1e-5;
            assert!((x - y).abs() <= bound, "{lossy} {section} {at}: {x} {y} {bound}");
        }
    }
}

#[test]
fn numbers_stay_within_half_a_step_and_all_else_as_it_was() {
    for (number_type, width) in [(0, 96), (1, 96), (30, 96), (1, 70), (1, 33)] {
        for lossy in Lossy::ALL {
            let before = state(number_type, 64, 3, width, &waves(5_003));
            let bytes = rounded(&before, lossy).unwrap();
            assert!(is_rounded(&bytes) && !is_rounded(&before));
            let after = state_of(&bytes, vec![9; 7]).unwrap();
            assert_eq!(after.len(), before.len());
            let (old, new) = [&before, &after].map(|it| PlainState::parse(it).unwrap()).into();
            assert_eq!(old.heads(), new.heads());
            if number_type != 30 {
                check_distances(&before, &after, lossy, 64, width);
            }
            // The same again, also in a buffer that is longer.
            assert_eq!(state_of(&bytes, vec![3; 2 * before.len()]), Some(after));
        }
    }
}

#[test]
fn half_and_about_a_quarter_of_the_bytes_are_left() {
    let before = state(1, 64, 8, 512, &waves(9_001));
    let parts =
        Lossy::ALL.map(|lossy| rounded(&before, lossy).unwrap().len() as f64 / before.len() as f64);
    assert!(parts[0] > 0.5 && parts[0] < 0.54 && parts[1] > 0.25 && parts[1] < 0.29, "{parts:?}");
}

#[test]
fn q8_0_is_not_rounded_to_itself_and_is_to_4_bits() {
    let before = state(8, 64, 2, 96, &waves(5_003));
    assert_eq!(rounded(&before, Lossy::Q8), Err(Unrounded::SavesLittle));
    let bytes = rounded(&before, Lossy::Q4).unwrap();
    let after = state_of(&bytes, Vec::new()).unwrap();
    assert_eq!(
        PlainState::parse(&after).unwrap().heads(),
        PlainState::parse(&before).unwrap().heads()
    );
    for section in 0..4 {
        let (old, new) = (numbers_of(&before, section), numbers_of(&after, section));
        assert!(old.iter().zip(&new).all(|(x, y)| (x - y).abs() < 1.3), "{section}");
    }
}

#[test]
fn what_cannot_be_rounded_is_refused() {
    let refused = |state: &[u8]| {
        let of = Lossy::ALL.map(|lossy| rounded(state, lossy).err());
        assert_eq!(of[0], of[1]);
        of[0]
    };
    let whole = state(1, 8, 2, 64, &waves(999));
    assert_eq!(refused(&whole), None);
    assert!((0..whole.len()).step_by(7).all(|len| refused(&whole[..len]) == LAYOUT));
    for number in [f32::INFINITY, f32::NAN] {
        let infinite = state(1, 8, 2, 64, &[1.0, number, 2.0]);
        assert_eq!(refused(&infinite), Some(Unrounded::Infinite));
    }
    let mut transposed = whole.clone();
    transposed[16 + 8 * 12] = 1;
    assert_eq!(refused(&transposed), LAYOUT, "V is transposed");
    let mut other = whole;
    other[16 + 8 * 12 + 16] = 2;
    assert_eq!(refused(&other), LAYOUT, "a type that is not known");
    let short = rounded(&state(1, 1, 2, 64, &waves(99)), Lossy::Q4);
    assert_eq!(short, Err(Unrounded::SavesLittle));
}

#[test]
fn the_largest_numbers_stay_finite_and_zeros_stay_zeros() {
    for lossy in Lossy::ALL {
        for numbers in [&[65_504.0, -65_504.0, 65_000.0][..], &[0.0], &[1e-7, -1e-7]] {
            let before = state(1, 64, 1, 64, numbers);
            let after = state_of(&rounded(&before, lossy).unwrap(), Vec::new()).unwrap();
            for section in 0..2 {
                let new = numbers_of(&after, section);
                assert!(new.iter().all(|it| it.is_finite()));
                assert!(numbers != [0.0] || new.iter().all(|it| *it == 0.0));
            }
        }
    }
}

#[test]
fn rounded_states_are_joined_like_others() {
    let before = state(1, 32, 2, 64, &waves(999));
    let after = state_of(&rounded(&before, Lossy::Q8).unwrap(), Vec::new()).unwrap();
    let mut joined = JoinedState::with_room(64, Vec::new());
    assert!(super::super::state::append(&mut joined, &before));
    assert!(super::super::state::append(&mut joined, &after));
}

#[test]
fn every_truncation_and_every_appended_byte_is_refused() {
    for lossy in Lossy::ALL {
        let bytes = rounded(&state(1, 5, 1, 64, &waves(999)), lossy).unwrap();
        assert!((0..bytes.len()).all(|len| state_of(&bytes[..len], Vec::new()).is_none()));
        assert_eq!(state_of(&[&bytes[..], &[0]].concat(), Vec::new()), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_numbers_stay_within_half_a_step(
        numbers in prop::collection::vec(-300.0_f32..300.0, 64..3_000),
        cells in 8_usize..80,
        width in 16_usize..140,
    ) {
        for lossy in Lossy::ALL {
            let before = state(1, cells.min(64), 1, width, &numbers);
            let Ok(bytes) = rounded(&before, lossy) else { continue };
            let after = state_of(&bytes, Vec::new()).unwrap();
            check_distances(&before, &after, lossy, cells.min(64), width);
        }
    }

}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_take_much_memory(
        mut bytes in prop::collection::vec(any::<u8>(), 0..400),
        flips in prop::collection::vec((0_usize..4_000, any::<u8>()), 0..8),
        begins: bool,
    ) {
        if begins {
            bytes.splice(0..0, *MAGIC);
        }
        let _ = state_of(&bytes, Vec::new());
        let mut whole = rounded(&state(1, 9, 2, 64, &waves(999)), Lossy::Q4).unwrap();
        for (at, byte) in flips {
            let at = at % whole.len();
            whole[at] ^= byte;
        }
        if let Some(state) = state_of(&whole, Vec::new()) {
            prop_assert!(state.len() < 64 * whole.len());
        }
    }
}
