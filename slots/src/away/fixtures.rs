//! Conversations for tests.

use std::array;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::{BlockFacts, Sketch};
use crate::id::Token;
use crate::layer::Layer;

/// `n` blocks of 64 tokens: the system's text, then a turn each of the user and of the assistant.
pub fn chat(n: usize) -> Vec<BlockFacts> {
    of_lengths(&vec![64; n])
}

/// Like [`chat`], with blocks of these lengths.
pub fn of_lengths(lengths: &[usize]) -> Vec<BlockFacts> {
    let mut start = 0;
    let block = |(at, &length): (usize, &usize)| {
        let layer = match at {
            0 => Layer::Capabilities,
            at if at % 2 == 1 => Layer::User,
            _ => Layer::Assistant,
        };
        let range = start..start + length;
        start = range.end;
        BlockFacts::new(range, layer, at as u32 + 1, sketch(at))
    };
    lengths.iter().enumerate().map(block).collect()
}

/// The sketch of 40 tokens that no other topic has.
pub fn sketch(topic: usize) -> Sketch {
    let first = topic as i32 * 40;
    Sketch::of(&(first..first + 40).map(Token).collect::<Vec<_>>())
}

static TOPICS: LazyLock<[Sketch; 6]> = LazyLock::new(|| array::from_fn(sketch));

/// Any conversation, and its turn.
pub fn conversations() -> impl Strategy<Value = (Vec<BlockFacts>, u32)> {
    prop::collection::vec(any_block(), 1..60).prop_map(|mut blocks| {
        let (mut start, mut turn) = (0, 1);
        for block in &mut blocks {
            block.range = start..start + block.range.len();
            start = block.range.end;
            turn += block.first_turn; // Turns since the block before.
            block.first_turn = turn;
            block.last_used_turn += turn;
            block.brought_back = block.brought_back.map(|turns| turn + turns);
        }
        let used = |block: &BlockFacts| block.last_used_turn.max(block.brought_back.unwrap_or(0));
        let turn = blocks.iter().map(used).max().expect("at least one block");
        (blocks, turn)
    })
}

fn any_block() -> impl Strategy<Value = BlockFacts> {
    let layers = prop::sample::select(vec![
        Layer::Rules,
        Layer::Capabilities,
        Layer::User,
        Layer::Assistant,
        Layer::Tool,
        Layer::Document,
    ]);
    let place = (1_usize..=64, prop::bool::weighted(0.8), 0_usize..4);
    let marks = (0_u8..=100, prop::bool::weighted(0.1), 0_u64..4);
    let turns = (0_u32..3, 0_u32..3, 0_u32..3, prop::option::weighted(0.2, 0_u32..4));
    (layers, place, marks, turns, 0..TOPICS.len()).prop_map(
        |(layer, place, marks, turns, topic)| {
            let (length, resident, shared) = place;
            let (weight, pinned, group) = marks;
            let (first_turn, last_used_turn, hits, brought_back) = turns;
            BlockFacts {
                own_cells: length.saturating_sub(shared.saturating_sub(1) * 32),
                is_shared: shared > 1,
                weight,
                pinned,
                group,
                resident,
                last_used_turn,
                hits,
                brought_back,
                ..BlockFacts::new(0..length, layer, first_turn, TOPICS[topic])
            }
        },
    )
}
