// What to do about a context that is full, or nearly: each way with what it costs.

import { bytes, count, go, html, t, useState, useStore } from "/lib.js";
import { Button, Icon, IconButton, orToast, Select, toast } from "/parts.js";
import { usePanel } from "/parts/panel.js";
import { isPrivate, status } from "./chats.js";
import { conversationOf, takeChoices } from "./conversation.js";
import { Reading } from "./reading.js";
import { branchWithLast, shorten, stopShortening } from "./shorten.js";
import { setContext, useContextSizes } from "./larger.js";

const LAST_MESSAGES = [2, 4, 8, 16];

/** `onClose`: null where the failure above it is closed. */
export function Room({ conversation, state, use, chat, onClose }) {
  const [last, setLast] = useState(LAST_MESSAGES[1]);
  const panel = usePanel(onClose);
  // An engine at another address takes whole chats.
  const canShorten = useStore(status, ({ now }) => !now?.upstream);
  // The daemon stores a branch.
  const canBranch = !isPrivate(conversation.id);
  const { shortening, outgrown, live } = state;
  const busy = Boolean(live || shortening);
  const newest = async () => {
    if (outgrown) return conversation.goOn();
    if (await shorten(conversation, false)) onClose?.();
    return undefined;
  };
  const summarise = async () => {
    const waits = conversation.store.get().outgrown;
    if (!(await shorten(conversation, true))) return;
    toast(t("room.summarised"));
    if (waits) conversation.goOn();
    else onClose?.();
  };
  const branch = async () => {
    const id = await orToast(branchWithLast(conversation, last, chat?.title));
    if (!id) return;
    const [message] = outgrown?.messages ?? [];
    const { attachments, store } = conversation;
    const draft = store.get().draft || message?.content || "";
    const documents = attachments.areReady() ? attachments.send().documents : [];
    conversation.write("");
    conversation.dismissError();
    takeChoices(id, conversation);
    go("chat", id);
    const begun = conversationOf(id);
    begun.attachments.restore(documents);
    begun.write(draft);
  };
  return html`
    <section class="make-room stack" aria-label=${t("room.title")} ...${panel} data-test="room">
      ${shortening
        ? html`<${Shortening} conversation=${conversation} shortening=${shortening} />`
        : html`
          <div class="row apart">
            <strong>${t("room.title")}</strong>
            ${onClose && html`<${IconButton} small icon="close" label=${t("close")} onClick=${onClose} />`}
          </div>
          <ul class="bare-list ways">
            ${canShorten && html`
              <${Way} act=${newest} busy=${busy} label="newest.go-on" about="newest.go-on.long" test="go-on" />
              <${Way}
                act=${summarise}
                busy=${busy}
                label="room.summarise"
                about="room.summarise.long"
                test="summarise"
              />`}
            ${canBranch && html`
              <${Way} act=${branch} busy=${busy} label="room.branch" about="room.branch.long" test="branch-last">
                <label class="row">
                  <span class="hidden-text">${t("room.branch.last")}</span>
                  <${Select}
                    value=${last}
                    options=${LAST_MESSAGES.map((n) => [n, count(n)])}
                    onChange=${(n) => setLast(Number(n))}
                    data-test="branch-count"
                  />
                </label>
              <//>`}
            <${Larger} use=${use} busy=${busy} />
          </ul>`}
    </section>`;
}

function Way({ act, busy, label, about, test, children }) {
  return html`
    <li class="way">
      <div class="row">
        <${Button} disabled=${busy} onClick=${act} data-test=${test}>${t(label)}<//>${children}
      </div>
      <p class="note">${t(about)}</p>
    </li>`;
}

function Shortening({ conversation, shortening: { progress, text } }) {
  return html`
    <div class="row apart">
      <strong role="status">${t("room.summarising")}</strong>
      <${Button} onClick=${() => stopShortening(conversation)} data-test="stop-shortening">
        ${t("composer.stop")}
      <//>
    </div>
    <p class="note">${t("room.summarising.long")}</p>
    ${text
      ? html`<p class="note summary" dir="auto">${text}</p>`
      : html`<${Reading} progress=${progress} />`}`;
}

function Larger({ use, busy }) {
  const known = useContextSizes();
  const [size, setSize] = useState(null);
  if (!known || !use) return null;
  const { fixed, trained, sizes, perToken } = known;
  if (fixed) {
    return html`<li class="way"><p class="note">${t("room.larger.fixed", { by: fixed })}</p></li>`;
  }
  if (!sizes.length) return html`<li class="way"><p class="note">${t("room.larger.most", { n: trained })}</p></li>`;
  const chosen = sizes.includes(size) ? size : sizes[0];
  const options = sizes.map((n) => [n, perToken ? `${count(n)} (${bytes(n * perToken)})` : count(n)]);
  return html`
    <li class="way">
      <div class="row">
        <${Button} disabled=${busy} onClick=${() => setContext(chosen)} data-test="larger">
          ${t("room.larger")}
        <//>
        <label class="row">
          <span class="hidden-text">${t("room.larger.tokens")}</span>
          <${Select}
            value=${chosen}
            options=${options}
            onChange=${(n) => setSize(Number(n))}
            data-test="larger-size"
          />
        </label>
      </div>
      <p class="note">${t("room.larger.long")}</p>
    </li>`;
}

/** Above the composer of a chat whose context is nearly full. */
export function NearlyFull({ percent, open, dismiss }) {
  return html`
    <div class="composer-inner row nearly-full-note" role="status" data-test="nearly-full">
      <${Icon} name="warning" small />
      <span class="grow">${t("room.nearly", { percent })}</span>
      <${Button} onClick=${open} data-test="make-room">${t("room.open")}<//>
      <${IconButton} small icon="close" label=${t("close")} onClick=${dismiss} />
    </div>`;
}
