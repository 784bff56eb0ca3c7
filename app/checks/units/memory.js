import { cardParts, diskParts, machineParts } from "/pages/memory/bars.js";
import { runs } from "/pages/memory/blocks.js";
import { keepOptions } from "/pages/memory/keeping.js";
import { quotaInWords } from "/pages/memory/quota.js";
import { rowOf, sorted } from "/pages/memory/rows.js";
import { median, nearest, points, ticks } from "/pages/memory/scale.js";
import { initial, isChosen, selection } from "/pages/memory/selection.js";
import { cellClasses } from "/pages/memory/strip.js";
import { familyOf, nameOf, partOf, savedName } from "/pages/memory/words.js";
import { equal, test } from "./harness.js";

const bytesByKind = ({ parts }) => Object.fromEntries(parts.map((part) => [part.kind, part.bytes]));

const now = {
  machine: { total_bytes: 1000, available_bytes: 300 },
  model: { residency: "resident", weights_bytes: 200 },
  cells: { bytes: 100, used_bytes: 40, used_tokens: 4, tokens: 10 },
  warm: { bytes: 50, budget_bytes: 500 },
};

test("saved KV of a class with a lifetime expires that long after its last use", () => {
  const lifetimes = { short: 300, long: 3600, extended: 86_400, permanent: null };
  const expires = (fields) => rowOf({ age_secs: 600, created_at: 0, ...fields }, "a", lifetimes).expiresIn;
  equal(expires({ class: "long" }), 3000);
  equal(expires({ class: "short" }), 0);
  equal(expires({ class: "kept" }), null);
  equal(rowOf({ age_secs: 600, class: "long" }, "a", undefined).expiresIn, null);
});

test("lifetimes are named, or written in the largest unit that divides them", () => {
  const lifetimes = { short: 300, long: 604_800, extended: 129_600, permanent: null };
  const texts = (lifetimes) => keepOptions(lifetimes).map(([, text]) => text);
  equal(texts(lifetimes), ["while there is room", "36 hours", "7 days", "5 minutes"]);
  equal(texts({ ...lifetimes, short: 90, long: 60 }), ["while there is room", "36 hours", "1 minute", "90 seconds"]);
});

test("the parts of the machine's memory add up to all of it", () => {
  const usage = machineParts(now);
  equal(bytesByKind(usage), {
    weights: 200,
    hot: 40,
    reserved: 60,
    warm: 50,
    others: 350,
    free: 300,
  });
  equal(usage.parts.reduce((sum, part) => sum + part.bytes, 0), usage.total);
});

test("an unloaded model uses no memory", () => {
  const model = { residency: "unloaded", weights_bytes: 200 };
  const parts = bytesByKind(machineParts({ ...now, model }));
  equal([parts.weights, parts.hot, parts.reserved, parts.others], [0, 0, 0, 650]);
});

test("what a graphics card holds is in its memory and not in the machine's", () => {
  const card = { name: "CUDA0", total_bytes: 400, free_bytes: 120, shares_memory: false };
  const offload = { layers: 3, all_layers: 4, devices: ["CUDA0"], kv: true };
  const withCard = { ...now, devices: [card], offload };
  const usage = cardParts(withCard);
  equal([usage.names, usage.total], ["CUDA0", 400]);
  equal(bytesByKind(usage), { weights: 150, hot: 30, reserved: 45, others: 55, free: 120 });
  const machine = bytesByKind(machineParts(withCard));
  equal([machine.weights, machine.hot, machine.reserved, machine.others], [50, 10, 15, 575]);

  const kvHere = { ...withCard, offload: { ...offload, kv: false } };
  equal([bytesByKind(cardParts(kvHere)).hot, bytesByKind(machineParts(kvHere)).hot], [0, 40]);
  const unit = { ...withCard, devices: [{ ...card, shares_memory: true }] };
  for (const without of [now, unit, { ...withCard, offload: null }]) {
    equal(cardParts(without), null);
    equal(bytesByKind(machineParts(without)), bytesByKind(machineParts(now)));
  }
});

test("cells of unknown size have an unknown reserve", () => {
  const cells = { ...now.cells, bytes: null, used_bytes: null };
  equal(bytesByKind(machineParts({ ...now, cells })).reserved, null);
});

test("a machine of unknown size has no total", () => {
  const usage = machineParts({ ...now, machine: null });
  equal(usage.total, null);
  equal(usage.parts.map(({ kind }) => kind), ["weights", "hot", "reserved", "warm"]);
});

