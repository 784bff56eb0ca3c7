// The state of one conversation: its messages, its settings, and what can be done with it. `exchange.js` has the
// answer that streams in.
//
// - There is one per id while the page is open, so an answer continues while another chat is shown.

import { api, createPersistentStore, createStore, isUnreachable, preferences } from "/lib.js";
import { readDocument } from "../documents/api.js";
import { createAttachments } from "./attachments.js";
import { chatOf, conversationPath, isPrivate, newId, status, upsertChat } from "./chats.js";
import { drafts, keepDraft } from "./drafts.js";
import { createEdits } from "./edits.js";
import { createExchange } from "./exchange.js";
import { hobFields } from "./request.js";
import { isPinned, pathTo, withKept } from "./tree.js";
import { createTypeAhead } from "./type-ahead.js";
import { createWaiting } from "./waiting.js";

/** The browser forgets what older ones have chosen. */
const MAX_CHATS = 2000;

/** Stored in the browser: each request names its profile, and the KV that it may use. */
const profiles = createPersistentStore("hob.profiles", {}, MAX_CHATS);
const kvChoices = createPersistentStore("hob.kv", {}, MAX_CHATS);
const conversations = new Map();

export function conversationOf(id) {
  if (!conversations.has(id)) conversations.set(id, createConversation(id, "unread"));
  return conversations.get(id);
}

/** The chat was deleted for good: its address shows nothing of it. */
export const forget = (id) => conversations.delete(id);

/** The daemon does not know it until its first message. */
export function newConversation({ isPrivate = false } = {}) {
  const id = newId(isPrivate);
  conversations.set(id, createConversation(id, "new"));
  return conversations.get(id);
}

