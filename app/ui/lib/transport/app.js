// The back for the desktop app: every request is one command of the shell, answered over a channel.
//
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
    invoke("request", { id, method, path, headers, body: sendable(body), channel }).catch((error) => inbox.push({ error: String(error) }));
    const head = await inbox.next();
    if (head.error !== undefined) throw signal?.aborted ? cancelled() : new Unreachable(head.error);
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
    return { status: head.status, headers: head.headers, chunks: chunks() };
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

/** Text as it is, bytes as numbers: what a command takes. */
function sendable(body) {
  if (body === undefined || typeof body === "string") return { text: body ?? null };
  return { bytes: [...new Uint8Array(body)] };
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
