import { addChunk, emptyAnswer } from "/chat/answer.js";
import { createAttachments } from "/chat/attachments.js";
import { chats, newId, prewarm, visibleChats } from "/chat/chats.js";
import { comingOf, keysOfStored } from "/chat/coming.js";
import { isNearlyFull } from "/chat/context.js";
import { visiblePath } from "/chat/conversation.js";
import { difference } from "/chat/difference.js";
import { broughtBack, cellsOf, rememberedOf } from "/chat/figures.js";
import { grouped } from "/chat/groups.js";
import { placesOf } from "/chat/matches.js";
import { between } from "/chat/picked.js";
import { hobFields, kvFields } from "/chat/request.js";
import { PARAMETERS, PRESETS, presetOf, samplingOf } from "/chat/sampling.js";
import { matching } from "/chat/templates.js";
import { awayOf, countBelow, newestStart, pathTo, reusedTokens, textOf, variantsById } from "/chat/tree.js";
import { createTypeAhead } from "/chat/type-ahead.js";
import { t } from "/lib/strings.js";
import { equal, test } from "./harness.js";

/** 1 - 2 - 3 and 1 - 2 - 4, and another beginning 5. */
const messages = [
  { id: 1, parent: null },
  { id: 2, parent: 1 },
  { id: 3, parent: 2 },
  { id: 4, parent: 2 },
  { id: 5, parent: null },
];

const idsOf = (list) => list.map(({ id }) => id);

test("a request names the KV that its chat may use, and leaves open what is not chosen", () => {
  const open = { profile: "", beyond: null, reuse: null };
  equal(kvFields(open), {});
  const chosen = { profile: "reader", beyond: "reanchor", reuse: "exact" };
  equal(kvFields(chosen), chosen);
  const state = { state: "ready", instructions: "Be brief.", ...open, beyond: "end" };
  equal(hobFields("chat-1", state, 3), { append: true, after: 3, beyond: "end" });
});

test("chats are grouped by local days, and pinned ones are in front", () => {
  const now = new Date(2026, 2, 30, 12);
  const at = (...date) => new Date(...date).getTime() / 1000;
  const chats = [
    { id: "pinned", pinned: true, updated_at: at(2020, 0, 1) },
    { id: "today", updated_at: at(2026, 2, 30, 0, 0, 0) },
    { id: "yesterday", updated_at: at(2026, 2, 29, 23, 59, 59) },
    { id: "week", updated_at: at(2026, 2, 23, 0, 0, 0) },
    { id: "earlier", updated_at: at(2026, 2, 22, 23, 59, 59) },
    { id: "of the future", updated_at: at(2026, 3, 2) },
  ];
  const groups = grouped(chats, now).map(({ name, items }) => [name, ...idsOf(items)]);
  equal(groups, [
    ["pinned", "pinned"],
    ["today", "today", "of the future"],
    ["yesterday", "yesterday"],
    ["week", "week"],
    ["earlier", "earlier"],
  ]);
  equal(grouped([chats[1]], now).length, 1);
});

test("a range of chats is picked in either direction", () => {
  const list = ["a", "b", "c", "d"].map((id) => ({ id }));
  equal(between(list, "b", "d"), ["b", "c", "d"]);
  equal(between(list, "d", "b"), ["b", "c", "d"]);
  equal(between(list, "gone", "b"), ["b"]);
  equal(between(list, "b", "gone"), []);
});

test("a path leads from the first message to the head", () => {
  equal(idsOf(pathTo(messages, 4)), [1, 2, 4]);
  equal(idsOf(pathTo(messages, 5)), [5]);
});

test("the path to an unknown head is empty", () => {
  equal(pathTo(messages, null), []);
  equal(pathTo(messages, 99), []);
});

test("what follows a message is counted on all branches", () => {
  equal(messages.map((message) => countBelow(messages, message)), [3, 2, 0, 0, 0]);
});

