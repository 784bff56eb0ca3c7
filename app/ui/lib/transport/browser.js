// The back for browsers: `fetch`, with a token that was brought along in the address once.
//
// - The token comes as `#token=…`, is taken out of the address at once, and lies in this origin's
//   storage: port and all, so no other local server sees it.

import { t } from "../strings.js";
import { Unreachable, isCancelled } from "./errors.js";

const NAME = "hob.token";

export function browserBack() {
  const listeners = new Set();
  const brought = new URLSearchParams(location.hash.slice(1)).get("token");
  if (brought) {
    localStorage.setItem(NAME, brought);
    history.replaceState(null, "", location.pathname + location.search);
  }
  const tell = () => listeners.forEach((listener) => listener());
  const access = {
    has: () => Boolean(localStorage.getItem(NAME)),
    give(token) {
      localStorage.setItem(NAME, token.trim());
      tell();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  return {
    access,
    open,
    onUnauthorised(token) {
      if (token !== localStorage.getItem(NAME)) return; // A better one has come meanwhile.
      localStorage.removeItem(NAME);
      tell();
    },
  };
}

async function open(method, path, headers, body, signal) {
  const token = localStorage.getItem(NAME);
  if (token) headers = { ...headers, authorization: `Bearer ${token}` };
  let response;
  try {
    response = await fetch(path, { method, headers, body, signal, cache: "no-store" });
  } catch (error) {
    throw isCancelled(error) ? error : new Unreachable(t("unreachable"));
  }
  return { token, status: response.status, headers: Object.fromEntries(response.headers), chunks: chunks(response) };
}

async function* chunks(response) {
  if (!response.body) return;
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {}); // Whoever stops listening early wants no more of it.
  }
}
