//! Whole snapshots of models that are saved in blocks today: those of earlier versions are read.

use std::sync::Arc;

use hob_runtime::Model;
use hob_runtime::backend::{Backend, ContextShape, MemoryKind, Row, Sequence};
use hob_slots::format::{Object, ObjectKind, SlotRecord, SnapshotRef};
use hob_slots::store::{Store, StoreReader};
use hob_slots::{BlockId, Payload, Timeline, Timestamp, Token, TtlClass};

use crate::support::*;

#[test]
fn a_record_with_a_whole_snapshot_is_restored_and_continued_in_blocks() {
    for memory in [MemoryKind::Windowed, MemoryKind::Hybrid] {
        let model = of_memory(memory);
        let told = tokens(&model, &user(&"a long story ".repeat(20)));
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let mut state = Vec::new();
        let shape = ContextShape { context_tokens: 1024, sequences: 2, micro_batch: 128 };
        model.with_context(shape, &mut |backend| state = computed(backend, &told)).unwrap();
        save_whole(&store, &model, &told, state);
        drop(store);

        let mut timeline = told;
        for turn in 0..2 {
            let engine = engine(&model, Some(directory.path()), options());
            let prompt = then(&model, &timeline, "and then?");
            let answer = ask(&engine, request("chat", &prompt, 20));
            let counts = answer.report.tokens;
            assert_eq!(counts.disk, timeline.len(), "{memory}, {turn}: {:?}", answer.report);
            assert_eq!(answer.tokens, alone(&model, &prompt, 20), "{memory}, {turn}");
            timeline = answer.timeline;
            engine.shutdown();
        }
        let reader = StoreReader::open(directory.path()).unwrap();
        let record = reader.get_slot(FINGERPRINT, &name("chat")).unwrap();
        assert_eq!(
            record.blocks.last().map(|it| it.end as usize),
            Some(timeline.len()),
            "{memory}"
        );
    }
}

/// The whole state after `tokens`.
fn computed(backend: &mut dyn Backend, tokens: &[Token]) -> Vec<u8> {
    let row = |(position, &token): (usize, &Token)| Row {
        token,
        position,
        sequence: Sequence(0),
        wants_logits: false,
    };
    let rows: Vec<Row> = tokens.iter().enumerate().map(row).collect();
    rows.chunks(128).for_each(|rows| backend.decode(rows).unwrap());
    backend.export(Sequence(0), Vec::new()).unwrap()
}

/// A conversation as it was saved before there were partial snapshots.
fn save_whole(store: &Store, model: &Arc<dyn Model>, tokens: &[Token], state: Vec<u8>) {
    let mut timeline = Timeline::new(FINGERPRINT);
    timeline.push(tokens, |token| model.vocabulary().is_eog(token));
    let (at, position) = (timeline.id_at(tokens.len()), u32::try_from(tokens.len()).unwrap());
    let object = Object {
        kind: ObjectKind::Snapshot,
        model: FINGERPRINT,
        parent: at,
        start: position,
        tokens: Vec::new(),
        payload: Payload::from(state),
    };
    let (id, bytes) = (BlockId::snapshot(at), object.file_bytes());
    store.put_object(FINGERPRINT, id, &object).unwrap();
    let record = SlotRecord {
        turns: 1,
        tokens: tokens.to_vec(),
        snapshots: vec![SnapshotRef { position, id, bytes }],
        ..SlotRecord::empty(name("chat"), TtlClass::Long, Timestamp(1_700_000_000_000))
    };
    store.put_slot(FINGERPRINT, &record).unwrap();
}
