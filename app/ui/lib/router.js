// Which page is shown: the part of the address behind `#/`, as `#/chat/ID` or `#/memory`.

import { createStore } from "./store.js";

export const route = createStore(read());

window.addEventListener("hashchange", () => route.set(read()));

/** Shows a page: `go("chat", id)`. */
export function go(page, detail) {
  location.hash = address(page, detail);
}

/** What a link to a page has in `href`. */
export function address(page, detail) {
  return detail === undefined ? `#/${page}` : `#/${page}/${encodeURIComponent(detail)}`;
}

function read() {
  const [page, detail] = location.hash.replace(/^#\/?/, "").split("/");
  return { page: page || "chat", detail: decoded(detail) };
}

function decoded(text) {
  try {
    return text ? decodeURIComponent(text) : null;
  } catch {
    return null;
  }
}
