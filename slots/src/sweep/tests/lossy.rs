//! The lossy tier: what is rounded, under which names, and what stays exact.

use super::*;
use crate::format::{BranchRef, SegmentRef};
use crate::layer::Layer;
use crate::lineage::{View, ViewRun};

/// Rounds by keeping every other byte. Blocks that begin with 99 cannot be rounded.
#[derive(Default)]
struct Rounder {
    open: RefCell<Option<&'static str>>,
    /// Opens the conversation when so many blocks were rounded.
    opens_after: Option<(usize, &'static str)>,
    renamed: RefCell<Vec<(BlockId, Option<BlockId>, BlockId)>>,
    replaced: RefCell<Vec<String>>,
}

impl LiveRefs for Rounder {
    fn is_open(&self, _: ModelHash, conversation: &ConversationId) -> bool {
        *self.open.borrow() == Some(conversation.as_str())
    }

    fn slot_file_replaced(&self, _: ModelHash, conversation: &ConversationId) {
        self.replaced.borrow_mut().push(conversation.to_string());
    }

    fn can_round(&self, model: ModelHash) -> bool {
        model == MODEL
    }

    fn rounded(&self, payload: &[u8], _: Lossy) -> Option<Vec<u8>> {
        (payload[0] != 99).then(|| payload.iter().step_by(2).copied().collect())
    }

    fn block_renamed(
        &self,
        _: ModelHash,
        old: BlockId,
        after: Option<BlockId>,
        object: &Object,
        _: Timestamp,
    ) {
        self.renamed.borrow_mut().push((old, after, object.id()));
        if let Some((blocks, name)) = self.opens_after
            && self.renamed.borrow().len() == blocks
        {
            *self.open.borrow_mut() = Some(name);
        }
    }

    crate::as_without_engine!(
        is_stopping,
        slot_file_removed,
        while_none_reads,
        objects_lost,
        with_unreferenced
    );
}

fn rules() -> Rules {
    Rules { lossy: Some(Lossy::Q8), ..Rules::without_quota() }
}

impl World {
    fn record(&self, name: &str) -> SlotRecord {
        self.store.get_slot(MODEL, &id(name)).unwrap()
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut SlotRecord)) {
        let mut record = self.record(name);
        change(&mut record);
        self.store.put_slot(MODEL, &record).unwrap();
    }

    /// The lengths of the payloads, and whether each block is rounded; every name is the one that its tokens,
    /// views and predecessors give.
    fn blocks(&self, name: &str) -> Vec<(usize, bool)> {
        let record = self.record(name);
        let mut parent = BlockId::root(MODEL);
        let mut start = 0;
        let blocks = record.blocks.iter().map(|block| {
            let run = record.lineage.views.iter().find(|run| start < run.end);
            let view = run.map_or(View::WHOLE, |run| run.view);
            let object = self.store.get_object(MODEL, block.id, ObjectKind::Block).unwrap();
            let tokens = &record.tokens[start as usize..block.end as usize];
            assert_eq!(BlockId::child(view.parent(parent), tokens), block.id);
            assert_eq!((object.id(), object.start), (block.id, start));
            assert_eq!(object.file_bytes(), block.bytes);
            assert_eq!(view.is_lossy(), object.kind == ObjectKind::Lossy);
            (parent, start) = (block.id, block.end);
            (object.payload.len(), view.is_lossy())
        });
        blocks.collect()
    }

    fn age(&self, live_refs: &dyn LiveRefs) -> Swept {
        self.sweep_after_hours(2, rules(), live_refs)
    }

    /// Saves a conversation whose tokens are those of its blocks.
    fn talk(&self, name: &str, words: &[i32]) {
        self.save(name, TtlClass::Permanent, MODEL, words);
        self.change(name, |record| {
            record.tokens = words.iter().flat_map(|&word| vec![Token(word); 64]).collect();
        });
    }
}

const WHOLE: (usize, bool) = (10_000, false);
const HALF: (usize, bool) = (5_000, true);

#[test]
fn an_aged_conversation_is_rounded_and_its_exact_objects_leave() {
    let world = World::new();
    world.talk("chat", &[1, 2, 3]);
    let engine = Rounder::default();
    let before = world.record("chat");
    assert_eq!(world.sweep_after_hours(0, rules(), &engine).rounded, 0);
    assert_eq!(world.blocks("chat"), [WHOLE; 3], "it is young");
    let swept = world.age(&engine);
    assert_eq!((swept.rounded, world.objects()), (1, 3));
    assert_eq!(world.blocks("chat"), [HALF; 3]);
    let after = world.record("chat");
    let all: BTreeSet<BlockId> =
        before.blocks.iter().chain(&after.blocks).map(|block| block.id).collect();
    assert_eq!(all.len(), 6, "all names are new");
    assert_eq!((after.used_at, &after.tokens), (before.used_at, &before.tokens));
    assert!(swept.used_bytes < 17_000, "{}", swept.used_bytes);
    assert_eq!(*engine.replaced.borrow(), ["chat"]);
    let renamed = engine.renamed.borrow();
    let afters: Vec<_> = renamed.iter().map(|(_, after, _)| *after).collect();
    assert_eq!(afters, [None, Some(after.blocks[0].id), Some(after.blocks[1].id)]);
    drop(renamed);
    assert_eq!(world.age(&engine).rounded, 0, "it is once");
    assert_eq!(world.record("chat"), after);
}

