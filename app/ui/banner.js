// What is to be known of the daemon behind the page, as a line above it: that it starts, that it is
// another process, that it cannot be reached.

import { html, shell, t, useEffect, useState, useStore } from "/lib.js";
import { Icon, say } from "/parts.js";
import { loadChats, status } from "./chat/chats.js";

export function Banner() {
  const { now, error, to } = useStore(status);
  const [app, setApp] = useState(null);
  useEffect(() => shell?.watch((app) => {
    if (app.took_over) say(t("shell.took"));
    if (app.phase !== "starting") loadChats().catch(() => {}); // Now it is known where they are.
    setApp(app);
  }), []);
  const line = app && app.phase !== "ready" ? ofApp(app) : to ? { icon: "models", text: t("models.switching", { name: to }) } : ofDaemon(now, error);
  return line && html`<div class="banner" role="status" data-test="banner"><${Icon} name=${line.icon} /><span class="grow">${line.text}</span>
    ${line.percent != null && html`<progress max="100" value=${line.percent} aria-label=${line.text}></progress>`}</div>`;
}

function ofApp({ phase, what, percent, message, remedy, address, pid }) {
  if (phase === "starting") return { icon: "models", text: t(`shell.doing.${what}`), percent };
  if (phase === "attached") return { icon: "link", text: t("shell.attached", { address, pid }) };
  return { icon: "warning", text: t("shell.failed", { message, remedy: t(`shell.remedy.${remedy}`) }) };
}

function ofDaemon(now, error) {
  if (error) return { icon: "warning", text: t("shell.away", { message: error.message }) };
  if (now?.residency === "loading") return { icon: "models", text: t("shell.loading", { model: now.model }), percent: now.loaded_percent };
  return null;
}
