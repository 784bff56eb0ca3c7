// The line above every page: the daemon is starting, runs in another process, or does not answer.

import { html, shell, t, useEffect, useState, useStore } from "/lib.js";
import { Icon, toast } from "/parts.js";
import { loadChats, status } from "./chat/chats.js";

export function Banner() {
  const { now, error, switchingTo } = useStore(status);
  const [app, setApp] = useState(null);
  useEffect(() => shell?.watch((app) => {
    if (app.took_over) toast(t("shell.took"));
    // Until now only some were known.
    if (app.phase !== "starting") loadChats().catch(() => {});
    setApp(app);
  }), []);
  const message = messageOf(app, switchingTo, now, error);
  // Screen readers read what comes into a region that they know already.
  return html`<div role="status">${message && html`<${Line} ...${message} />`}</div>`;
}

const Line = ({ icon, text, percent }) => html`
  <div class="banner" data-test="banner">
    <${Icon} name=${icon} /><span class="grow">${text}</span>
    ${percent != null && html`<progress max="100" value=${percent} aria-label=${text}></progress>`}
  </div>`;

function messageOf(app, switchingTo, now, error) {
  if (app && app.phase !== "ready") return ofApp(app);
  if (switchingTo) return { icon: "models", text: t("models.switching", { name: switchingTo }) };
  if (error) return { icon: "warning", text: t("shell.away", { message: error.message }) };
  if (now?.residency !== "loading") return null;
  const text = t("shell.loading", { model: now.model });
  return { icon: "models", text, percent: now.loaded_percent };
}

function ofApp({ phase, what, percent, message, remedy, address, pid }) {
  if (phase === "starting") return { icon: "models", text: t(`shell.doing.${what}`), percent };
  if (phase === "attached") return { icon: "link", text: t("shell.attached", { address, pid }) };
  const text = t("shell.failed", { message, remedy: t(`shell.remedy.${remedy}`) });
  return { icon: "warning", text };
}
