// Copies text to the clipboard; saves a file.

import { t } from "/lib.js";
import { toast } from "./toast.js";

const REVOKE_AFTER_MS = 10_000;

export async function copy(text) {
  const isCopied = (await write(text)) || copySelected(text);
  toast(t(isCopied ? "copied" : "copy.failed"));
}

/** Resolves to whether it worked. A page of plain HTTP from another machine has no clipboard. */
async function write(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** As the user does it: selects the text in a field, and copies what is selected. */
function copySelected(text) {
  const focused = document.activeElement;
  const field = Object.assign(document.createElement("textarea"), { value: text, className: "hidden-text" });
  // What is behind a dialog takes no focus.
  const place = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body;
  place.append(field);
  field.focus({ preventScroll: true });
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  focused?.focus({ preventScroll: true });
  return isCopied;
}

export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), REVOKE_AFTER_MS);
}
