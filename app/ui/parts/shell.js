// What is to be known of the daemon behind the page, as a line above it: that it starts, that it is
// another process, that it cannot be reached.

import { html, useEffect, useState } from "../lib/dom.js";
import { useStore } from "../lib/store.js";
import { t } from "../lib/strings.js";
import { shell } from "../lib/transport.js";
import { status } from "../chat/chats.js";
import { Icon } from "./icon.js";

export function Shell() {
  const { now, error } = useStore(status);
  const [app, setApp] = useState(null);
  useEffect(() => {
    if (!shell) return;
    shell.invoke("app_state").then(setApp, () => {});
    const listening = shell.listen("app-state", ({ payload }) => setApp(payload));
    return () => void listening.then((stop) => stop());
  }, []);
  const line = app && app.phase !== "ready" ? ofApp(app) : ofDaemon(now, error);
  return line && html`<div class="banner" role="status" data-test="banner"><${Icon} name=${line.icon} /><span class="grow">${line.text}</span>
    ${line.percent != null && html`<progress max="100" value=${line.percent} aria-label=${line.text}></progress>`}</div>`;
}

function ofApp({ phase, what, percent, message, address, pid }) {
  if (phase === "starting") return { icon: "models", text: what ?? t("shell.starting"), percent };
  if (phase === "attached") return { icon: "link", text: t("shell.attached", { address, pid }) };
  return { icon: "warning", text: message };
}

function ofDaemon(now, error) {
  if (error) return { icon: "warning", text: t("shell.away", { message: error.message }) };
  if (now?.residency === "loading") return { icon: "models", text: t("shell.loading", { model: now.model }), percent: now.percent };
  return null;
}
