import { chats, loadChats, removeChats, status } from "/chat/chats.js";
import { conversationOf, newConversation } from "/chat/conversation.js";
import { preferences } from "/lib.js";
import { equal, test } from "./harness.js";

/** Runs `body` while `answer(path)` answers requests: a body as JSON, or nothing where the daemon is away. */
async function before(answer, body) {
  const real = globalThis.fetch;
  globalThis.fetch = async (path) => {
    const found = answer(path);
    if (!found) throw new TypeError("it is away");
    return Response.json(found);
  };
  preferences.set({ typeAhead: false });
  try {
    await body();
  } finally {
    globalThis.fetch = real;
    preferences.set({ typeAhead: true, profile: "" });
    status.set({ now: null, error: null, restarts: 0 });
    chats.set({ all: [], loaded: false });
  }
}

test("a message that fails returns in front of the words typed meanwhile, and leaves if it was stored", async () => {
  const chat = newConversation();
  const draft = () => chat.store.get().draft;
  const messages = [{ id: 1, parent: null, role: "user", content: "first" }];
  const stored = { id: chat.id, messages, head: 1, updated_at: 1, message_count: 1 };
  let isAway = true;
  const answer = (path) => !isAway && path.startsWith("/v1/conversations/") && stored;
  await before(answer, async () => {
    const sending = chat.send("first");
    chat.write("second");
    await sending;
    equal(draft(), "first\n\nsecond");
    isAway = false;
    await chat.load();
    equal(draft(), "second");
  });
});

test("a chat has the instructions of new chats until it begins, and keeps those that it began with", async () => {
  const [open, chosen, begun] = [newConversation(), newConversation(), newConversation()];
  const profiles = () => [open, chosen, begun].map(({ store }) => store.get().profile);
  await before(() => null, async () => {
    chosen.setProfile("own");
    preferences.set({ profile: "home" });
    equal(profiles(), ["home", "own", "home"]);
    await begun.send("first");
    preferences.set({ profile: "work" });
    equal(profiles(), ["work", "own", "home"]);
  });
  // For the page that is opened next.
  const stored = JSON.parse(localStorage.getItem("hob.profiles"));
  equal([open, chosen, begun].map(({ id }) => stored[id]), [undefined, "own", "home"]);
});

test("a page that is opened again has the instructions and the sampling of a chat without messages", async () => {
  const chosen = () => {
    const { instructions, sampling, isSamplingStored } = newConversation().store.get();
    return [instructions, sampling, isSamplingStored];
  };
  const chat = newConversation();
  await before(() => null, async () => {
    await chat.setInstructions("Be brief.");
    await chat.setSampling({ top_k: 20 });
    equal(chosen(), ["Be brief.", { top_k: 20 }, false]);
    const ofPrivate = newConversation({ isPrivate: true });
    equal(ofPrivate.store.get().instructions, null);
    await ofPrivate.setInstructions("A secret.");
    equal(chosen(), ["Be brief.", { top_k: 20 }, false]);
    await chat.send("first");
    equal(chosen(), [null, {}, true]);
  });
});

test("a page that is opened again has the profile and the KV choice of a chat without messages", async () => {
  const chosen = ({ store }) => {
    const { profile, beyond, reuse } = store.get();
    return [profile, beyond, reuse];
  };
  const kv = { beyond: "reanchor", reuse: null };
  const chat = newConversation();
  await before(() => null, async () => {
    chat.setProfile("own");
    chat.setKv(kv);
    equal(chosen(newConversation({ isPrivate: true })), ["", null, null]);
    const again = newConversation();
    preferences.set({ profile: "home" });
    equal(chosen(again), ["own", "reanchor", null]);
    await again.send("first");
    const stored = (name) => JSON.parse(localStorage.getItem(name))[again.id];
    equal([stored("hob.profiles"), stored("hob.kv")], ["own", kv]);
    equal(chosen(newConversation()), ["home", null, null]);
  });
});

test("sampling that could not be stored does not count", async () => {
  const chat = conversationOf("sampled");
  const stored = { id: chat.id, messages: [], head: null, sampling: { top_k: 20 } };
  let isAway = false;
  await before(() => !isAway && stored, async () => {
    await chat.load();
    isAway = true;
    const failure = await chat.setSampling({ top_k: 40 }).catch((error) => error);
    equal([failure instanceof Error, chat.store.get().sampling], [true, { top_k: 20 }]);
  });
});

test("messages that are read again are the same objects where nothing has changed", async () => {
  const chat = conversationOf("read-again");
  const finish = () => ({ hob: { tokens: { computed: 1 }, moved: [{ way: "back" }] } });
  const read = (texts, answer = finish()) => {
    const messages = texts.map((content, index) => ({ id: index + 1, parent: index || null, content }));
    Object.assign(messages[1], { finish: answer });
    return { id: chat.id, messages, head: texts.length, updated_at: 1, message_count: texts.length };
  };
  const loaded = async (...answer) => {
    const was = chat.store.get().messages;
    await before((path) => path.includes(chat.id) && read(...answer), () => chat.load());
    return chat.store.get().messages.map((message, index) => message === was[index]);
  };
  equal(await loaded(["a", "b"]), [false, false]);
  equal(await loaded(["a", "b", "c"]), [true, true, false]);
  equal(await loaded(["a", "b", "other"]), [true, true, false]);
  equal(await loaded(["a", "b", "other"], { hob: { ...finish().hob, moved: [] } }), [true, false, true]);
  equal(chat.store.get().messages[2].content, "other");
});

test("a list or messages that were asked for earlier replace no later ones", async () => {
  const requests = [];
  const real = globalThis.fetch;
  globalThis.fetch = () => new Promise((resolve) => requests.push((found) => resolve(Response.json(found))));
  const chat = conversationOf("raced");
  const reading = (count) => {
    const messages = Array.from({ length: count }, (_, index) => ({ id: index + 1, parent: index || null }));
    return { id: chat.id, messages, head: count, updated_at: 1, message_count: count };
  };
  try {
    const [first, second] = [chat.load(), chat.load()];
    requests[1](reading(2));
    await second;
    requests[0](reading(1));
    await first;
    equal(chat.store.get().messages.length, 2);

    const [third, fourth] = [loadChats(), loadChats()];
    requests[3]({ data: [reading(2)] });
    await fourth;
    requests[2]({ data: [] });
    await third;
    equal(chats.get().all.map(({ id }) => id), ["raced"]);
  } finally {
    globalThis.fetch = real;
    chats.set({ all: [], loaded: false });
  }
});

test("a chat that was deleted is in no list that was asked for before", async () => {
  let act = () => removeChats([{ id: "deleted" }]);
  const listed = async () => {
    await loadChats();
    return chats.get().all.map(({ id }) => id);
  };
  const answer = () => {
    act();
    return { data: [{ id: "deleted", updated_at: 1 }, { id: "other", updated_at: 2 }] };
  };
  await before(answer, async () => {
    equal(await listed(), ["other"]);
    act = () => {}; // It was restored.
    equal(await listed(), ["other", "deleted"]);
  });
});
