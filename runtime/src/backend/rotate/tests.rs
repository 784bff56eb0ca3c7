use super::*;

fn rope(pairing: Pairing) -> Rope {
    Rope {
        pairing,
        head: 8,
        rotated: 8,
        base: 10_000.0,
        scale: 1.0,
        factors: Vec::new(),
        yarn: None,
    }
}

/// Two layers with two heads each, f32.
fn state(positions: Range<i32>) -> Vec<u8> {
    let words = |words: &[i32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
    let cells = i32::try_from(positions.len()).unwrap();
    let mut state = words(&[0x67_67, 5, 1, cells]);
    positions.clone().for_each(|position| state.extend(words(&[position, 1, 5])));
    state.extend(words(&[0, 2, 0, 0]));
    for section in 0..4_i16 {
        state.extend(words(&[0, 64, 0]));
        for position in positions.clone() {
            let numbers = (0..16_i16).map(|n| f32::from(n + section) + position as f32);
            state.extend(numbers.flat_map(f32::to_le_bytes));
        }
    }
    state
}

fn numbers(state: &[u8], section: usize) -> Vec<f32> {
    let range = PlainState::parse(state).unwrap().rows().nth(section).unwrap();
    state[range].as_chunks::<4>().0.iter().map(|it| f32::from_le_bytes(*it)).collect()
}

#[test]
fn keys_are_rotated_values_are_not_and_cells_outside_are_left_out() {
    let before = state(10..20);
    for pairing in [Pairing::Neighbours, Pairing::Halves] {
        let after = moved(&before, &(12..15), -4, &rope(pairing)).unwrap();
        let plain = PlainState::parse(&after).unwrap();
        assert_eq!(plain.positions().collect::<Vec<_>>(), [8, 9, 10]);
        for layer in 0..2 {
            let (old, new) = (&numbers(&before, layer)[32..80], numbers(&after, layer));
            for (old, new) in old.chunks(8).zip(new.chunks(8)) {
                let other = if pairing == Pairing::Neighbours { 1 } else { 4 };
                let (sin, cos) = (-4.0_f32).sin_cos();
                assert!((old[0] * cos - old[other] * sin - new[0]).abs() < 1e-4);
                assert!((old[0] * sin + old[other] * cos - new[other]).abs() < 1e-4);
            }
            assert_eq!(numbers(&before, 2 + layer)[32..80], numbers(&after, 2 + layer));
        }
    }
}

#[test]
fn there_and_back_is_where_it_was_with_factors_yarn_and_a_part_rotated() {
    let mut stretched =
        Rope { scale: 0.25, rotated: 6, factors: vec![1.0, 2.0, 8.0], ..rope(Pairing::Halves) };
    stretched.yarn = Some(Yarn::new(&stretched, 1.0, 64.0, [32.0, 1.0]));
    let before = state(10..20);
    let there = moved(&before, &(10..20), 900, &stretched).unwrap();
    let back = moved(&there, &(910..920), -900, &stretched).unwrap();
    for layer in 0..2 {
        let (before, there, back) =
            (numbers(&before, layer), numbers(&there, layer), numbers(&back, layer));
        assert!(before.iter().zip(&back).all(|(a, b)| (a - b).abs() < 1e-3));
        assert!(before.iter().zip(&there).any(|(a, b)| (a - b).abs() > 1.0));
        let beyond = |numbers: &[f32]| -> Vec<f32> {
            numbers.chunks(8).flat_map(|head| head[6..].to_vec()).collect()
        };
        assert_eq!(beyond(&before), beyond(&there), "the last two are not rotated");
    }
}

#[test]
fn what_cannot_be_moved_is_refused() {
    let rope = rope(Pairing::Halves);
    let whole = state(10..20);
    assert_eq!(moved(&whole, &(18..22), 5, &rope), None, "positions that it does not hold");
    assert_eq!(moved(&whole, &(10..20), -11, &rope), None, "before the beginning");
    assert_eq!(moved(&whole[..whole.len() - 1], &(10..20), 5, &rope), None, "cut short");
    let wider = Rope { head: 24, ..rope };
    assert_eq!(moved(&whole, &(10..20), 5, &wider), None, "another shape");
}

#[test]
fn the_hadamard_matrix_is_its_own_inverse_and_changes_numbers() {
    let row: Vec<f32> = (0..128_i16).map(f32::from).collect();
    let mut turned = row.clone();
    turn(&mut turned, 64);
    assert!((turned[0] - (0..64).sum::<i32>() as f32 / 8.0).abs() < 1e-3);
    turn(&mut turned, 64);
    assert!(row.iter().zip(&turned).all(|(a, b)| (a - b).abs() < 1e-3));
}

/// A cell of one head, with K of the type that ggml numbers `kind`: as llama.cpp has them, a quantised one
/// with its Hadamard rotation.
fn state_of(kind: i32, head: &[f32]) -> Vec<u8> {
    let number_type = NumberType::of(kind.cast_unsigned()).unwrap();
    let row_bytes = match number_type {
        NumberType::F32 => 4 * head.len(),
        NumberType::F16 | NumberType::Bf16 => 2 * head.len(),
        NumberType::Q8_0 => head.len() / 32 * 34,
    };
    let mut row = vec![0; row_bytes];
    number_type.write(head, &mut row);
    let words = |words: &[i32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
    let bytes = i32::try_from(row_bytes).unwrap();
    let hadamard = if number_type == NumberType::Q8_0 { 64 } else { 0 };
    let mut state = words(&[0x67_67, 5, 1, 1, 100_000, 1, 5, 0, 1, hadamard, 0, kind, bytes, 0]);
    state.extend(row);
    state.extend(words(&[0, 4, 0]));
    state.extend([0; 4]);
    state
}

/// A conversation that is re-anchored again and again moves KV that was moved before.
#[test]
fn a_hundred_moves_in_turn_drift_by_little_from_one() {
    let rope = Rope { head: 64, rotated: 64, ..rope(Pairing::Halves) };
    let head: Vec<f32> = (0..64_u8).map(|n| (f32::from(n) * 1.7).sin() * 3.0).collect();
    let read = |kind: u32, state: &[u8]| {
        let mut row = Vec::new();
        let range = PlainState::parse(state).unwrap().rows().next().unwrap();
        NumberType::of(kind).unwrap().read(&state[range], &mut row);
        row
    };
    let length = |row: &[f32]| row.iter().map(|it| it * it).sum::<f32>().sqrt();
    for (kind, bar) in [(0, 0.001), (1, 0.003), (30, 0.03), (8, 0.06)] {
        let before = state_of(kind, &head);
        let (mut at, mut often) = (100_000, before.clone());
        for turn in 0..100 {
            let delta = -(613 + turn * 7 % 300);
            often = moved(&often, &(at..at + 1), delta, &rope).unwrap();
            at = at.checked_add_signed(isize::try_from(delta).unwrap()).unwrap();
        }
        let delta = i64::try_from(at).unwrap() - 100_000;
        let once = moved(&before, &(100_000..100_001), delta, &rope).unwrap();
        let kind = kind.cast_unsigned();
        let (often, once) = (read(kind, &often), read(kind, &once));
        let apart = |one: &[f32], other: &[f32]| {
            let off: Vec<f32> = one.iter().zip(other).map(|(a, b)| a - b).collect();
            length(&off) / length(&head)
        };
        assert!(apart(&read(kind, &before), &once) > 0.5, "K is rotated");
        let drift = apart(&often, &once);
        println!("K of type {kind}: {drift}");
        assert!(drift < bar, "K of type {kind} is off by {drift} of its length");
    }
}
