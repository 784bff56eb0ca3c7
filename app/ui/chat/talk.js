// One conversation as it goes: its messages, the answer under way, and what can be asked of it.
//
// - Each conversation has one talk while the page lives, so that an answer goes on while another chat
//   is shown.
// - What streams in is shown with the next frame; the stored messages are read when the answer ends.

import { api, createKeptStore, createStore, isCancelled, preferences, shell, t } from "/lib.js";
import { chatOf, look, newId, path, put } from "./chats.js";
import { pathTo } from "./tree.js";

const LONG_ANSWER_MS = 8000;
/** Which profile a chat begins with: kept here, because each request names its own. */
const profiles = createKeptStore("hob.profiles", {});
const talks = new Map();

/** The talk of a conversation; the same one each time. */
export function talkOf(id) {
  if (!talks.has(id)) talks.set(id, createTalk(id, "unread"));
  return talks.get(id);
}

/** The talk of a conversation that begins with its first words. */
export function newTalk() {
  const id = newId();
  talks.set(id, createTalk(id, "unspoken"));
  return talks.get(id);
}

function createTalk(id, state) {
  // `draft`: what is being written. `pending`: messages that were sent and are not read back yet.
  // `live`: the answer under way.
  const store = createStore({ draft: "", messages: [], head: null, pending: [], live: null, error: null, state, profile: profiles.get()[id] ?? preferences.get().profile });
  let stopping = null;

  async function load() {
    const { messages, head, ...chat } = await api.get(path(id, "?branches=true"));
    store.set({ messages, head, state: "ready" });
    if (!chat.trashed_at) put(chat);
  }

  /** A chat that nobody has spoken in yet is known to nobody. */
  async function open() {
    if (store.get().state !== "unspoken") await load().catch((error) => store.set({ state: "ready", error }));
  }

  /** Asks for an answer: to `messages` behind `after`, or, without messages, to `after` itself. */
  async function ask(messages, { after, cold } = {}) {
    const { profile, live, messages: { length: before } } = store.get();
    if (live) return giveBack(messages, before);
    const began = performance.now();
    stopping = new AbortController();
    const seen = { text: "", reasoning: "", calls: [] };
    store.set({ pending: messages.map((message) => ({ ...message, after })), live: { ...seen, began, after }, error: null });
    const show = onNextFrame(() => store.get().live && store.set({ live: { ...seen, began, after } }));
    const hob = { append: true, ...(after !== undefined && { after }), ...(profile && { profile }), ...(cold && { cold }) };
    const body = { conversation: id, messages, hob, stream: true, temperature: preferences.get().temperature };
    let failure;
    try {
      const { signal } = stopping;
      for await (const event of api.stream("POST", "/v1/chat/completions", { body, signal })) {
        if (take(seen, event.choices?.[0]?.delta)) show();
      }
    } catch (error) {
      if (!isCancelled(error)) failure = error;
    }
    show.cancel();
    await settle(failure);
    const isOver = !failure && !stopping.signal.aborted;
    if (!isOver) giveBack(messages, before);
    store.set({ live: null, pending: [], error: failure ?? null });
    look();
    if (isOver && performance.now() - began > LONG_ANSWER_MS && !document.hasFocus()) notify(id);
  }

  /** Words that did not arrive, behind so many messages, are still there to be sent. */
  function giveBack([message], before) {
    const { draft, messages } = store.get();
    const isLost = message && !messages.slice(before).some(({ content }) => content === message.content);
    if (isLost) store.set({ draft: draft || message.content });
  }

  /** Reads back what was said, once the daemon has stored how it ended. */
  async function settle(failure) {
    for (let tries = 0; tries < 20; tries += 1) {
      try {
        await load();
      } catch (error) {
        if (failure || tries > 2) return;
      }
      const { messages } = store.get();
      if (!messages.some(({ status }) => status === "streaming")) return;
      await new Promise((resolve) => setTimeout(resolve, 60));
    }
  }

  return {
    id,
    store,
    open,
    send: (text) => ask([{ role: "user", content: text }], { after: store.get().head ?? undefined }),
    /** Another text in the place of a message of the user's: a branch. */
    edit: (message, text) => ask([{ role: "user", content: text }], { after: message.parent ?? 0 }),
    /** Another answer in the place of one: a branch. */
    again: (message, cold) => ask([], { after: message.parent, cold }),
    stop: () => stopping?.abort(),
    setProfile(profile) {
      profiles.set({ [id]: profile });
      store.set({ profile });
    },
    /** Shows the branch that goes through a message, up to its newest one. */
    choose: (message) => api.patch(path(id), { head: message.id }).then(({ head }) => store.set({ head }), (error) => store.set({ error })),
    write: (draft) => store.set({ draft }),
    dismiss: () => store.set({ error: null }),
  };
}

/** What is shown, in order: stored messages of the branch, sent ones, and the answer under way. */
export function shownMessages({ messages, head, pending, live }) {
  return pathTo(messages, live?.after ?? pending[0]?.after ?? head);
}

/** Adds a piece to what was heard; whether there was anything. */
function take(seen, delta) {
  if (!delta) return false;
  seen.text += delta.content ?? "";
  seen.reasoning += delta.reasoning_content ?? "";
  for (const call of delta.tool_calls ?? []) {
    const known = (seen.calls[call.index ?? seen.calls.length] ??= { function: { name: "", arguments: "" } });
    known.function.name += call.function?.name ?? "";
    known.function.arguments += call.function?.arguments ?? "";
  }
  return true;
}

/** A function that runs `act` once before the next frame is painted, however often it is called. */
function onNextFrame(act) {
  let frame = null;
  const call = () => {
    frame ??= requestAnimationFrame(() => {
      frame = null;
      act();
    });
  };
  call.cancel = () => cancelAnimationFrame(frame);
  return call;
}

/** Tells somebody who looks elsewhere; a browser would have to ask first, so only the app does. */
function notify(id) {
  shell?.invoke("notify", { title: t("notify.answered"), body: chatOf(id)?.title ?? t("chat.untitled") }).catch(() => {});
}