test("the disk's quota leaves room, never less than none", () => {
  const disk = { quota_bytes: 100, free_bytes: 5 };
  equal(bytesByKind(diskParts({ ...disk, bytes: 30 })), { cold: 30, room: 70 });
  equal(bytesByKind(diskParts({ ...disk, bytes: 130 })), { cold: 130, room: 0 });
});

test("without a quota the total is what is saved", () => {
  const usage = diskParts({ bytes: 30, quota_bytes: null, free_bytes: 5 });
  equal([usage.total, usage.parts[1].bytes], [30, null]);
});

test("the quota is explained by what sets it", () => {
  const disk = { quota_bytes: 2 ** 31, quota_set_bytes: null, quota_origin: "default", free_bytes: 5 };
  const holds = (changed, text) => equal(quotaInWords({ ...disk, ...changed }).includes(text), true);
  holds({}, "a tenth of the free disk space, 32 GiB at most, and leaves the last 10 GiB free: 2 GiB now");
  holds({ quota_bytes: 0 }, "leaves the last 10 GiB of the disk free");
  holds({ quota_set_bytes: 2 ** 31, quota_origin: "hob.toml:1" }, "You set it to 2 GiB");
  holds({ quota_fixed: true, quota_origin: "flag --slots-quota-bytes" }, "flag --slots-quota-bytes");
});

test("a share below one percent says so", () => {
  const noteOf = (bytes) => diskParts({ bytes, quota_bytes: 1000, free_bytes: 5 }).parts[0].note;
  equal([0, 1, 10].map(noteOf), ["0 % of the quota", "< 1 % of the quota", "1 % of the quota"]);
});

const block = (start, end, layer = "user") => ({
  start,
  end,
  layer,
  key: null,
  origin: "computed",
  sharers: 0,
});

test("equal neighbours are one run", () => {
  const blocks = [block(0, 64), block(64, 128), block(128, 150, "assistant"), block(150, 160)];
  const rows = runs({ kind: "conversation", title: "Peru", blocks });
  equal(rows.map(({ name, start, end, blocks }) => [name, start, end, blocks]), [
    ["Peru", 0, 128, 2],
    ["Peru", 128, 150, 1],
    ["Peru", 150, 160, 1],
  ]);
});

test("a block that is shared ends a run", () => {
  const shared = { ...block(64, 128), sharers: 1 };
  equal(runs({ kind: "conversation", blocks: [block(0, 64), shared] }).length, 2);
});

const saved = (name, fields) =>
  rowOf({ state: "cold", age_secs: 0, created_at: 0, class: "long", ...fields }, name);

const names = (rows) => rows.map(({ name }) => name);

test("rows sort by name in either direction", () => {
  const rows = [saved("b"), saved("A"), saved("c")];
  equal(names(sorted(rows, { name: "name", down: false })), ["A", "b", "c"]);
  equal(names(sorted(rows, { name: "name", down: true })), ["c", "b", "A"]);
});

test("equal rows sort by last use, latest first, in either direction", () => {
  const rows = [saved("old", { age_secs: 9 }), saved("new", { age_secs: 1 })];
  for (const down of [false, true]) {
    equal(names(sorted(rows, { name: "state", down })), ["new", "old"]);
  }
});

test("states sort by how near they are to the engine", () => {
  const states = ["expired", "cold", "warm", "hot", "open"];
  const rows = states.map((state) => saved(state, { state }));
  equal(names(sorted(rows, { name: "state", down: false })), [...states].reverse());
});

test("classes sort by their time, and kept is permanent", () => {
  const rows = ["kept", "extended", "short", "long"].map((name) => saved(name, { class: name }));
  equal(names(sorted(rows, { name: "class", down: false })), [
    "short",
    "long",
    "extended",
    "kept",
  ]);
  equal(rows[0].class, "permanent");
});

test("sorting leaves the rows as they were", () => {
  const rows = [saved("b"), saved("a")];
  sorted(rows, { name: "name", down: false });
  equal(names(rows), ["b", "a"]);
});

const turn = (fields) => ({ at: 1, message: "m", ttft_ms: 10, tokens: { computed: 1 }, ...fields });

test("an answer that reused more than it computed is a reused one", () => {
  const kindOf = (fields) => points([turn(fields)]).list[0].kind;
  equal(kindOf({ tokens: { shared: 5, memory: 1, disk: 1, computed: 7 } }), "reused");
  equal(kindOf({ tokens: { disk: 6, computed: 7 } }), "cold");
  equal(kindOf({ tokens: { moved: 40, away: 10, computed: 49 } }), "reused");
  equal(kindOf({ tokens: { shared: 9, computed: 1 }, cold: true }), "cold");
});

