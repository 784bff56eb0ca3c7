// Requests to the daemon. Two backends: `fetch` in a browser; in the desktop app a command of the
// shell, which answers over a channel.
//
// A backend has `open(method, path, headers, body, signal)`, which resolves to
// `{ status, headers, chunks }`: header names are lower case, `chunks` is an async iterable of
// Uint8Array. Aborting `signal` cancels the request, and the daemon stops computing for it.

import { appBackend } from "./transport/app.js";
import { browserBackend } from "./transport/browser.js";
import { ApiError, isCancelled, isUnreachable } from "./transport/errors.js";
import { events } from "./transport/events.js";

const backend = window.__TAURI__ ? appBackend() : browserBackend();

/** Commands and events of the desktop app; null in a browser. */
export const shell = backend.shell ?? null;

/** Whether a browser has a token of the daemon, whether the daemon refused the last one, and how to give it one. */
export const access = backend.access ??
  { has: () => true, wasRefused: () => false, give() {}, subscribe: () => () => {} };

export { isCancelled, isUnreachable };

/** JSON in, JSON out, but for `bytes` and `stream`. `options`: `{ signal, type }`. */
export const api = {
  get: (path, options) => json("GET", path, undefined, options),
  post: (path, body, options) => json("POST", path, body, options),
  put: (path, body, options) => json("PUT", path, body, options),
  patch: (path, body, options) => json("PATCH", path, body, options),
  del: (path, options) => json("DELETE", path, undefined, options),
  bytes,
  stream,
};

async function json(method, path, body, options) {
  const response = await open(method, path, { body, ...options });
  return parse(await text(response));
}

/** The response as a Blob with its content type: for files and sound. */
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

/**
 * A response with a status below 400; throws an `ApiError` otherwise. `body` is a value that becomes
 * JSON, or bytes of the content type `type`.
 */
async function open(method, path, { body, type, signal } = {}) {
  const headers = {};
  const isBytes = body instanceof Uint8Array || body instanceof ArrayBuffer;
  if (body !== undefined) headers["content-type"] = type ?? "application/json";
  const content = body === undefined || isBytes || type ? body : JSON.stringify(body);
  const response = await backend.open(method, path, headers, content, signal);
  if (response.status >= 400) {
    const { error } = parse(await text(response)) ?? {};
    if (response.status === 401) backend.onUnauthorised?.(response.token);
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
