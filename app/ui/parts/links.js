// Links in model output: opened only after a question that shows the address.

import { safeAddress, shell, t } from "/lib.js";
import { ask } from "./dialog.js";

export async function openLink(event) {
  const link = event.target.closest?.("a");
  if (!link) return;
  event.preventDefault();
  const url = safeAddress(link.getAttribute("href") ?? "");
  if (!url || !(await ask({ title: t("link.title"), text: url, yes: t("link.open") }))) return;
  if (shell) await shell.invoke("open_link", { url }).catch(() => {});
  else window.open(url, "_blank", "noopener,noreferrer");
}
