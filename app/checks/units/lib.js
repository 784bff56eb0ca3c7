import { every } from "/lib/every.js";
import { ago, bytes, count, duration, seconds } from "/lib/format.js";
import { matches } from "/lib/keys.js";
import { safeAddress } from "/lib/links.js";
import { address, parseRoute } from "/lib/router.js";
import { createPersistentStore, createStore } from "/lib/store.js";
import { locale, t } from "/lib/strings.js";
import { events } from "/lib/transport/events.js";
import { ttlClass } from "/lib/ttl.js";
import { wav } from "/lib/wav.js";
import { equal, test, throws } from "./harness.js";

test("count groups thousands", () => {
  equal([0, 999, 6214, 1234567].map(count), ["0", "999", "6,214", "1,234,567"]);
});

test("bytes have three digits and a unit of 1024", () => {
  equal([0, 999, 1536, 1_524_713_390].map(bytes), ["0 B", "999 B", "1.5 KiB", "1.42 GiB"]);
});

test("bytes change their unit at 1000, so that three digits are enough", () => {
  equal([1000, 1000 * 1024].map(bytes), ["0.977 KiB", "0.977 MiB"]);
});

test("bytes beyond the largest unit keep it", () => {
  equal(bytes(5000 * 1024 ** 4), "5,000 TiB");
});

test("seconds have one digit while they are few", () => {
  equal([84, 400, 2940, 31_200, 164_000].map(seconds), ["84 ms", "0.4 s", "2.9 s", "31 s", "3 min"]);
});

test("a duration has the unit of its size", () => {
  const shown = [0.42, 84, 999, 3142, 84_200, 120_000].map(duration);
  equal(shown, ["0.4 ms", "84 ms", "999 ms", "3.1 s", "84.2 s", "2 min"]);
});

test("an age counts whole units and is never in the future", () => {
  const now = 1_000_000_000;
  const ages = [-50, 59, 60, 3599, 3600, 86_399, 6 * 86_400];
  equal(ages.map((age) => ago(now - age, now)), [
    "now",
    "now",
    "1 min. ago",
    "59 min. ago",
    "1 hr. ago",
    "23 hr. ago",
    "6 days ago",
  ]);
});

test("an age of a week is a date", () => {
  const noon = 12 * 3600;
  equal(ago(noon, noon + 7 * 86_400), "Jan 1, 1970");
});

const strings = {
  plain: "{name} has {n} tokens",
  sizes: "{size, bytes} in {time, duration}",
  plural: { zero: "none", one: "{n} token", other: "{n} tokens" },
  unzeroed: { one: "one", other: "{n}" },
};

/** Runs `act` with these strings instead of the page's. */
function withStrings(act) {
  const before = locale.get();
  locale.set({ strings });
  try {
    act();
  } finally {
    locale.set(before);
  }
}

test("a string takes text and numbers", () => {
  withStrings(() => equal(t("plain", { name: "Peru", n: 12_000 }), "Peru has 12,000 tokens"));
});

test("a string takes sizes and durations", () => {
  withStrings(() => equal(t("sizes", { size: 2048, time: 3100 }), "2 KiB in 3.1 s"));
});

test("a string has one form a plural", () => {
  withStrings(() => {
    equal([0, 1, 2].map((n) => t("plural", { n })), ["none", "1 token", "2 tokens"]);
    equal(t("unzeroed", { n: 0 }), "0");
  });
});

test("text that looks like a place is not filled in twice", () => {
  withStrings(() => equal(t("plain", { name: "{n}", n: 1 }), "{n} has 1 tokens"));
});

test("a string that is missing is an error", () => {
  throws(() => t("no such string"), "no such string");
});

const keyEvent = (fields) => ({
  key: "",
  code: "",
  ctrlKey: false,
  metaKey: false,
  altKey: false,
  shiftKey: false,
  ...fields,
});

test("Mod is Ctrl, and Command on a Mac", () => {
  const ctrl = keyEvent({ key: "k", ctrlKey: true });
  const command = keyEvent({ key: "k", metaKey: true });
  equal([matches("Mod+K", ctrl, false), matches("Mod+K", command, false)], [true, false]);
  equal([matches("Mod+K", ctrl, true), matches("Mod+K", command, true)], [false, true]);
});

test("a shortcut has exactly its modifiers", () => {
  const event = { key: "n", altKey: true };
  equal(matches("Alt+N", keyEvent(event), false), true);
  equal(matches("Alt+N", keyEvent({ ...event, ctrlKey: true }), false), false);
  equal(matches("Alt+N", keyEvent({ ...event, shiftKey: true }), false), false);
  equal(matches("Alt+N", keyEvent({ key: "n" }), false), false);
});

test("a symbol may need Shift on the keyboard", () => {
  equal(matches("?", keyEvent({ key: "?", shiftKey: true }), false), true);
  equal(matches("/", keyEvent({ key: "/" }), false), true);
});

test("on a Mac Alt changes the letter but not the key", () => {
  const event = keyEvent({ key: "˜", code: "KeyN", altKey: true });
  equal(matches("Alt+N", event, true), true);
});

test("a shortcut is in its place on a keyboard of another script", () => {
  const russian = { key: "л", code: "KeyK" };
  equal(matches("Mod+K", keyEvent({ ...russian, ctrlKey: true }), false), true);
  equal(matches("Mod+F", keyEvent({ ...russian, ctrlKey: true }), false), false);
  equal(matches("Alt+N", keyEvent({ key: "т", code: "KeyN", altKey: true }), false), true);
  equal(matches("/", keyEvent({ key: "ю", code: "Slash" }), false), false);
  // Where the letters are Latin, what a key writes counts: AZERTY has "a" on the key "Q".
  equal(matches("Mod+Q", keyEvent({ key: "a", code: "KeyQ", ctrlKey: true }), false), false);
});