#[test]
fn it_is_off_by_default_and_without_an_engine() {
    let world = World::new();
    world.talk("chat", &[1, 2]);
    assert_eq!(Rules::default().lossy, None);
    world.sweep_after_hours(2, no_compression(), &Rounder::default());
    world.sweep_after_hours(2, Rules { compress_after: None, ..rules() }, &Rounder::default());
    world.sweep_after_hours(2, rules(), &NoEngine);
    assert_eq!(world.blocks("chat"), [WHOLE; 2]);
}

#[test]
fn protected_layers_stay_exact_also_behind_rounded_blocks() {
    let world = World::new();
    world.talk("chat", &[1, 2, 3, 4, 5]);
    world.change("chat", |record| {
        record.segments = vec![
            SegmentRef::new(70, Layer::Rules, ""),
            SegmentRef::new(200, Layer::User, ""),
            SegmentRef::new(210, Layer::Capabilities, ""),
            SegmentRef::new(320, Layer::Assistant, ""),
        ];
    });
    let before = world.record("chat");
    world.age(&Rounder::default());
    assert_eq!(world.blocks("chat"), [WHOLE, WHOLE, HALF, WHOLE, HALF]);
    let after = world.record("chat");
    assert_eq!(after.blocks[..2], before.blocks[..2], "their names stay");
    assert_ne!(after.blocks[3].id, before.blocks[3].id, "it follows a rounded one");
    assert_eq!(world.objects(), 5);
}

#[test]
fn blocks_that_another_conversation_needs_exact_stay() {
    let mut world = World::new();
    world.talk("old", &[1, 2, 3]);
    world.talk("other", &[1, 2, 4]);
    world.now = Timestamp(world.now.0 + 2 * HOUR_MS);
    world.talk("young", &[1, 5]);
    world.talk("__prefix__:p", &[7, 8]);
    let engine = Rounder::default();
    world.sweep_after_hours(0, rules(), &engine);
    assert_eq!(world.blocks("old"), [WHOLE, HALF, HALF]);
    assert_eq!(world.blocks("other"), [WHOLE, HALF, HALF]);
    assert_eq!(world.record("old").blocks[1], world.record("other").blocks[1], "rounded once");
    assert_eq!(world.blocks("young"), [WHOLE; 2]);
    world.sweep_after_hours(2, rules(), &engine);
    assert_eq!(world.blocks("__prefix__:p"), [WHOLE; 2], "others find it by its text");
}

#[test]
fn an_open_conversation_stays_exact_also_one_that_is_opened_meanwhile() {
    let world = World::new();
    world.talk("chat", &[1, 2, 3]);
    let engine = Rounder { open: RefCell::new(Some("chat")), ..Rounder::default() };
    world.age(&engine);
    assert_eq!(world.blocks("chat"), [WHOLE; 3]);
    let engine = Rounder { opens_after: Some((2, "chat")), ..Rounder::default() };
    assert_eq!(world.age(&engine).rounded, 0);
    assert_eq!(world.blocks("chat"), [WHOLE; 3]);
    *engine.open.borrow_mut() = None;
    world.age(&engine);
    assert_eq!((world.blocks("chat"), world.objects()), (vec![HALF; 3], 3));
}

#[test]
fn a_block_that_cannot_be_rounded_stays_and_is_renamed_behind_rounded_ones() {
    let world = World::new();
    world.talk("chat", &[99, 2, 99, 4]);
    let before = world.record("chat");
    world.age(&Rounder::default());
    assert_eq!(world.blocks("chat"), [WHOLE, HALF, WHOLE, HALF]);
    assert_eq!(world.record("chat").blocks[0], before.blocks[0]);
    world.talk("none", &[99, 99]);
    let before = world.record("none");
    assert_eq!(world.age(&Rounder::default()).rounded, 0);
    assert_eq!(world.record("none"), before);
}

#[test]
fn what_follows_rounded_blocks_is_rounded_when_it_ages_and_the_former_keep_their_names() {
    let world = World::new();
    world.talk("chat", &[1, 2]);
    world.age(&Rounder::default());
    let before = world.record("chat");
    // The next turn computes another block behind them.
    let parent = before.blocks[1].id;
    let object = Object {
        kind: ObjectKind::Block,
        model: MODEL,
        parent,
        start: 128,
        tokens: vec![Token(3); 64],
        payload: Payload::from(vec![3; 10_000]),
    };
    world.store.put_object(MODEL, object.id(), &object).unwrap();
    world.change("chat", |record| {
        record.tokens.extend(&object.tokens);
        record.blocks.push(BlockRef { end: 192, id: object.id(), bytes: object.file_bytes() });
        record.lineage.views.push(ViewRun { end: 192, view: View::WHOLE });
        record.used_at = Timestamp(record.used_at.0 + 1);
    });
    assert_eq!(world.blocks("chat"), [HALF, HALF, WHOLE]);
    world.age(&Rounder::default());
    assert_eq!(world.blocks("chat"), [HALF; 3]);
    assert_eq!(world.record("chat").blocks[..2], before.blocks);
}