test("answers are in order of time, and those without a time are left out", () => {
  const turns = [turn({ at: 3, message: "c" }), turn({ ttft_ms: 0 }), turn({ at: 1, message: "a" })];
  equal(points(turns).list.map(({ key }) => key), ["a", "c"]);
});

test("each kind has its median and its number", () => {
  const reused = { tokens: { shared: 9, computed: 1 } };
  const times = [30, 10, 20].map((ttft_ms) => turn({ ...reused, ttft_ms }));
  const all = points([...times, turn({ ttft_ms: 500 })]);
  equal([all.median, all.count], [{ reused: 20, cold: 500 }, { reused: 3, cold: 1 }]);
  equal(points([]).median, { reused: null, cold: null });
});

test("the median of an even number is between the middle two", () => {
  equal([median([]), median([4]), median([1, 10, 2, 3])], [null, 4, 2.5]);
});

test("ticks are powers of ten around the values", () => {
  equal(ticks([12, 480]), { lowest: 10, highest: 1000, marks: [10, 100, 1000] });
  equal(ticks([0.5]).marks, [0.1, 1]);
});

test("one value on a power of ten has an axis too", () => {
  equal(ticks([100]), { lowest: 100, highest: 1000, marks: [100, 1000] });
});

test("the nearest point is inside the list", () => {
  equal([-1, 0, 0.49, 0.51, 1, 2].map((part) => nearest(3, part)), [0, 0, 1, 1, 2, 2]);
  equal(nearest(1, 0.9), 0);
});

test("the first selection is what has expired", () => {
  equal(selection(initial, "abc"), { expired: false });
  equal(isChosen(selection(initial, "abc")), false);
  equal(isChosen(selection({ ...initial, expired: true }, "abc")), true);
});

test("a selection without a criterion is none", () => {
  const none = selection({ ...initial, expired: false }, "abc");
  equal([none, isChosen(none)], [{ expired: false }, false]);
});

test("a selection has its criteria in the daemon's units", () => {
  const fields = {
    ...initial,
    expired: true,
    isOlder: true,
    older: 2,
    unit: "weeks",
    class: "permanent",
    isLarger: true,
    larger: 0.5,
    isOwn: true,
  };
  equal(selection(fields, "abc"), {
    expired: true,
    older_than_secs: 1_209_600,
    class: "permanent",
    larger_than: 524_288,
    fingerprint: "abc",
  });
});

test("a limit of nothing is the smallest one", () => {
  const body = selection({ ...initial, isOlder: true, older: 0, isLarger: true, larger: 0 }, "");
  equal([body.older_than_secs, body.larger_than], [1, 1]);
});

test("a cell is as wide as its block is long", () => {
  const widthOf = (tokens) => cellClasses(block(0, tokens)).split(" ")[1];
  equal([1, 16, 17, 64].map(widthOf), ["w1", "w1", "w2", "w4"]);
});

test("a cell has marks for its origin and for sharing", () => {
  const marksOf = (fields) => cellClasses({ ...block(0, 64), ...fields }).split(" ").slice(3);
  equal(marksOf({ origin: "disk" }), ["o-disk"]);
  equal(marksOf({ origin: "disk", sharers: 1 }), ["o-disk", "o-shared"]);
  equal(marksOf({ origin: "shared", sharers: 1 }), ["o-shared"]);
});

test("layers belong to families", () => {
  equal(["rules", "capabilities", "user", "else"].map(familyOf), [
    "system",
    "tool",
    "user",
    "unknown",
  ]);
});

test("a part has its key where that says more", () => {
  equal(partOf("rules", "house"), "system (house)");
  equal([partOf("assistant", "answer"), partOf("user", "user"), partOf("user", null)], [
    "assistant",
    "user",
    "user",
  ]);
});

test("saved conversations are named by their chat or their profile", () => {
  const titles = new Map([["a", "Peru"]]);
  equal([savedName("a", titles), savedName("b", titles)], ["Peru", "b"]);
  equal(savedName("__prefix__:home", titles), "Instructions “home”");
  equal(savedName("__system_prefix__", titles), "Instructions “default”");
  equal(savedName("__key__:v5:abc", titles), "Cache key “v5:abc”");
  equal(savedName("__key_2__:v5:abc", titles), "Cache key “v5:abc”");
});

test("a slot is named by its title, its id or its profile", () => {
  equal(nameOf({ kind: "conversation", title: "Peru", conversation: "a" }), "Peru");
  equal(nameOf({ kind: "conversation", conversation: "a" }), "a");
  equal(nameOf({ kind: "prefix", profile: "home" }), "Instructions “home”");
});
