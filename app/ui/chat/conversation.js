// The state of one conversation: its messages, the answer that streams in, and the requests.
//
// - There is one per id while the page is open, so an answer continues while another chat is shown.
// - Streamed text is rendered at most once a frame. The stored messages are read when it ends.

import { api, createPersistentStore, createStore, isCancelled, preferences, shell, t } from "/lib.js";
import { addChunk, emptyAnswer } from "./answer.js";
import { chatOf, conversationPath, isPrivate, newId, refreshStatus, upsertChat } from "./chats.js";
import { createSpeaker } from "./speaker.js";
import { pathTo } from "./tree.js";
import { createTypeAhead } from "./type-ahead.js";

/** The desktop app announces an answer that took longer. */
const NOTIFY_AFTER_MS = 8000;
const SETTLE_TRIES = 20;
const SETTLE_EVERY_MS = 60;

/** Stored in the browser: each request names its profile. */
const profiles = createPersistentStore("hob.profiles", {});
const conversations = new Map();

export function conversationOf(id) {
  if (!conversations.has(id)) conversations.set(id, createConversation(id, "unread"));
  return conversations.get(id);
}

/** The daemon does not know it until its first message. */
export function newConversation({ isPrivate = false } = {}) {
  const id = newId(isPrivate);
  conversations.set(id, createConversation(id, "new"));
  return conversations.get(id);
}

