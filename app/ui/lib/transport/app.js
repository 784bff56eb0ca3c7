// The desktop app's backend: each request is one command of the shell, answered over a channel.
//
// - The body travels as bytes; method, path and headers in the command's `hob-request` header.
// - The channel carries `{ status, headers }`, then chunks as ArrayBuffers, then `{ end: true }` or
//   `{ error }`. The shell adds the token; the page never sees it.

import { Unreachable, cancelled } from "./errors.js";

export function appBackend() {
  const { Channel, invoke } = window.__TAURI__.core;
  let lastId = 0;

  async function open(method, path, headers, body, signal) {
    const id = ++lastId;
    const inbox = new Inbox();
    const channel = new Channel();
    channel.onmessage = (message) => inbox.push(message);
    const cancel = () => {
      invoke("cancel", { id }).catch(() => {});
      inbox.push({ error: null });
    };
    if (signal?.aborted) throw cancelled();
    signal?.addEventListener("abort", cancel);
    const bytes = typeof body === "string" ? new TextEncoder().encode(body) : new Uint8Array(body);
    const head = JSON.stringify({ id, method, path, headers, channel });
    const failed = (error) => inbox.push({ error: String(error) });
    invoke("request", bytes, { headers: { "hob-request": head } }).catch(failed);
    const response = await inbox.next();
    if (response.error !== undefined) {
      throw signal?.aborted ? cancelled() : new Unreachable(response.error);
    }
    async function* chunks() {
      let isOver = false;
      try {
        for (;;) {
          const message = await inbox.next();
          isOver = message.end || message.error !== undefined;
          if (message.end) return;
          if (signal?.aborted) throw cancelled();
          if (message.error !== undefined) throw new Unreachable(message.error);
          yield new Uint8Array(message);
        }
      } finally {
        signal?.removeEventListener("abort", cancel);
        if (!isOver) cancel();
      }
    }
    return { status: response.status, headers: response.headers, chunks: chunks() };
  }

  /** Calls `listener` with the app's state now and after each change; returns how to stop it. */
  function watch(listener) {
    const changes = new Channel();
    // The answer may come after a change, and is older then.
    let hasChanged = false;
    changes.onmessage = (state) => {
      hasChanged = true;
      listener(state);
    };
    invoke("app_state", { changes }).then((state) => hasChanged || listener(state), () => {});
    return () => {
      changes.onmessage = () => {};
    };
  }

  return { open, shell: { invoke, watch } };
}

/** An asynchronous queue of messages. */
class Inbox {
  #waiting = [];
  #messages = [];
  push(message) {
    const resolve = this.#waiting.shift();
    if (resolve) resolve(message);
    else this.#messages.push(message);
  }
  next() {
    if (this.#messages.length) return Promise.resolve(this.#messages.shift());
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
