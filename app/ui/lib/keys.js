// Global keyboard shortcuts. The help that `?` opens lists each of them.
//
// - A key without a modifier is ignored while an input has the focus.
// - `Mod` is Command on a Mac and Ctrl elsewhere.

import { createStore } from "./store.js";

const isMac = navigator.platform.startsWith("Mac");
const shortcuts = [];

/** Whether the list of shortcuts is shown. */
export const help = createStore({ open: false });

/** `name`: its string in the help. When `act` returns false the event stays unhandled. */
export function bind(keys, name, act, { whileTyping = keys.includes("+") } = {}) {
  shortcuts.push({ keys, name, act, whileTyping });
}

export const bound = () => shortcuts.map(({ keys, name }) => ({ keys: labels(keys), name }));

const LABELS = {
  Mod: isMac ? "⌘" : "Ctrl",
  Alt: isMac ? "⌥" : "Alt",
  ArrowUp: "↑",
  ArrowDown: "↓",
  Escape: "Esc",
};

const labels = (keys) => keys.split("+").map((key) => LABELS[key] ?? key);

/** Whether an input method takes the key. WebKit reports the key that ends a composition after it, as code 229. */
export const isComposing = (event) => event.isComposing || event.keyCode === 229;

const isTouched = matchMedia("(hover: none) and (pointer: coarse)");

/** Whether the user writes on the screen: its keyboard covers half of it, and has no Shift+Enter. */
export const isOnTouchScreen = () => isTouched.matches;

/** Whether a key in a field of several lines ends the writing. On a touch screen, Enter alone begins a line. */
export const isSending = ({ key, shiftKey, ctrlKey, metaKey }) =>
  key === "Enter" && !shiftKey && (ctrlKey || metaKey || !isOnTouchScreen());

document.addEventListener("keydown", (event) => {
  if (isComposing(event) || event.defaultPrevented) return;
  const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
  const found = shortcuts.find(
    ({ keys, whileTyping }) => (whileTyping || !isTyping) && matches(keys, event, isMac),
  );
  if (!found || document.querySelector("dialog[open]")) return;
  if (found.act(event) !== false) event.preventDefault();
});

export function matches(keys, event, onMac) {
  const modifiers = keys.split("+");
  const key = modifiers.pop();
  const mod = onMac ? event.metaKey : event.ctrlKey;
  const other = onMac ? event.ctrlKey : event.metaKey;
  if (other || mod !== modifiers.includes("Mod")) return false;
  if (event.altKey !== modifiers.includes("Alt")) return false;
  // Symbols such as "?" may need Shift, depending on the keyboard layout.
  const isSymbol = key.length === 1 && !/[a-z]/i.test(key);
  if (!isSymbol && event.shiftKey !== modifiers.includes("Shift")) return false;
  // On a Mac, Alt changes the letter that a key writes; a keyboard of another script has none of these letters.
  const isPhysical = (onMac && event.altKey) || (modifiers.length > 0 && event.key > "\x7f");
  const pressed = isPhysical ? event.code.replace(/^(Key|Digit)/, "") : event.key;
  return pressed.toLowerCase() === key.toLowerCase();
}