function createConversation(id, state) {
  const store = createStore({
    state, // "new", "unread" or "ready"
    draft: "", // the text in the composer
    spoken: null, // while the user speaks: the transcript so far
    messages: [], // stored ones, of all branches
    head: null, // the last message of the branch that is shown
    pending: [], // messages that were sent and are not read back yet
    live: null, // the answer that streams in
    error: null,
    outgrown: null, // the request that did not fit into the context
    profile: profiles.get()[id] ?? preferences.get().profile,
  });
  let request = null;
  let exchange = null; // the last one, as a promise
  let speaker = null; // of an answer that is spoken
  const typeAhead = createTypeAhead(id, () => ({ hob: hobFields(store.get().head ?? undefined) }));

  async function load() {
    const path = conversationPath(id, "?branches=true");
    const { messages, head, ...chat } = await api.get(path);
    store.set({ messages, head, state: "ready" });
    if (!chat.trashed_at) upsertChat(chat);
  }

  async function open() {
    if (store.get().state === "new") return;
    try {
      await load();
    } catch (error) {
      store.set({ state: "ready", error });
    }
  }

  /** Requests an answer: to `messages` after the message `after`, or without any, to `after`. */
  function ask(messages, options = {}) {
    const { live, messages: stored } = store.get();
    if (live) return restoreDraft(messages, stored.length);
    exchange = receiveAnswer(messages, stored, options);
    return exchange;
  }

  async function receiveAnswer(messages, stored, { after, cold, newest, aloud }) {
    silence();
    speaker = aloud ? createSpeaker() : null;
    const began = performance.now();
    const answer = emptyAnswer();
    request = new AbortController();
    store.set({
      pending: messages.map((message) => ({ ...message, after })),
      live: { ...answer, began, after },
      error: null,
      outgrown: null,
    });
    const draw = () => {
      if (store.get().live) store.set({ live: { ...answer, began, after } });
    };
    const show = onNextFrame(draw);
    request.signal.addEventListener("abort", () => {
      answer.isStopping = true;
      draw(); // At once: the daemon may need a micro-batch to stop.
    });
    const body = requestBody(messages, { after, cold, newest });
    await typeAhead.stop();
    const failure = await receive(body, answer, show);
    show.cancel();
    await settle(failure);
    const isComplete = !failure && !request.signal.aborted;
    if (isComplete) speaker?.end();
    else silence();
    if (!isComplete) restoreDraft(messages, stored.length);
    const isOutgrown = failure?.code === "context_length_exceeded" && !newest;
    const outgrown = isOutgrown ? { messages, after } : null;
    store.set({ live: null, pending: [], error: failure, outgrown });
    typeAhead.write(store.get().draft); // The user may have typed meanwhile.
    refreshStatus();
    const isLong = performance.now() - began > NOTIFY_AFTER_MS;
    if (isComplete && isLong && !document.hasFocus()) notify(id);
  }

  const silence = () => speaker?.stop();

  function stop() {
    request?.abort();
    silence();
  }

  /** The user begins to speak: the answer under way stops, and the daemon restores the chat's KV. */
  async function listen() {
    stop();
    await exchange;
    await typeAhead.stop();
    const body = { hob: hobFields(store.get().head ?? undefined) };
    // On failure the daemon computes the KV with the message.
    await api.post(conversationPath(id, "/speech-start"), body).catch(() => {});
  }

  /** Repeats the request that did not fit, with the newest part and what the composer has by now. */
  function goOn() {
    const { outgrown, draft } = store.get();
    const { messages: [message], after } = outgrown;
    if (!message) return ask([], { after, newest: true });
    store.set({ draft: "" });
    return ask(userMessage(draft.trim() || message.content), { after, newest: true });
  }

  function requestBody(messages, { after, cold, newest }) {
    const asked = { ...(cold && { cold }), ...(newest && { newest }) };
    const hob = { ...hobFields(after), ...asked, progress: true };
    const { temperature } = preferences.get();
    return { conversation: id, messages, hob, stream: true, temperature };
  }

  function hobFields(after) {
    const { profile } = store.get();
    return {
      append: true,
      ...(after !== undefined && { after }),
      ...(profile && { profile }),
      ...(isPrivate(id) && { private: true }),
    };
  }

  /** Resolves to the error, or null. */
  async function receive(body, answer, show) {
    const options = { body, signal: request.signal };
    try {
      for await (const event of api.stream("POST", "/v1/chat/completions", options)) {
        if (!addChunk(answer, event)) continue;
        show();
        speaker?.say(answer.text);
      }
      return null;
    } catch (error) {
      return isCancelled(error) ? null : error;
    }
  }

  /** Returns a message to the composer unless it was stored after the first `count`. */
  function restoreDraft([message], count) {
    const { draft, messages } = store.get();
    if (!message) return;
    const isStored = messages.slice(count).some(({ content }) => content === message.content);
    if (!isStored) store.set({ draft: draft || message.content });
  }

  /** Reads the messages back once the daemon has stored how the answer ended. */
  async function settle(failure) {
    for (let tries = 0; tries < SETTLE_TRIES; tries += 1) {
      try {
        await load();
      } catch {
        if (failure || tries > 2) return;
      }
      const { messages } = store.get();
      if (!messages.some((message) => message.status === "streaming")) return;
      await new Promise((resolve) => setTimeout(resolve, SETTLE_EVERY_MS));
    }
  }

  /** Shows the branch through a message, down to its newest descendant. */
  async function choose(message) {
    try {
      const { head } = await api.patch(conversationPath(id), { head: message.id });
      store.set({ head });
    } catch (error) {
      store.set({ error });
    }
  }

  const userMessage = (text) => [{ role: "user", content: text }];

  return {
    id,
    store,
    open,
    choose,
    send: (text, { aloud } = {}) =>
      ask(userMessage(text), { after: store.get().head ?? undefined, aloud }),
    // These two start a new branch beside `message`.
    edit: (message, text) => ask(userMessage(text), { after: message.parent ?? 0 }),
    again: (message, cold) => ask([], { after: message.parent, cold }),
    // Leave out the oldest messages.
    goOn,
    againNewest: (message) => ask([], { after: message.parent, newest: true }),
    stop,
    silence,
    listen,
    hear: (spoken) => store.set({ spoken }),
    setProfile(profile) {
      if (!isPrivate(id)) profiles.set({ [id]: profile });
      store.set({ profile });
    },
    write(draft) {
      store.set({ draft });
      if (!store.get().live) typeAhead.write(draft);
    },
    leave() {
      silence();
      return typeAhead.leave();
    },
    dismissError: () => store.set({ error: null, outgrown: null }),
  };
}

/** The stored messages of the branch that is shown, oldest first. */
export function visiblePath({ messages, head, pending, live }) {
  return pathTo(messages, live?.after ?? pending[0]?.after ?? head);
}

/** Runs `act` at most once a frame, however often it is called. */
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

/**
 * Only in the app: a browser would have to ask for permission first. The system may store what it
 * shows, so a private chat is not named.
 */
function notify(id) {
  const body = isPrivate(id) ? t("chat.private") : (chatOf(id)?.title ?? t("chat.untitled"));
  shell?.invoke("notify", { title: t("notify.answered"), body }).catch(() => {});
}
