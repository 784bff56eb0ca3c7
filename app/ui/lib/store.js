// State that several components show. A store holds one immutable value; whoever uses it is drawn again
// when the part that it selects is another one.

import { useEffect, useRef, useState } from "../vendor/hooks.js";

export function createStore(initial) {
  let value = initial;
  const listeners = new Set();
  return {
    get: () => value,
    /** Takes the fields that changed, or a function from the old value to them. */
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

/** The selected part of a store, in a component; `select` may be another function each time. */
export function useStore(store, select = (value) => value) {
  const [, redraw] = useState(0);
  const part = select(store.get());
  const shown = useRef();
  shown.current = { part, select };
  useEffect(() => {
    const look = () => shown.current.select(store.get()) === shown.current.part || redraw((times) => times + 1);
    look();
    return store.subscribe(look);
  }, [store]);
  return part;
}

/** A store that outlives the page, in this browser alone. */
export function createKeptStore(name, initial) {
  const store = createStore({ ...initial, ...read(name) });
  store.subscribe((value) => {
    try {
      localStorage.setItem(name, JSON.stringify(value));
    } catch {
      // A full or forbidden storage costs nothing but the memory of it.
    }
  });
  return store;
}

function read(name) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? {};
  } catch {
    return {};
  }
}
