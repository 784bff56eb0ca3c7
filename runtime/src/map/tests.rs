use hob_slots::{ModelHash, Token, blocks_of};
use proptest::prelude::*;

use super::*;

#[test]
fn a_block_has_the_layer_of_most_of_its_tokens() {
    let segments = [(40, Layer::Identity), (64, Layer::Rules), (130, Layer::User)];
    let map = map_of(&[(200, &segments)]);
    let layers: Vec<_> = map.slots[0].blocks.iter().map(|block| block.layer).collect();
    // 128..192 has 2 tokens of the question; 192..200 follows it.
    let answer = Some(Layer::Assistant);
    assert_eq!(layers, [Some(Layer::Identity), Some(Layer::User), answer, answer]);
    assert_eq!(map.slots[0].blocks[3].key.as_deref(), Some("answer"));
}

#[test]
fn a_slot_without_segments_has_no_layers() {
    let map = map_of(&[(70, &[])]);
    assert!(map.slots[0].blocks.iter().all(|block| block.layer.is_none() && block.key.is_none()));
}

#[test]
fn sharers_are_counted_by_block() {
    let map = map_of(&[(130, &[]), (64, &[]), (0, &[])]);
    let sharers: Vec<_> = map.slots[0].blocks.iter().map(|block| block.sharers).collect();
    assert_eq!(sharers, [1, 0, 0]);
    assert_eq!((map.slots[1].blocks[0].sharers, map.slots[2].tokens), (1, 0));
}

#[test]
fn another_slot_shares_a_block_that_has_left_the_cells_of_this_one() {
    let mut slots = readings(&[(130, &[]), (64, &[])]);
    slots[0].away = vec![0..64];
    let map = CacheMap::of(Reading { used_tokens: 0, slots, left: Vec::new() });
    let sharers = [0, 1].map(|slot: usize| map.slots[slot].blocks[0].sharers);
    assert_eq!(sharers, [1, 0]);
}

#[test]
fn a_block_has_the_origin_of_most_of_its_tokens() {
    let mut origins = Origins::default();
    origins.push(70, Origin::Disk);
    origins.push(20, Origin::Computed);
    origins.push(38, Origin::Generated);
    assert_eq!(origins.majority(&(0..64)), Origin::Disk);
    assert_eq!(origins.majority(&(64..128)), Origin::Generated);
    assert_eq!(origins.majority(&(64..90)), Origin::Computed);
}

#[derive(Clone, Debug)]
enum Step {
    Push(usize, Origin),
    Truncate(usize),
}

proptest! {
    #[test]
    fn runs_agree_with_one_origin_per_token(steps in prop::collection::vec(step(), 1..20)) {
        let (mut runs, mut each) = (Origins::default(), Vec::new());
        for step in steps {
            match step {
                Step::Push(count, origin) => {
                    runs.push(count, origin);
                    each.extend(std::iter::repeat_n(origin, count));
                }
                Step::Truncate(len) => {
                    runs.truncate(len);
                    each.truncate(len);
                }
            }
            prop_assert_eq!(runs.len(), each.len());
            for origin in Origin::ALL {
                let count = each.iter().filter(|&&it| it == origin).count();
                prop_assert_eq!(runs.count(origin), count);
            }
            let mut twice = runs.clone();
            twice.append(&runs);
            prop_assert_eq!(twice.count(Origin::Disk), 2 * runs.count(Origin::Disk));
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let origin = prop::sample::select(Origin::ALL.to_vec());
    prop_oneof![
        3 => (0_usize..50, origin).prop_map(|(count, origin)| Step::Push(count, origin)),
        1 => (0_usize..120).prop_map(Step::Truncate),
    ]
}

/// The number of tokens, and the segments' ends.
type Timeline<'a> = (usize, &'a [(u32, Layer)]);

/// Slots whose timelines share a prefix.
fn map_of(slots: &[Timeline<'_>]) -> CacheMap {
    CacheMap::of(Reading { used_tokens: 0, slots: readings(slots), left: Vec::new() })
}

fn readings(slots: &[Timeline<'_>]) -> Vec<SlotReading> {
    let reading = |(n, &(len, segments)): (usize, &Timeline<'_>)| {
        let tokens: Vec<Token> = (0..len).map(|token| Token(token as i32)).collect();
        let mut origins = Origins::default();
        origins.push(len, Origin::Computed);
        let segment = |&(end, layer)| SegmentRef::new(end, layer, format!("{layer:?}"));
        SlotReading {
            away: Vec::new(),
            slot: SlotId(n as u32),
            prefix: false,
            conversation: None,
            state: SlotState::Idle,
            prompt_tokens: None,
            blocks: blocks_of(ModelHash(*b"a model!"), &tokens, |_| false),
            origins,
            segments: segments.iter().map(segment).collect(),
        }
    };
    slots.iter().enumerate().map(reading).collect()
}