test("an answer that goes on has the text before its first chunk, and the daemon's with it", () => {
  const begun = { content: "one", reasoning_content: "hm", tool_calls: [{ function: { name: "f", arguments: "{" } }] };
  const answer = emptyAnswer(begun);
  equal([answer.text, answer.reasoning], ["one", "hm"]);
  addChunk(answer, { choices: [], hob: { continued: { ...begun, content: "one two" }, progress: {} } });
  const call = { index: 0, function: { arguments: "}" } };
  addChunk(answer, { choices: [{ delta: { content: " three", tool_calls: [call] } }] });
  equal([answer.text, answer.calls[0].function.arguments], ["one two three", "{}"]);
  equal(begun.tool_calls[0].function.arguments, "{");
});

test("words are found in any case and with any white space", () => {
  equal(placesOf("A b\n a  B", "a b"), [[0, 3], [5, 9]]);
  equal(placesOf("1+1 [x] (y)", "[X]"), [[4, 7]]);
});

test("a preset is known by its values, and empty fields set nothing", () => {
  equal(Object.entries(PRESETS).map(([, values]) => presetOf({ ...values })), Object.keys(PRESETS));
  equal(presetOf({ temperature: 0.3 }), null);
  equal(samplingOf({ temperature: "0,5", seed: " ", top_k: 40, other: "1" }), { temperature: 0.5, top_k: 40 });
});

test("each parameter that hobd stores with a chat has a field, a name and a description", () => {
  const stored = [
    "frequency_penalty",
    "max_tokens",
    "min_p",
    "presence_penalty",
    "repeat_last_n",
    "repeat_penalty",
    "seed",
    "temperature",
    "top_k",
    "top_p",
    "xtc_probability",
    "xtc_threshold",
  ];
  equal(PARAMETERS.map(({ name }) => name).sort(), stored);
  const texts = stored.flatMap((name) => [t(`sampling.${name}`), t(`sampling.${name}.long`)]);
  equal(texts.every((text) => text.length > 0), true);
});

test("templates are found by name, then by text", () => {
  const all = [{ name: "One", text: "two" }, { name: "Two", text: "x" }, { name: "Three", text: "y" }];
  equal(matching(all, "TWO").map(({ name }) => name), ["Two", "One"]);
});

test("older messages are left out from the last mark on, unless they are instructions", () => {
  const path = [{ role: "system" }, { role: "user" }, { role: "user" }, { role: "user" }];
  equal(newestStart(path), null);
  path[1].starts_prompt = true;
  equal(newestStart(path), null);
  path[2].starts_prompt = true;
  equal(newestStart(path) === path[2], true);
});

test("messages are away as the last answer of the path tells", () => {
  const answer = (away) => ({ role: "assistant", finish: { hob: { cells: { away } } } });
  const said = [
    { role: "system" },
    { role: "user" },
    answer([{ key: "message 1", messages_behind: 0, tokens: 9 }]),
    { role: "user", hob: { documents: [{ id: "a" }] } },
    answer([
      { key: "rules", messages_behind: null, tokens: 5 },
      { key: "message 2", messages_behind: 2, tokens: 64 },
      { key: "a.md", messages_behind: 0, tokens: 128 },
      { key: "message 4", messages_behind: 0, tokens: 30 },
      { key: null, messages_behind: null, tokens: 7 },
      { key: "message 0", messages_behind: 9, tokens: 1 },
    ]),
    { role: "user" },
  ];
  const path = said.map((message, id) => ({ id, ...message }));
  equal([...awayOf(path)], [[1, 64], [3, 158], [4, 7]]);
  equal([...awayOf(path.slice(0, 4))], [[1, 9]]);
  equal([...awayOf(path.slice(0, 2))], []);
  equal([...awayOf([{ id: 1, finish: { hob: { cells: { budget: 1 } } } }])], []);
});