test("a route has a page and what it shows", () => {
  equal(parseRoute("#/chat/a%20b"), { page: "chat", detail: "a b" });
  equal(parseRoute("#/chat/a/7"), { page: "chat", detail: "a", place: "7" });
  equal(address("chat", "a", 7), "#/chat/a/7");
  equal(parseRoute("#/memory"), { page: "memory", detail: null });
  equal(parseRoute(""), { page: "chat", detail: null });
});

test("a route that cannot be decoded shows the page", () => {
  equal(parseRoute("#/chat/%"), { page: "chat", detail: null });
});

test("an address is read back as its route", () => {
  for (const detail of ["plain", "a/b", "50 %", "ä#?"]) {
    equal(parseRoute(address("chat", detail)), { page: "chat", detail });
  }
  equal(address("memory"), "#/memory");
});

test("a store merges fields and calls its listeners", () => {
  const store = createStore({ a: 1, b: 2 });
  const seen = [];
  const unsubscribe = store.subscribe((value) => seen.push(value));
  store.set({ a: 3 });
  store.set(({ a }) => ({ b: a + 1 }));
  unsubscribe();
  store.set({ a: 0 });
  equal(seen, [{ a: 3, b: 2 }, { a: 3, b: 4 }]);
  equal(store.get(), { a: 0, b: 4 });
});

test("a listener may end its own subscription", () => {
  const store = createStore({ n: 0 });
  const seen = [];
  const unsubscribe = store.subscribe(() => unsubscribe());
  store.subscribe(({ n }) => seen.push(n));
  store.set({ n: 1 });
  equal(seen, [1]);
});

test("a persistent store is read back, with new fields at their defaults", () => {
  createPersistentStore("unit", { a: 1 }).set({ a: 2 });
  equal(createPersistentStore("unit", { a: 1, b: 3 }).get(), { a: 2, b: 3 });
  localStorage.removeItem("unit");
});

test("of a persistent store with a bound, the newest fields are read back", () => {
  const store = createPersistentStore("unit", {}, 2);
  ["a", "b", "c"].forEach((name) => store.set({ [name]: 1 }));
  equal(createPersistentStore("unit", {}, 2).get(), { b: 1, c: 1 });
  localStorage.removeItem("unit");
});

test("what is repeated waits for the time before", async () => {
  const real = globalThis.setInterval;
  let tick;
  globalThis.setInterval = (act) => {
    tick = act;
  };
  let times = 0;
  let end;
  every(1000, () => {
    times += 1;
    return new Promise((resolve) => (end = resolve));
  });
  globalThis.setInterval = real;
  const first = tick();
  tick();
  equal(times, 1);
  end();
  await first;
  tick();
  equal(times, 2);
});

test("a change in one window is no change back in another", () => {
  const name = "units.shared";
  const windows = [1, 2].map(() => createPersistentStore(name, { a: 1, b: 1 }));
  windows[0].set({ a: 2 });
  window.dispatchEvent(new StorageEvent("storage", { key: name }));
  windows[1].set({ b: 2 });
  const stored = JSON.parse(localStorage.getItem(name));
  localStorage.removeItem(name);
  equal(stored, { a: 2, b: 2 });
});

test("a persistent store whose text is damaged has its defaults", () => {
  localStorage.setItem("unit", "{");
  equal(createPersistentStore("unit", { a: 1 }).get(), { a: 1 });
  localStorage.removeItem("unit");
});

async function eventsOf(chunks) {
  const seen = [];
  for await (const data of events(chunks)) seen.push(data);
  return seen;
}

test("events are the same wherever their bytes are cut", async () => {
  const bytes = new TextEncoder().encode('data: {"a":"ä€😀"}\n\ndata: two\n\n');
  for (let cut = 0; cut <= bytes.length; cut += 1) {
    const chunks = [bytes.slice(0, cut), bytes.slice(cut)];
    equal(await eventsOf(chunks), ['{"a":"ä€😀"}', "two"]);
  }
});

test("lines of data are joined; comments and other fields are skipped", async () => {
  const bytes = new TextEncoder().encode(": ping\n\nevent: x\ndata: one\ndata:two\nid: 3\n\n");
  equal(await eventsOf([bytes]), ["one\ntwo"]);
});

test("an event without its end is dropped", async () => {
  equal(await eventsOf([new TextEncoder().encode("data: one\n\ndata: tw")]), ["one"]);
});

test("links lead to http, https and mailto only", () => {
  equal(safeAddress("https://example.com/a b"), "https://example.com/a%20b");
  equal(safeAddress("mailto:a@example.com"), "mailto:a@example.com");
  for (const text of ["javascript:alert(1)", "data:text/html,x", "file:///etc", "/path", ""]) {
    equal(safeAddress(text), null);
  }
});

test("kept is the older name of the class permanent", () => {
  equal(["short", "kept", "permanent"].map(ttlClass), ["short", "permanent", "permanent"]);
});

test("a WAV file has its header, and samples are clipped", async () => {
  const file = await wav(Float32Array.of(0, 1, -1, 2, -2, 0.5));
  const view = new DataView(file);
  const tag = (at) => String.fromCharCode(...new Uint8Array(file, at, 4));
  equal([tag(0), tag(8), tag(12), tag(36)], ["RIFF", "WAVE", "fmt ", "data"]);
  equal([4, 16, 24, 28, 40].map((at) => view.getUint32(at, true)), [48, 16, 16_000, 32_000, 12]);
  equal([20, 22, 32, 34].map((at) => view.getUint16(at, true)), [1, 1, 2, 16]);
  const samples = [...new Int16Array(file, 44)];
  equal(samples, [0, 32_767, -32_767, 32_767, -32_767, 16_383]);
});