#[test]
fn blocks_that_saw_less_are_rounded_and_ranges_that_are_away_stay_so() {
    let world = World::new();
    world.talk("chat", &[1, 2, 3, 4]);
    let view = View::without([64..128]);
    let (mut parent, mut ends) = (BlockId::root(MODEL), Vec::new());
    for word in 1..=4 {
        let named = if word == 4 { view.parent(parent) } else { parent };
        let tokens = vec![Token(word); 64];
        let payload = Payload::from(vec![word as u8; 10_000]);
        let start = (word as u32 - 1) * 64;
        let kind = ObjectKind::Block;
        let object = Object { kind, model: MODEL, parent: named, start, tokens, payload };
        parent = object.id();
        world.store.put_object(MODEL, parent, &object).unwrap();
        ends.push(BlockRef { end: start + 64, id: parent, bytes: object.file_bytes() });
    }
    world.change("chat", |record| {
        record.blocks = ends;
        record.lineage.away = vec![64..128];
        record.lineage.views =
            vec![ViewRun { end: 192, view: View::WHOLE }, ViewRun { end: 256, view }];
        record.segments = vec![SegmentRef::new(64, Layer::Identity, "")];
        // Tokens without a saved block.
        record.tokens.extend([Token(9); 10]);
        record.lineage.views[1].end = 266;
    });
    world.age(&Rounder::default());
    assert_eq!(world.blocks("chat"), [WHOLE, HALF, HALF, HALF]);
    let after = world.record("chat");
    assert_eq!(after.lineage.away, [64..128]);
    assert_eq!(after.lineage.views.last(), Some(&ViewRun { end: 266, view }));
}

#[test]
fn branches_before_the_first_rounded_block_stay_and_later_ones_leave() {
    let world = World::new();
    world.talk("chat", &[1, 2, 3]);
    world.save("branches", TtlClass::Permanent, MODEL, &[1, 5, 6]);
    let others = world.record("branches").blocks;
    world.change("chat", |record| {
        record.segments = vec![SegmentRef::new(64, Layer::Axioms, "")];
        let branch = |index: usize| BranchRef {
            kind: ObjectKind::Block,
            start: index as u32 * 64,
            end: others[index].end,
            id: others[index].id,
            bytes: others[index].bytes,
        };
        record.branches = vec![branch(1), branch(2)];
    });
    world.store.remove_slot(MODEL, &id("branches")).unwrap();
    world.age(&Rounder::default());
    let after = world.record("chat");
    assert_eq!(world.blocks("chat"), [WHOLE, HALF, HALF]);
    assert_eq!(after.branches.iter().map(|it| it.id).collect::<Vec<_>>(), [others[1].id]);
    assert_eq!(world.objects(), 4);
}

#[test]
fn a_long_conversation_is_rounded_over_several_sweeps() {
    let world = World::new();
    world.talk("chat", &[1, 2, 3, 4, 5]);
    let engine = Rounder::default();
    let mut sweeper = Sweeper::new(Rules { max_rounded_bytes: 20_000, ..rules() });
    let now = AdjustedTime::from(Timestamp(world.now.0 + 2 * HOUR_MS));
    for (sweep, is_done) in [(1, false), (2, false), (3, true)] {
        let swept = sweeper.sweep(&world.store, &now, &engine);
        assert_eq!((swept.left, swept.rounded == 1), (!is_done, is_done), "sweep {sweep}");
        assert!(swept.errors.is_empty());
        let expected = if is_done { HALF } else { WHOLE };
        assert_eq!(world.blocks("chat"), [expected; 5], "sweep {sweep}");
    }
    assert_eq!((engine.renamed.borrow().len(), world.objects()), (5, 5));
}

#[test]
fn a_conversation_whose_object_is_gone_or_that_has_snapshots_stays_as_it_is() {
    let world = World::new();
    world.talk("chat", &[1, 2, 3]);
    let before = world.record("chat");
    world.store.remove_objects(MODEL, [&before.blocks[1].id]).unwrap();
    let swept = world.age(&Rounder::default());
    assert_eq!((swept.rounded, world.record("chat")), (0, before));
    world.talk("hybrid", &[7, 8]);
    world.change("hybrid", |record| {
        let block = record.blocks[1];
        record.snapshots =
            vec![crate::format::SnapshotRef { position: 128, id: block.id, bytes: 1 }];
    });
    assert_eq!(world.age(&Rounder::default()).rounded, 0);
}