test("siblings have the same parent, and the message is among them", () => {
  const variants = variantsById(messages, pathTo(messages, 3));
  equal([...variants].map(([id, { siblings }]) => [id, idsOf(siblings)]), [[1, [1, 5]], [2, []], [3, [3, 4]]]);
});

test("variants that have not changed are the same when messages are read again", () => {
  const path = pathTo(messages, 3);
  const before = variantsById(messages, path);
  const after = variantsById([...messages, { id: 6, parent: null }], path, before);
  equal([3, 1].map((id) => after.get(id).siblings === before.get(id).siblings), [true, false]);
  equal(idsOf(after.get(1).siblings), [1, 5, 6]);
});

test("a branch tells the tokens that its answer reused", () => {
  const finish = { hob: { tokens: { shared: 7 } } };
  const answered = [...messages.slice(0, 4), { ...messages[4], role: "user" }, { id: 6, parent: 5, finish }];
  const { reused } = variantsById(answered, pathTo(answered, 6)).get(5);
  equal(reused, reusedTokens({ finish }));
  equal(reused > 0, true);
});

test("the variants of a long chat cost a look at each message, not at all messages for each", () => {
  const LENGTH = 1000;
  let looks = 0;
  const long = Array.from({ length: LENGTH }, (_, index) => ({
    id: index + 1,
    get parent() {
      looks += 1;
      return index || null;
    },
  }));
  equal(variantsById(long, long).size, LENGTH);
  equal(looks <= 4 * LENGTH, true);
});

test("the visible path ends where the answer that streams in begins", () => {
  const state = { messages, head: 3, pending: [], live: null };
  equal(idsOf(visiblePath(state)), [1, 2, 3]);
  equal(idsOf(visiblePath({ ...state, live: { after: 1 } })), [1]);
  equal(visiblePath({ ...state, live: { after: undefined } }), []);
  equal(idsOf(visiblePath({ ...state, pending: [{ after: 2 }] })), [1, 2]);
});

test("what was sent and the answer keep their keys once they are stored, where they are", () => {
  const live = { began: 5, after: 1 };
  const pending = [{ role: "user", after: 1 }];
  const keys = [...comingOf(pending, live).values()].map(({ key }) => key);
  equal(new Set(keys).size, 2);
  const stored = [
    { id: 1, parent: null, role: "system" },
    { id: 2, parent: 1, role: "user" },
    { id: 3, parent: 2, role: "assistant" },
  ];
  const state = { messages: stored, head: 3, keys: { 0: "before" }, pending, live };
  equal(keysOfStored(state), { 0: "before", 2: keys[0], 3: keys[1] });
  // Another answer to the same question, one that was not stored, and nothing that was.
  equal(keysOfStored({ ...state, pending: [], live: { ...live, after: 2 } }), { 0: "before", 3: keys[1] });
  equal(keysOfStored({ ...state, head: 2 }), { 0: "before", 2: keys[0] });
  equal(keysOfStored({ ...state, head: 1 }), { 0: "before" });
  // The first question of a chat, which is stored behind its instructions.
  equal(keysOfStored({ ...state, live: { ...live, after: undefined } }), { 0: "before", 2: keys[0], 3: keys[1] });
});

test("the text of a message is a string or its parts", () => {
  equal(textOf({ content: "plain" }), "plain");
  equal(textOf({ content: [{ text: "a" }, { type: "image" }, { text: "b" }] }), "ab");
  equal(textOf({ content: null }), "");
});

test("reused tokens come from a slot, memory and disk, were away, or stood elsewhere", () => {
  const tokens = { shared: 1, memory: 2, disk: 4, computed: 8 };
  equal(reusedTokens({ finish: { hob: { tokens } } }), 7);
  equal(reusedTokens({ finish: { hob: { tokens: { ...tokens, away: 16, moved: 32 } } } }), 55);
  equal(reusedTokens({}), null);
  equal(reusedTokens(undefined), null);
});

