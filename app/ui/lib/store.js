// State that several components show. A store holds one immutable object; a component that uses it
// renders again when the part that it selects has changed.

import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { textsIn } from "./storage.js";

const texts = textsIn("localStorage");

export function createStore(initial) {
  let value = initial;
  const listeners = new Set();
  return {
    get: () => value,
    /** Merges fields, or the fields that a function returns for the old value. */
    set(change) {
      const fields = typeof change === "function" ? change(value) : change;
      value = { ...value, ...fields };
      for (const listener of [...listeners]) listener(value);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The selected part of a store; `select` may be a new function on each render. */
export function useStore(store, select = (value) => value) {
  const [, redraw] = useState(0);
  const part = select(store.get());
  const latest = useRef();
  latest.current = { part, select };
  useEffect(() => {
    const compare = () => {
      const { part, select } = latest.current;
      if (select(store.get()) !== part) redraw((times) => times + 1);
    };
    compare();
    return store.subscribe(compare);
  }, [store]);
  return part;
}

/** Windows of one browser share it: a change in one reaches the others. Of its fields, the newest `most` are read
    back. */
export function createPersistentStore(name, initial, most = Infinity) {
  const stored = () => Object.fromEntries(Object.entries(read(name)).slice(-most));
  const store = createStore({ ...initial, ...stored() });
  // Writing what another window has written would go back and forth.
  let isTold = false;
  window.addEventListener("storage", ({ key }) => {
    if (key !== name) return;
    isTold = true;
    store.set(stored());
    isTold = false;
  });
  store.subscribe((value) => {
    if (isTold) return;
    texts.write(name, JSON.stringify(value));
  });
  return store;
}

function read(name) {
  try {
    return JSON.parse(texts.read(name)) ?? {};
  } catch {
    return {};
  }
}
