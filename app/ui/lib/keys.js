// Keys that work everywhere. Each is listed in the help that `?` shows.
//
// - A key without a modifier does nothing while somebody types.
// - `Mod` is the command key on a Mac and Ctrl elsewhere.

const isMac = navigator.platform.startsWith("Mac");
const bindings = [];

/** Adds a key: `bind("Mod+K", "keys.search", () => …)`. The name is a string of the help. */
export function bind(keys, name, act, { whileTyping = keys.includes("+") } = {}) {
  bindings.push({ keys, name, act, whileTyping });
}

export const bound = () => bindings.map(({ keys, name }) => ({ keys: shown(keys), name }));

const NAMES = { Mod: isMac ? "⌘" : "Ctrl", Alt: isMac ? "⌥" : "Alt", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc" };

const shown = (keys) => keys.split("+").map((key) => NAMES[key] ?? key);

document.addEventListener("keydown", (event) => {
  if (event.isComposing || event.defaultPrevented) return;
  const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
  const found = bindings.find(({ keys, whileTyping }) => matches(keys, event) && (whileTyping || !typing));
  if (!found || document.querySelector("dialog[open]")) return;
  if (found.act(event) !== false) event.preventDefault();
});

function matches(keys, event) {
  const parts = keys.split("+");
  const key = parts.pop();
  const mod = isMac ? event.metaKey : event.ctrlKey;
  const other = isMac ? event.ctrlKey : event.metaKey;
  // On a Mac, Alt makes other letters of them.
  const pressed = isMac && event.altKey ? event.code.replace(/^(Key|Digit)/, "") : event.key;
  const isKey = pressed.toLowerCase() === key.toLowerCase();
  const shift = key.length === 1 && !/[a-z]/i.test(key) ? event.shiftKey : parts.includes("Shift");
  return isKey && mod === parts.includes("Mod") && event.altKey === parts.includes("Alt") && event.shiftKey === shift && !other;
}