/** A response with the status 501, read without a task of its own. */
function refusal() {
  const chunks = [new TextEncoder().encode('{"error": {"message": "no"}}')];
  const read = async () => ({ value: chunks[0], done: !chunks.shift() });
  return { status: 501, headers: new Headers(), body: { getReader: () => ({ read, cancel: async () => {} }) } };
}

test("a daemon whose engine is at another address is asked once to compute ahead", async () => {
  const real = globalThis.fetch;
  const asked = [];
  let now = 0;
  globalThis.fetch = async (path) => {
    asked.push(path);
    return refusal();
  };
  performance.now = () => (now += 1000);
  chats.set({ all: [{ id: "chat-1", place: "none" }] });
  const typeAhead = createTypeAhead("chat-1", () => ({}));
  try {
    for (const draft of ["one ", "one two "]) {
      prewarm("chat-1", {});
      typeAhead.write(draft);
      await new Promise((done) => setTimeout(done));
    }
    await new Promise((done) => setTimeout(done));
  } finally {
    globalThis.fetch = real;
    delete performance.now;
    chats.set({ all: [] });
  }
  equal(asked.sort(), ["/v1/conversations/chat-1/typing", "/v1/prewarm"]);
});

test("a pasted text stays one in the chat that goes on with its message", () => {
  const real = globalThis.fetch;
  globalThis.fetch = async () => refusal();
  const make = () => {
    const [no, none] = [() => false, () => null];
    return createAttachments({ isPrivate: no, isNew: no, profile: none, draftName: none });
  };
  const [full, begun] = [make(), make()];
  try {
    full.addStored("a-paste", "Pasted text", true);
    full.addStored("a-file", "castle.md");
    begun.restore(full.send().documents);
  } finally {
    globalThis.fetch = real;
  }
  equal(begun.store.get().items.map(({ isPasted }) => isPasted), [true, false]);
});

const addDelta = (answer, delta) => addChunk(answer, { choices: [{ delta }] });

test("an answer has not begun while its prompt is reported", () => {
  const answer = emptyAnswer();
  equal(addChunk(answer, { choices: [], hob: { progress: { phase: "reading" } } }), true);
  equal([answer.hasBegun, answer.progress], [false, { phase: "reading" }]);
  equal(addChunk(answer, { choices: [{ delta: { role: "assistant", content: "" } }] }), true);
  equal(answer.hasBegun, true);
  equal(addChunk(answer, { choices: [], usage: {} }), false);
});

test("what was computed while the user typed is not remembered", () => {
  const tokens = { shared: 100, memory: 20, disk: 30, computed: 5 };
  const ahead = { memory: 1, disk: 2, computed: 7 };
  equal(rememberedOf({ tokens, ahead }), { remembered: 143, total: 155 });
  equal(rememberedOf({ tokens }), { remembered: 150, total: 155 });
  const away = { ...tokens, away: 64 };
  equal(rememberedOf({ tokens: away }), { remembered: 214, total: 219 });
});

test("a chat that goes on past the context is never nearly full", () => {
  const use = { tokens: 800, max_tokens: 1000, goes_on: false };
  equal([use, { ...use, tokens: 799 }, { ...use, goes_on: true }].map(isNearlyFull), [true, false, false]);
});

test("only what came back is brought back", () => {
  const moved = [
    { key: "a", tokens: 64, way: "out", why: "budget" },
    { key: "b", tokens: 128, way: "back", why: "words" },
    { key: null, tokens: 20, way: "back", why: "group" },
  ];
  equal(broughtBack({ moved }), { parts: 2, tokens: 148 });
  equal(broughtBack({}), { parts: 0, tokens: 0 });
});

