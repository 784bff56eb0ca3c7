// The answer that streams into a conversation: asking for it, following it, stopping it.
//
// - The daemon's answer goes on without the page: a page that is opened meanwhile joins it.
// - While it streams, the conversation's `live` has the time when it `began`, the message that it comes `after`,
//   whether it `isStopping`, and a store with the `answer` so far: a piece renders the answer alone, at most once a
//   frame. The stored messages are read when it ends.

import { api, createStore, isCancelled, pause, shell, t } from "/lib.js";
import { addChunk, emptyAnswer } from "./answer.js";
import { answers } from "./answering.js";
import { chatOf, conversationPath, isPrivate, refreshStatus } from "./chats.js";
import { keysOfStored } from "./coming.js";
import { requestBody } from "./request.js";

/** The desktop app announces an answer that took longer. */
const NOTIFY_AFTER_MS = 8000;
const SETTLE_TRIES = 20;
const SETTLE_EVERY_MS = 60;
const STOP_TRIES = 20;
const STOP_EVERY_MS = 100;

/** Of the conversation `id` with its store. `load()` reads its messages; `giveBack(messages, count)` returns what
    was not stored after the first `count` messages to the composer. */
export function createExchange(id, { store, typeAhead, load, giveBack }) {
  const answerPath = conversationPath(id, "/answer");
  // how to leave the answer that streams in
  let running = null;
  // the last answer, as a promise
  let exchange = null;
  // of an answer that is spoken
  let speaker = null;

  /** Requests an answer: to `messages` after the message `after`, or without any, to `after`. `begun`: the answer
      that goes on. */
  async function ask(messages, { after, cold, newest, speaker: aloud = null, begun } = {}) {
    const { live, messages: stored } = store.get();
    if (live) return giveBack(messages, stored.length);
    const asked = { after: begun?.id ?? after, cold, newest, continue: Boolean(begun) };
    const body = requestBody(id, store.get(), messages, asked);
    const pending = messages.map((message) => ({ ...message, after }));
    const began = performance.now();
    const leaving = new AbortController();
    silence();
    speaker = aloud;
    let isSent = false;
    const answer = { after, pending, leaving, begun, isStored: () => isSent };
    const { failure, wasStopped } = await follow(answer, async function* () {
      await typeAhead.stop();
      if (store.get().live.isStopping) return;
      isSent = true;
      const options = { body, signal: leaving.signal };
      yield* api.stream("POST", "/v1/chat/completions", options);
    });
    const isComplete = !failure && !wasStopped;
    if (isComplete) speaker?.end();
    else silence();
    if (!isComplete) giveBack(messages, stored.length);
    const isOutgrown = failure?.code === "context_length_exceeded" && !newest;
    store.set({ outgrown: isOutgrown ? { messages, after } : null });
    const isLong = performance.now() - began > NOTIFY_AFTER_MS;
    if (isComplete && isLong && !document.hasFocus()) notify(id);
  }

  /** Follows the answer that another page, or this one before it was reloaded, has asked for. */
  async function join() {
    const { live, messages } = store.get();
    const streaming = messages.find((message) => message.status === "streaming");
    if (live || !streaming) return;
    const leaving = new AbortController();
    const chunks = api.stream("GET", answerPath, { signal: leaving.signal });
    let first;
    try {
      first = await chunks.next();
    } catch (error) {
      if (error.code !== "no_answer") throw error;
      // Another client has asked, and the answer is its own.
      return;
    }
    if (store.get().live) return leaving.abort();
    await follow({ after: streaming.parent ?? undefined, leaving }, async function* () {
      if (!first.done) yield first.value;
      yield* chunks;
    });
  }

  /** Shows an answer while its chunks arrive, then its stored text. */
  function follow(...answer) {
    exchange = receiveAnswer(...answer);
    return exchange;
  }

  /** `isStored()`: whether the daemon may have stored anything of it. */
  async function receiveAnswer({ after, pending = [], leaving, begun, isStored = () => true }, chunks) {
    const began = performance.now();
    const answer = emptyAnswer(begun);
    const shown = createStore(answer);
    const live = { began, after, isStopping: false, answer: shown };
    store.set({ pending, live, error: null, outgrown: null });
    answers(id, true);
    const show = onNextFrame(() => shown.set(answer));
    running = {
      leaving,
      // At once: the daemon may need a micro-batch to stop.
      showStopping: () => store.set({ live: { ...live, isStopping: true } }),
    };
    const failure = await receive(chunks, answer, show);
    show.cancel();
    if (isStored()) await settle(failure);
    running = null;
    answers(id, false);
    const wasStopped = store.get().live.isStopping;
    store.set({ keys: keysOfStored(store.get()), live: null, pending: [], error: failure });
    // The user may have typed meanwhile.
    typeAhead.write(store.get().draft);
    refreshStatus();
    return { failure, wasStopped };
  }

  /** Resolves to the error, or null. */
  async function receive(chunks, answer, show) {
    try {
      for await (const chunk of chunks()) {
        if (!addChunk(answer, chunk)) continue;
        show();
        speaker?.say(answer.text);
      }
      return null;
    } catch (error) {
      return isCancelled(error) ? null : error;
    }
  }

  const silence = () => speaker?.stop();

  /** The daemon ends the answer, whichever page has asked for it. */
  async function stop() {
    silence();
    if (!running || store.get().live?.isStopping) return;
    const stopped = running;
    stopped.showStopping();
    for (let tries = 0; tries < STOP_TRIES && running === stopped; tries += 1) {
      const answer = await api.del(answerPath).catch(() => null);
      if (answer?.stopped) return;
      // The request may not have reached the daemon yet.
      await pause(STOP_EVERY_MS);
    }
    stopped.leaving.abort();
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
      await pause(SETTLE_EVERY_MS);
    }
  }

  return { ask, join, stop, silence, ended: () => exchange };
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
