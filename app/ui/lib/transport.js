// How the page reaches the daemon. One shape, two backs: `fetch` in a browser, and in the app a command
// of the shell, whose answer comes over a channel.
//
// A back is one function, `open(method, path, headers, body, signal)`, which promises
// `{ status, headers, chunks }`: `chunks` is an async iterable of Uint8Array. `headers` have small names.
// Aborting `signal` cancels the request, and the daemon whatever it computes for it.

import { browserBack } from "./transport/browser.js";
import { appBack } from "./transport/app.js";
import { ApiError, isCancelled } from "./transport/errors.js";
import { events } from "./transport/events.js";

const back = window.__TAURI__ ? appBack() : browserBack();

/** The shell of the desktop app: its commands and events; null in a browser. */
export const shell = back.shell ?? null;

export { isCancelled };

/** JSON in, JSON out. */
export const api = {
  get: (path, options) => json("GET")(path, undefined, options),
  post: json("POST"),
  put: json("PUT"),
  patch: json("PATCH"),
  del: json("DELETE"),
  bytes,
  stream,
};

function json(method) {
  return async (path, body, options) => parse(await text(await open(method, path, { body, ...options })));
}

/** The whole answer as bytes, and its type: for files. */
async function bytes(method, path, options) {
  const response = await open(method, path, options);
  const parts = [];
  for await (const chunk of response.chunks) parts.push(chunk);
  return new Blob(parts, { type: response.headers["content-type"] });
}

/** The JSON of each server-sent event, until `[DONE]` or the end. */
async function* stream(method, path, options) {
  const response = await open(method, path, options);
  for await (const data of events(response.chunks)) {
    if (data === "[DONE]") return;
    const event = JSON.parse(data);
    if (event.error) throw new ApiError(response.status, event.error);
    yield event;
  }
}

/** An answer that was not refused. `body`: a value that becomes JSON, or bytes with `type`. */
async function open(method, path, { body, type, signal } = {}) {
  const headers = {};
  const isBytes = body instanceof Uint8Array || body instanceof ArrayBuffer;
  if (body !== undefined) headers["content-type"] = type ?? "application/json";
  const sent = body === undefined || isBytes || type ? body : JSON.stringify(body);
  const response = await back.open(method, path, headers, sent, signal);
  if (response.status >= 400) {
    const { error } = parse(await text(response)) ?? {};
    if (response.status === 401) back.onUnauthorised?.(response.token);
    throw new ApiError(response.status, error);
  }
  return response;
}

async function text(response) {
  const decoder = new TextDecoder();
  let all = "";
  for await (const chunk of response.chunks) all += decoder.decode(chunk, { stream: true });
  return all + decoder.decode();
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** The access to the daemon, in a browser: whether there is a token, and how to give one. */
export const access = back.access ?? { has: () => true, give() {}, subscribe: () => () => {} };