test("the cells of a prompt have the kinds of their tokens, in order", () => {
  const progress = {
    tokens_total: 640,
    tokens_ready: 320,
    tokens_shared: 64,
    tokens_from_memory: 64,
    tokens_from_disk: 128,
    tokens_computed: 64,
  };
  const kinds = ["shared", "memory", "disk", "disk", "computed", ...Array(5).fill("coming")];
  equal(cellsOf(progress, 60), kinds);
  equal(cellsOf(progress, 5), ["memory", "disk", "coming", "coming", "coming"]);
  equal(cellsOf({ ...progress, tokens_total: 0, tokens_ready: 0 }, 60), []);
  const moved = { ...progress, tokens_moved: 128, tokens_ready: 448 };
  equal(cellsOf(moved, 60), [...kinds.slice(0, 4), "moved", "moved", "computed", ...Array(3).fill("coming")]);
});

test("deltas add up to text and reasoning", () => {
  const answer = emptyAnswer();
  addDelta(answer, { reasoning_content: "hm" });
  addDelta(answer, { content: "a" });
  equal(addDelta(answer, { content: "b" }), true);
  equal(answer, { ...emptyAnswer(), text: "ab", reasoning: "hm", hasBegun: true });
});

test("an event without a delta adds nothing", () => {
  const answer = emptyAnswer();
  equal(addDelta(answer, undefined), false);
  equal(answer, emptyAnswer());
});

test("pieces of a tool call are joined by their index", () => {
  const answer = emptyAnswer();
  addDelta(answer, { tool_calls: [{ index: 0, function: { name: "look", arguments: '{"a"' } }] });
  addDelta(answer, { tool_calls: [{ index: 1, function: { name: "go" } }] });
  addDelta(answer, { tool_calls: [{ index: 0, function: { arguments: ":1}" } }] });
  equal(answer.calls.map((call) => call.function), [
    { name: "look", arguments: '{"a":1}' },
    { name: "go", arguments: "" },
  ]);
});

test("a tool call without an index is a new one", () => {
  const answer = emptyAnswer();
  addDelta(answer, { tool_calls: [{ function: { name: "one" } }, { function: { name: "two" } }] });
  equal(answer.calls.map((call) => call.function.name), ["one", "two"]);
});

test("a difference ends where both texts go on alike", () => {
  equal(difference("old and the same rest", "new and the same rest"), [3, 3]);
  equal(difference("the same rest", "more: the same rest"), [0, 6]);
  equal(difference("less: the same rest", "the same rest"), [6, 0]);
});

test("few equal characters do not end a difference", () => {
  equal(difference("abc12", "xyz12"), [5, 5]);
});

test("texts with nothing in common differ whole", () => {
  equal(difference("one", "other"), [3, 5]);
  equal(difference("", "other"), [0, 5]);
});

const chat = (id, title, place = "disk") => ({ id, title, place });

test("without a search every chat is visible", () => {
  const all = [chat("a", "Peru"), chat("b", null)];
  equal(visibleChats({ all, query: "  ", found: null }), all);
});

test("a search finds titles in either case, then texts, and each chat once", () => {
  const all = [chat("a", "Lima in Peru"), chat("b", "Garden"), chat("c", null)];
  const found = [chat("b", "Garden"), chat("a", "Lima in Peru")];
  equal(idsOf(visibleChats({ all, query: "PERU ", found })), ["a", "b"]);
});

test("a chat that is found by its text has its current place", () => {
  const all = [chat("b", "Garden", "slot")];
  const found = [chat("b", "Garden", "disk")];
  equal(visibleChats({ all, query: "rose", found })[0].place, "slot");
});

test("a chat that is deleted or renamed leaves or changes what a search has found", () => {
  const all = [chat("a", "Potatoes")];
  const found = [{ ...chat("a", "Garden"), snippet: { text: "rose" } }, chat("b", "Roses")];
  const shown = visibleChats({ all, query: "rose", found });
  equal(shown.map(({ id, title, snippet }) => [id, title, snippet?.text]), [["a", "Potatoes", "rose"]]);
});

test("ids of chats are random and of one form", () => {
  const [one, other] = [newId(), newId()];
  equal(/^chat-[0-9a-f]{16}$/.test(one), true);
  equal(one === other, false);
});