function createConversation(id, state) {
  // A reload gives a chat that has not another id.
  let hasBegun = state !== "new";
  /** The words of a private chat stay in memory. */
  const draftName = () => (isPrivate(id) ? null : hasBegun ? id : "new");
  const choicesName = () => (draftName() === null ? null : `${draftName()}.choices`);
  const choices = JSON.parse(drafts.read(choicesName()) || "{}");
  const store = createStore({
    // "new", "unread" or "ready"
    state,
    // the text in the composer
    draft: drafts.read(draftName()),
    // that text is sent as soon as it can be, see `waiting.js`
    waits: false,
    // while the user speaks: the transcript so far
    spoken: null,
    // stored ones, of all branches
    messages: [],
    // of the messages that were stored when they were read
    count: 0,
    // the last message of the branch that is shown
    head: null,
    // messages that were sent and are not read back yet
    pending: [],
    // while an answer streams in, see `exchange.js`
    live: null,
    // of messages that were drawn before they were stored, see `coming.js`
    keys: {},
    error: null,
    // the request that did not fit into the context
    outgrown: null,
    // of tool calls, given by hand in a request that failed
    results: [],
    // the daemon has no chat of this id
    isUnknown: false,
    // the parameters of the chat's answers that are set
    sampling: choices.sampling ?? {},
    // A chat without messages has no place for them.
    isSamplingStored: !choices.sampling,
    // the chat's own; null: its system messages
    instructions: choices.instructions ?? null,
    // while the oldest messages are summarised, see `shorten.js`
    shortening: null,
    profile: choices.profile ?? profiles.get()[id] ?? preferences.get().profile,
    // "end" or "reanchor", and "exact" or "repaired"; null: as the instructions say.
    ...(choices.kv ?? kvChoices.get()[id] ?? { beyond: null, reuse: null }),
  });
  // A later choice for new chats is not for this one.
  let isProfileOwn = hasBegun || choices.profile !== undefined;
  const follow = ({ profile }) => isProfileOwn || store.set({ profile });
  if (!hasBegun) preferences.subscribe(follow);
  store.subscribe(({ live, profile, beyond, reuse }) => {
    if (hasBegun || !live) return;
    hasBegun = true;
    ownProfile(profile);
    if (beyond || reuse) ownKv({ beyond, reuse });
  });
  /** What is stored under the chat's id once it has begun: after a reload it has another id until then. */
  const ofBeginning = ({ profile, beyond, reuse }) => !hasBegun && {
    ...(isProfileOwn && { profile }),
    ...((beyond || reuse) && { kv: { beyond, reuse } }),
  };
  keepDraft(store, draftName, ({ draft }) => draft);
  keepDraft(store, choicesName, (state) => textOfChoices(state, ofBeginning(state)));
  const attachments = createAttachments({
    isPrivate: () => isPrivate(id),
    isNew: () => !store.get().messages.length && !store.get().live,
    profile: () => store.get().profile,
    draftName,
  });
  // A file that is still on its way has no name that a request could give.
  const nextRequest = () => (attachments.areRead() ? { hob: hobNow(), ...attachments.ahead() } : null);
  const typeAhead = createTypeAhead(id, nextRequest);
  const exchange = createExchange(id, { store, typeAhead, load, giveBack });
  const { stop, silence } = exchange;
  const inTheWay = () => (store.get().live ? "answer" : attachments.areComing() ? "files" : null);
  const wait = createWaiting({ store, attachments, inTheWay, send: sendDraft });
  // The message that failed and is back in the composer: how many were stored before it, the composer's words with
  // it and without it.
  let returned = null;

  const hobNow = () => hobFields(id, store.get(), store.get().head ?? undefined);

  function ownProfile(profile) {
    isProfileOwn = true;
    if (!isPrivate(id)) profiles.set({ [id]: profile });
  }

  function ownKv(kv) {
    if (!isPrivate(id)) kvChoices.set({ [id]: kv });
  }

  /** How often the messages were asked for, which answer is shown, and of which daemon it is. */
  let asked = 0;
  let shown = 0;
  let restarts = 0;

  async function load() {
    const mine = ++asked;
    const path = conversationPath(id, "?branches=true");
    const { messages, head, sampling, instructions, ...chat } = await api.get(path);
    // A later one came first.
    if (mine < shown) return;
    shown = mine;
    ({ restarts } = status.get());
    const { isSamplingStored } = store.get();
    const kept = isSamplingStored && { sampling: sampling ?? {} };
    const all = withKept(store.get().messages, messages);
    store.set({ messages: all, head, instructions, count: chat.message_count, state: "ready", ...kept });
    takeBackReturned(messages);
    if (!chat.trashed_at) upsertChat(chat);
    if (!isSamplingStored) await storeSampling(store.get().sampling);
  }

  async function open() {
    attachments.tryAgain();
    const { state, live } = store.get();
    // After a crash the list may know a chat whose first answer this page did not see stored.
    if ((state === "new" && !chatOf(id)) || live) return;
    try {
      await load();
      await exchange.join();
    } catch (error) {
      const isGone = error.code === "conversation_not_found";
      if (isGone && hasEnded()) store.set({ messages: [], count: 0, head: null, sampling: {}, instructions: null });
      if (isGone && !store.get().messages.length) beNew();
      else store.set({ state: "ready", error });
    }
  }

  /** Another window has ended the private chat: the daemon that had it runs. One that has started again has lost it. */
  const hasEnded = () =>
    store.get().messages.length > 0 && isPrivate(id) && restarts === status.get().restarts;

  /** The chat was deleted, or its first message failed: what is written here begins it. */
  function beNew() {
    store.set({ state: "new", isUnknown: true, error: null });
  }

  function ask(...request) {
    returned = null;
    return exchange.ask(...request);
  }

  /** The user begins to speak: the answer under way stops, and the daemon restores the chat's KV. */
  async function listen() {
    stop();
    await exchange.ended();
    await typeAhead.stop();
    const body = { hob: hobNow() };
    // On failure the daemon computes the KV with the message.
    await api.post(conversationPath(id, "/speech-start"), body).catch(() => {});
  }

  /** Repeats the request that did not fit, with the newest part and what the composer has by now. */
  function goOn() {
    const { outgrown, draft } = store.get();
    const { messages: [message], after } = outgrown;
    if (!message) return ask([], { after, newest: true });
    store.set({ draft: "" });
    const { documents } = attachments.send();
    const text = draft.trim() || message.content;
    return ask(userMessage(text, documents, isPinned(message)), { after, newest: true });
  }

  /** Returns a message to the composer, in front of its words, unless it was stored after the first `count`; and
      results to their fields. */
  function giveBack(sent, count) {
    const { draft, messages } = store.get();
    const [message] = sent;
    if (message?.role === "tool") store.set({ results: sent });
    if (message?.role !== "user") return;
    const isStored = messages.slice(count).some(({ content }) => content === message.content);
    if (isStored) return;
    const { content } = message;
    const words = [content, draft].filter(Boolean).join("\n\n");
    store.set({ draft: words });
    attachments.restore(message.hob?.documents ?? []);
    returned = { content, count, words, draft };
  }

  /** A message may have been stored although its answer failed: then the composer needs it no more. */
  function takeBackReturned(messages) {
    if (!returned || !messages.slice(returned.count).some(({ content }) => content === returned.content)) return;
    if (store.get().draft === returned.words) {
      store.set({ draft: returned.draft });
      attachments.send();
    }
    returned = null;
  }

  /** Shows the branch with the message of that id; resolves to whether there is one. */
  async function show(messageId) {
    const { messages, head } = store.get();
    const message = messages.find(({ id }) => id === messageId);
    if (message && !pathTo(messages, head).includes(message)) await choose(message);
    return Boolean(message);
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

  /** `pin`: whether it is pinned. */
  const userMessage = (text, documents = [], pin = false) => {
    const hob = { ...(documents.length && { documents }), ...(pin && { pin }) };
    return [{ role: "user", content: text, ...(Object.keys(hob).length && { hob }) }];
  };

  function write(draft) {
    store.set({ draft });
    // A document that is still being read would be computed twice.
    if (!store.get().live) typeAhead.write(attachments.areRead() ? draft : "");
  }

  function canSend() {
    const { draft, spoken } = store.get();
    return spoken === null && attachments.areReady() && (draft.trim() || !attachments.isEmpty());
  }

  /** Of now: Enter may follow a key before its letter is drawn. */
  function sendDraft() {
    const { draft, live } = store.get();
    if (!canSend() || live) return;
    write("");
    send(draft.trim());
  }

  async function send(text, { speaker } = {}) {
    const { documents, unfinished } = attachments.send();
    await ask(userMessage(text, documents), { after: store.get().head ?? undefined, speaker });
    // What the answer has computed of it is there; its own KV is saved to its end.
    if (unfinished) readDocument(unfinished.id, { profile: store.get().profile, show() {} }).catch(() => {});
  }

  /** A private chat and one without messages are no less sampled. */
  async function setSampling(sampling) {
    if (store.get().state === "new" && !chatOf(id)) store.set({ sampling, isSamplingStored: false });
    else await storeSampling(sampling);
  }

  async function storeSampling(sampling) {
    await api.patch(conversationPath(id), { sampling });
    store.set({ sampling, isSamplingStored: true });
  }

  return {
    id,
    store,
    open,
    choose,
    attachments,
    edits: createEdits(id),
    show,
    send,
    canSend,
    sendDraft,
    inTheWay,
    wait,
    // These two start a new branch beside `message`.
    edit: (message, text) =>
      ask(userMessage(text, message.hob?.documents, isPinned(message)), { after: message.parent ?? 0 }),
    again: (message, cold) => ask([], { after: message.parent, cold }),
    /** Answers a message that has no answer. */
    answer: (message) => ask([], { after: message.id }),
    /** Goes on with an answer that was cut short. */
    goOnWith: (message) => ask([], { after: message.parent, begun: message }),
    /** `results`: messages of the role `tool`, for the calls of `message`. */
    giveResults(message, results) {
      store.set({ results: [] });
      return ask(results, { after: message.id });
    },
    // Leave out the oldest messages.
    goOn,
    againNewest: (message) => ask([], { after: message.parent, newest: true }),
    load,
    setSampling,
    stop,
    silence,
    listen,
    hear: (spoken) => store.set({ spoken }),
    setProfile(profile) {
      ownProfile(profile);
      store.set({ profile });
    },
    setKv({ beyond, reuse }) {
      ownKv({ beyond, reuse });
      store.set({ beyond, reuse });
    },
    /** Resolves to whether they are set. The first message of a new chat brings them to the daemon. */
    async setInstructions(instructions) {
      const { state, live } = store.get();
      if (state !== "new" || live) await api.patch(conversationPath(id), { instructions });
      store.set({ instructions });
      return true;
    },
    write,
    leave() {
      silence();
      return typeAhead.leave();
    },
    /** The daemon answers again: what is shown of its absence or of a refused token goes, and what it has stored
        comes. */
    recover() {
      const { error } = store.get();
      if (!isUnreachable(error) && error?.status !== 401) return;
      store.set({ error: null });
      open();
    },
    dismissError: () => store.set({ error: null, outgrown: null }),
  };
}

/** What the daemon does not have of a chat before its first message, and `others`, as a text; empty where that is
    nothing. */
function textOfChoices({ state, instructions, sampling, isSamplingStored }, others) {
  const choices = {
    ...others,
    ...(state !== "ready" && instructions !== null && { instructions }),
    ...(!isSamplingStored && { sampling }),
  };
  return Object.keys(choices).length ? JSON.stringify(choices) : "";
}

/** The chat `id`, which begins as another one does, gets what that one has chosen. */
export function takeChoices(id, { store }) {
  const { profile, beyond, reuse } = store.get();
  const chat = conversationOf(id);
  chat.setProfile(profile);
  if (beyond || reuse) chat.setKv({ beyond, reuse });
}

/** The stored messages of the branch that is shown, oldest first. */
export function visiblePath({ messages, head, pending, live }) {
  // The first answer of a chat comes after no message, also once it is read back.
  return pathTo(messages, live ? live.after : (pending[0]?.after ?? head));
}
