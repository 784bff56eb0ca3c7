//! The version that holds what reversible eviction needs.

use std::ops::Range;

use super::*;

#[test]
fn a_lineage_that_contradicts_itself_or_its_blocks_is_neither_read_nor_written() {
    let runs = |runs: &[(u32, u8)]| {
        let view = |digit| View::from_bytes([digit; View::BYTES]);
        runs.iter().map(|&(end, digit)| ViewRun { end, view: view(digit) }).collect::<Vec<_>>()
    };
    let refused = |lineage: &Lineage, why: &str| {
        let record = SlotRecord { lineage: lineage.clone(), ..slot_with_lineage() };
        let read = SlotRecord::decode(&record.encode_unchecked(MODEL));
        let what = format!("{why}: {lineage:?}");
        assert_eq!(read, Err(FormatError::Record { what: why.to_owned() }), "{what}");
        assert!(std::panic::catch_unwind(|| record.encode(MODEL)).is_err(), "{what}");
    };
    for (views, why) in [
        (runs(&[(4, 0), (4, 1), (8, 0)]), "its runs of views are out of order"),
        (runs(&[(4, 0), (3, 1), (8, 0)]), "its runs of views are out of order"),
        (runs(&[(4, 1), (8, 1)]), "its runs of views are out of order"),
        (runs(&[(8, 0)]), "its first run of views tells nothing"),
        (runs(&[(0, 0), (8, 1)]), "its first run of views tells nothing"),
        (runs(&[(4, 0), (7, 1)]), "its views are not those of its tokens"),
        (runs(&[(4, 0), (9, 1)]), "its views are not those of its tokens"),
    ] {
        refused(&Lineage { views, away: Vec::new() }, why);
    }
    let not_blocks = "a range that is away is not one of blocks";
    for (away, why) in [
        (vec![1..4], not_blocks),
        (vec![2..5], not_blocks),
        (vec![4..4], not_blocks),
        (vec![Range { start: 4, end: 2 }], not_blocks),
        (vec![2..6, 4..6], "its ranges that are away are out of order"),
        (vec![4..6, 0..2], "its ranges that are away are out of order"),
        (vec![0..2, 6..8], "its last token is away"),
    ] {
        refused(&Lineage { views: Vec::new(), away }, why);
    }
    let away = vec![0..2, 2..4];
    let lineage = Lineage { views: runs(&[(2, 7), (8, 0)]), away };
    let record = SlotRecord { lineage, ..slot_with_lineage() };
    assert_eq!(SlotRecord::decode(&record.encode(MODEL)), Ok((MODEL, record)));
}

#[test]
fn a_weight_above_100_is_neither_read_nor_written() {
    let mut record = slot();
    record.segments[0].weight = 101;
    let read = SlotRecord::decode(&record.encode_unchecked(MODEL));
    let what = "a segment weighs too much".to_owned();
    assert_eq!(read, Err(FormatError::Record { what }));
    assert!(std::panic::catch_unwind(|| record.encode(MODEL)).is_err());
}

#[test]
fn a_lineage_tells_what_is_pure_and_what_is_away() {
    let lineage = slot_with_lineage().lineage;
    assert_eq!((lineage.pure_tokens(8), lineage.away_tokens()), (4, 2));
    assert_eq!(
        [0..2, 2..4, 4..6, 6..8].map(|block| lineage.is_away(&block)),
        [false, true, false, false]
    );
    let impure = Lineage { views: lineage.views[1..].to_vec(), ..Lineage::default() };
    assert_eq!(impure.pure_tokens(8), 0);
    assert_eq!(Lineage::default().pure_tokens(8), 8);
}
