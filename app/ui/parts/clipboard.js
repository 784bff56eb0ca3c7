// To the clipboard, and to a file.

import { t } from "/lib.js";
import { say } from "./toast.js";

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say(t("copied"));
  } catch {
    say(t("copy.failed"));
  }
}

/** Hands a file to the browser, or to the shell's web view, which says where it put it. */
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
