// The back for the desktop app: every request is one command of the shell, answered over a channel.
//
// - The body goes as bytes, all else in a header.
// - The channel carries a head `{ status, headers }`, then chunks as ArrayBuffers, then `{ end: true }`
//   or `{ error }`. The token stays with the shell.

import { Unreachable, cancelled } from "./errors.js";

export function appBack() {
  const { Channel, invoke } = window.__TAURI__.core;
  let last = 0;

  async function open(method, path, headers, body, signal) {
    const id = ++last;
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
    invoke("request", bytes, { headers: { "hob-request": head } }).catch((error) => inbox.push({ error: String(error) }));
    const { status, headers: got, error } = await inbox.next();
    if (error !== undefined) throw signal?.aborted ? cancelled() : new Unreachable(error);
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
    return { status, headers: got, chunks: chunks() };
  }

  /** Hears how the daemon stands, now and whenever that changes. */
  function watch(hear) {
    const changes = new Channel();
    changes.onmessage = hear;
    invoke("app_state", { changes }).then(hear, () => {});
    return () => void (changes.onmessage = () => {});
  }

  return { open, shell: { invoke, watch } };
}

/** Messages in their order, for whoever asks next. */
class Inbox {
  #waiting = [];
  #messages = [];
  push(message) {
    const next = this.#waiting.shift();
    if (next) next(message);
    else this.#messages.push(message);
  }
  next() {
    if (this.#messages.length) return Promise.resolve(this.#messages.shift());
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
