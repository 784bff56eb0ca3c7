// What is kept on disk, conversation by conversation, and what can be done with it.

import { address, ago, api, bytes, classes, count, html, t, useMemo, useState, useStore } from "/lib.js";
import { ask, Button, CLASSES, Icon, Menu, say, Select, told } from "/parts.js";
import { chats, status } from "/chat/chats.js";
import { refresh } from "./live.js";
import { Prune } from "./prune.js";
import { Verify } from "./verify.js";
import { classNames, keptName, reading } from "./words.js";

const PAGE = 50;
/** The daemon's words, the nearest first, and ours for where that is. */
const PLACES = { open: "hot", hot: "hot", parked: "warm", cold: "cold", expired: "cold" };
const NEARNESS = Object.keys(PLACES);
const WORDS = { open: "files.speaking", expired: "files.expired" };

const COLUMNS = [
  { name: "name", by: (slot) => slot.name.toLowerCase() },
  { name: "state", by: (slot) => NEARNESS.indexOf(slot.state) },
  { name: "own", figure: true, by: (slot) => slot.own_bytes },
  { name: "shared", figure: true, wide: true, by: (slot) => slot.shared_bytes },
  { name: "tokens", figure: true, wide: true, by: (slot) => slot.tokens },
  { name: "used", by: (slot) => slot.age_secs },
  { name: "age", wide: true, by: (slot) => -slot.created_at },
  { name: "class", by: (slot) => CLASSES.indexOf(slot.class) },
];

export function Files({ slots, disk }) {
  const all = useStore(chats, ({ all }) => all);
  const [sort, setSort] = useState({ name: "used", down: false });
  const [most, setMost] = useState(PAGE);
  const [isPruning, setPruning] = useState(false);
  const [verifying, setVerifying] = useState(null);
  const titles = useMemo(() => new Map(all.map(({ id, title }) => [id, title])), [all]);
  const rows = useMemo(() => sorted((slots?.data ?? []).map((slot) => ({ ...slot, name: keptName(slot.conversation, titles) })), sort), [slots, titles, sort]);
  const own = useStore(status, ({ now }) => now?.fingerprint);
  const verify = (body, name) => setVerifying({ body, name, at: performance.now() });
  return html`<section class="card stack" data-test="memory-files">
    <div class="row apart"><h2>${t("files.title")}</h2>
      ${slots && html`<div class="row">
        <${Button} disabled=${verifying !== null} onClick=${() => verify({})} data-test="verify">${t("files.verify")}<//>
        <${Button} disabled=${!rows.length} onClick=${() => setPruning(true)} data-test="prune">${t("files.prune")}<//>
      </div>`}</div>
    ${verifying && html`<${Verify} key=${verifying.at} ...${verifying} titles=${titles} onClose=${() => setVerifying(null)} />`}
    ${slots === undefined && reading()}
    ${slots === null && html`<p class="note">${t("memory.nothing-kept")}</p>`}
    ${slots && !rows.length && html`<div class="empty"><p>${t("files.empty")}</p></div>`}
    ${rows.length > 0 && html`
      <p class="note">${t("files.summary", { n: rows.length, bytes: disk?.bytes ?? slots.disk_bytes })}</p>
      <div class="scroll-x"><table class="table files"><thead><tr>
        ${COLUMNS.map((column) => html`<${Head} key=${column.name} ...${column} sort=${sort} onSort=${setSort} />`)}
        <th><span class="hidden-text">${t("files.actions")}</span></th></tr></thead>
        <tbody>${rows.slice(0, most).map((slot) => html`<${Row} key=${`${slot.fingerprint} ${slot.conversation}`} slot=${slot} isOther=${own && slot.fingerprint !== own} isChat=${titles.has(slot.conversation)} onVerify=${() => verify({ conversation: slot.conversation, fingerprint: slot.fingerprint }, slot.name)} />`)}</tbody></table></div>
      ${rows.length > most && html`<div class="row"><${Button} onClick=${() => setMost(most + 4 * PAGE)}>${t("files.more", { n: rows.length - most })}<//></div>`}`}
    ${isPruning && html`<${Prune} titles=${titles} onClose=${() => setPruning(false)} />`}
  </section>`;
}

function sorted(rows, { name, down }) {
  const { by } = COLUMNS.find((column) => column.name === name);
  const order = (a, b) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0);
  rows.sort((a, b) => (down ? order(b, a) : order(a, b)) || a.age_secs - b.age_secs);
  return rows;
}

function Head({ name, figure, wide, sort, onSort }) {
  const isHere = sort.name === name;
  // Figures are looked at from the largest on.
  const down = isHere ? !sort.down : Boolean(figure);
  return html`<th class=${classes(figure && "figure", wide && "wide-only")} aria-sort=${isHere ? (sort.down ? "descending" : "ascending") : null}>
    <button type="button" class="sort" onClick=${() => onSort({ name, down })}>${t(`files.${name}`)}${isHere && html`<${Icon} name=${sort.down ? "down" : "up"} small />`}</button></th>`;
}

function Row({ slot, isOther, isChat, onVerify }) {
  const { conversation, fingerprint, name, state } = slot;
  const isOpen = state === "open" || state === "hot";
  return html`<tr data-test="file" data-conversation=${conversation}>
    <th scope="row" class="clip">${isChat ? html`<a href=${address("chat", conversation)} title=${name}>${name}</a>` : html`<span title=${name}>${name}</span>`}
      ${isOther && html`<span class="note" title=${fingerprint}>${t("files.other")}</span>`}</th>
    <td><span class="state ${PLACES[state]}" title=${t(`state.${PLACES[state]}.long`)}><${Icon} name=${PLACES[state]} />${t(WORDS[state] ?? `state.${PLACES[state]}`)}</span></td>
    <td class="figure">${bytes(slot.own_bytes)}</td>
    <td class="figure wide-only">${slot.shared_bytes ? bytes(slot.shared_bytes) : "–"}</td>
    <td class="figure wide-only">${count(slot.tokens)}</td>
    <td class="when">${ago(Date.now() / 1000 - slot.age_secs)}</td>
    <td class="when wide-only">${ago(slot.created_at)}</td>
    <td><${Select} value=${slot.class} options=${classNames()} disabled=${isOpen} title=${t(isOpen ? "files.open" : "class.about")} aria-label=${t("files.class.of", { name })} onChange=${(_, select) => setClass(slot, select)} /></td>
    <td><${Menu} label=${t("chat.menu.of", { title: name })} items=${[
      { icon: "check", label: t("files.verify.one"), act: onVerify },
      { icon: "trash", label: t("files.remove"), act: () => remove(slot, isOpen), danger: true },
    ]} /></td></tr>`;
}

async function setClass({ conversation, fingerprint, class: before }, select) {
  const done = await told(api.post("/v1/slots/class", { conversation, fingerprint, class: select.value }));
  if (!done || done.skipped.length) select.value = before;
  if (done?.skipped.length) say(t("files.skipped", done.skipped[0]));
  await refresh();
}

async function remove({ conversation, fingerprint, name }, isOpen) {
  if (isOpen) return say(t("files.open"));
  if (!(await ask({ title: t("files.remove.title", { name }), text: t("files.remove.text"), yes: t("files.remove"), danger: true }))) return;
  const done = await told(api.post("/v1/slots/remove", { conversations: [conversation], fingerprint }));
  if (done) say(done.skipped.length ? t("files.skipped", done.skipped[0]) : t("files.freed", { bytes: done.freed_bytes }));
  await refresh();
}
