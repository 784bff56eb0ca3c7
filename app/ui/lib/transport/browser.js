// The browser's backend: `fetch` with the daemon's token.
//
// - The token arrives as `#token=…`, also in a window that shows the page already, and is removed from the address at
//   once.
// - It is stored for this origin, which includes the port: no other local server can read it. Where the browser
//   forbids storage, it lasts until the page is closed.

import { textsIn } from "../storage.js";
import { t } from "../strings.js";
import { Unreachable, isCancelled } from "./errors.js";

const TOKEN = "hob.token";
const texts = textsIn("localStorage");

export function browserBackend() {
  const listeners = new Set();
  let isRefused = false;
  const changed = () => listeners.forEach((listener) => listener());
  const access = {
    has: () => Boolean(texts.read(TOKEN)),
    wasRefused: () => isRefused,
    give(token) {
      isRefused = false;
      texts.write(TOKEN, token.trim());
      changed();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  const takeFromAddress = () => {
    const token = new URLSearchParams(location.hash.slice(1)).get("token");
    if (!token) return;
    history.replaceState(null, "", location.pathname + location.search);
    access.give(token);
  };
  takeFromAddress();
  // The router comes after it, and reads the address without the token.
  window.addEventListener("hashchange", takeFromAddress, { capture: true });
  // Another window was given a token, or was refused with it.
  window.addEventListener("storage", ({ key }) => {
    if (key !== TOKEN) return;
    isRefused = false;
    changed();
  });
  return {
    access,
    open,
    onUnauthorised(token) {
      // A newer token was stored meanwhile.
      if (token !== texts.read(TOKEN)) return;
      // Later requests have none.
      isRefused ||= Boolean(token);
      texts.write(TOKEN, "");
      changed();
    },
  };
}

async function open(method, path, headers, body, signal) {
  const token = texts.read(TOKEN);
  const all = token ? { ...headers, authorization: `Bearer ${token}` } : headers;
  let response;
  try {
    response = await fetch(path, { method, headers: all, body, signal, cache: "no-store" });
  } catch (error) {
    throw isCancelled(error) ? error : new Unreachable(t("unreachable"));
  }
  return {
    token,
    status: response.status,
    headers: Object.fromEntries(response.headers),
    chunks: chunks(response),
  };
}

async function* chunks(response) {
  if (!response.body) return;
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read().catch((error) => {
        throw isCancelled(error) ? error : new Unreachable(t("unreachable.broken"));
      });
      if (done) return;
      yield value;
    }
  } finally {
    // Ends the request when the caller stops reading early.
    reader.cancel().catch(() => {});
  }
}
