// The page that is shown: the part of the address after `#/`, as in `#/chat/ID` or `#/memory`.

import { createStore } from "./store.js";

export const route = createStore(parseRoute(location.hash));

window.addEventListener("hashchange", () => route.set(parseRoute(location.hash)));

/** Shows a page: `go("chat", id)`. */
export function go(page, detail) {
  location.hash = address(page, detail);
}

/** The `href` of a link to a page. */
export function address(page, detail) {
  return detail === undefined ? `#/${page}` : `#/${page}/${encodeURIComponent(detail)}`;
}

/** `#/chat/ID` -> `{ page: "chat", detail: "ID" }`. Pure. */
export function parseRoute(hash) {
  const [page, detail] = hash.replace(/^#\/?/, "").split("/");
  return { page: page || "chat", detail: decoded(detail) };
}

function decoded(text) {
  try {
    return text ? decodeURIComponent(text) : null;
  } catch {
    return null;
  }
}
