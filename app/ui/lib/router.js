// The page that is shown: the part of the address after `#/`, as in `#/memory`, `#/chat/ID`, or `#/chat/ID/7` for the
// message 7 of a chat.

import { createStore } from "./store.js";

export const route = createStore(parseRoute(location.hash));

window.addEventListener("hashchange", () => route.set(parseRoute(location.hash)));

/** Shows a page: `go("chat", id)`. */
export function go(page, detail) {
  location.hash = address(page, detail);
}

/** The `href` of a link to a page, and to a place in it. */
export function address(page, ...parts) {
  const named = parts.filter((part) => part !== undefined);
  return ["#", page, ...named.map(encodeURIComponent)].join("/");
}

/** `#/chat/ID/7` -> `{ page: "chat", detail: "ID", place: "7" }`. Pure. */
export function parseRoute(hash) {
  const [page, detail, place] = hash.replace(/^#\/?/, "").split("/");
  return { page: page || "chat", detail: decoded(detail), ...(place && { place: decoded(place) }) };
}

function decoded(text) {
  try {
    return text ? decodeURIComponent(text) : null;
  } catch {
    return null;
  }
}
