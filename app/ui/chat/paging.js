// The page keys in the composer scroll the chat: the focus need not leave the field.

/** How much of the chat's height a key scrolls: a line or two stay in sight. */
const SHARE = 0.9;

/** Whether it did. The keys stay with a field whose text scrolls itself, and with Shift, which selects. */
export function scrollsChat({ key, shiftKey, ctrlKey, altKey, metaKey, currentTarget: field }) {
  const step = { PageUp: -1, PageDown: 1 }[key];
  const isOwn = shiftKey || ctrlKey || altKey || metaKey || field.scrollHeight > field.clientHeight + 1;
  const talk = step && !isOwn && document.querySelector(".talk");
  if (!talk) return false;
  talk.scrollTop += step * SHARE * talk.clientHeight;
  return true;
}
