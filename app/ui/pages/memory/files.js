// Your chats: the table of those whose KV is saved, and its actions.

import { address, ago, api, bytes, classes, count, html, t, useMemo, useState, useStore } from "/lib.js";
import { ask, Button, Icon, Menu, orToast, Select, toast, useNextFocus } from "/parts.js";
import { chats, status } from "/chat/chats.js";
import { Budget } from "./budget.js";
import { ahead, asked, classOf, keepOptions, setClass } from "./keeping.js";
import { refresh } from "./live.js";
import { Prune } from "./prune.js";
import { COLUMNS, rowOf, sorted, TIERS } from "./rows.js";
import { Verify } from "./verify.js";
import { loadingNote, savedName } from "./words.js";

const PAGE_ROWS = 50;

/** States that have a more precise name than their tier. */
const STATE_NAMES = { open: "files.speaking", expired: "files.expired" };

/** `slots`: saved conversations; undefined until read, null where none can be saved. `isDetailed`: what the engine counts. */
export function Files({ slots, disk, isDetailed }) {
  useNextFocus(() => document.querySelector("[data-test=memory-files] tbody button"));
  const all = useStore(chats, ({ all }) => all);
  const titles = useMemo(() => new Map(all.map(({ id, title }) => [id, title])), [all]);
  const [isPruning, setPruning] = useState(false);
  const [verifying, setVerifying] = useState(null);
  const verify = (body, name) => setVerifying({ body, name, at: performance.now() });
  const saved = slots?.data ?? [];
  return html`
    <section class="card stack" data-test="memory-files">
      <div class="row apart">
        <h2>${t("files.title")}</h2>
        ${slots && html`
          <div class="row">
            <${Button} disabled=${verifying !== null} onClick=${() => verify({})} data-test="verify">
              ${t("files.verify")}
            <//>
            <${Button} disabled=${!saved.length} onClick=${() => setPruning(true)} data-test="prune">
              ${t("files.prune")}
            <//>
          </div>`}
      </div>
      ${verifying && html`
        <${Verify}
          key=${verifying.at}
          ...${verifying}
          titles=${titles}
          onClose=${() => setVerifying(null)}
        />`}
      ${slots === undefined && loadingNote()}
      ${slots === null && html`<p class="note">${t("memory.no-disk")}</p>`}
      ${slots && !saved.length && html`<div class="empty"><p>${t("files.empty")}</p></div>`}
      ${saved.length > 0 && html`
        <p class="note">
          ${t("files.summary", { n: saved.length, bytes: disk?.bytes ?? slots.disk_bytes })}
        </p>
        <${SavedTable}
          saved=${saved}
          lifetimes=${slots.lifetimes}
          titles=${titles}
          verify=${verify}
          isDetailed=${isDetailed}
        />`}
      ${disk && html`<${Budget} disk=${disk} />`}
      ${isPruning && html`
        <${Prune} titles=${titles} lifetimes=${slots.lifetimes} onClose=${() => setPruning(false)} />`}
    </section>`;
}

function SavedTable({ saved, lifetimes, titles, verify, isDetailed }) {
  const [sort, setSort] = useState({ name: "used", down: false });
  const [shown, setShown] = useState(PAGE_ROWS);
  const fingerprint = useStore(status, ({ now }) => now?.fingerprint);
  const rows = useMemo(() => {
    const unsorted = saved.map((one) => rowOf(one, savedName(one.conversation, titles), lifetimes));
    return sorted(unsorted, sort);
  }, [saved, titles, lifetimes, sort]);
  const columns = COLUMNS.filter(({ detail }) => isDetailed || !detail);
  const hidden = rows.length - shown;
  return html`
    <div class="scroll-x">
      <table class="table files">
        <thead>
          <tr>
            ${columns.map((column) => html`
              <${Head} key=${column.name} ...${column} sort=${sort} onSort=${setSort} />`)}
            <th><span class="hidden-text">${t("files.actions")}</span></th>
          </tr>
        </thead>
        <tbody>
          ${rows.slice(0, shown).map((row) => html`
            <${Row}
              key=${`${row.fingerprint} ${row.conversation}`}
              row=${row}
              isOtherModel=${fingerprint && row.fingerprint !== fingerprint}
              isChat=${titles.has(row.conversation)}
              isDetailed=${isDetailed}
              keepOptions=${keepOptions(lifetimes)}
              verify=${verify}
            />`)}
        </tbody>
      </table>
    </div>
    ${hidden > 0 && html`
      <div class="row">
        <${Button} onClick=${() => setShown(shown + 4 * PAGE_ROWS)}>
          ${t("files.more", { n: hidden })}
        <//>
      </div>`}`;
}

function Head({ name, figure, wide, sort, onSort }) {
  const isSorted = sort.name === name;
  const direction = sort.down ? "descending" : "ascending";
  const down = isSorted ? !sort.down : Boolean(figure);
  return html`
    <th
      class=${classes(figure && "figure", wide && "wide-only")}
      aria-sort=${isSorted ? direction : null}
    >
      <button type="button" class="sort" onClick=${() => onSort({ name, down })}>
        ${t(`files.${name}`)}
        ${isSorted && html`<${Icon} name=${sort.down ? "down" : "up"} small />`}
      </button>
    </th>`;
}

function Row({ row, isOtherModel, isChat, isDetailed, keepOptions, verify }) {
  const { conversation, fingerprint, name } = row;
  return html`
    <tr data-test="file" data-conversation=${conversation}>
      <th scope="row" class="clip" dir="auto">
        ${isChat
          ? html`<a href=${address("chat", conversation)} title=${name}>${name}</a>`
          : html`<span title=${name}>${name}</span>`}
        ${isOtherModel && html`
          <span class="note" title=${fingerprint}>${t("files.other")}</span>`}
      </th>
      <td class="wide-only"><${Tier} state=${row.state} /></td>
      <td class="figure">${bytes(row.own_bytes)}</td>
      ${isDetailed && html`
        <td class="figure wide-only">${row.shared_bytes ? bytes(row.shared_bytes) : "–"}</td>
        <td class="figure wide-only">${count(row.tokens)}</td>`}
      <td class="when">${ago(Date.now() / 1000 - row.age_secs)}</td>
      ${isDetailed && html`<td class="when wide-only">${ago(row.created_at)}</td>`}
      <td class="when" data-test="expires"><${Expires} row=${row} /></td>
      <td><${KeepReady} row=${row} options=${keepOptions} /></td>
      <td><${Actions} row=${row} verify=${verify} /></td>
    </tr>`;
}

function Tier({ state }) {
  const tier = TIERS[state];
  return html`
    <span class="state ${tier}" title=${t(`state.${tier}.long`)}>
      <${Icon} name=${tier} />${t(STATE_NAMES[state] ?? `state.${tier}`)}
    </span>`;
}

const isInSlot = ({ state }) => state === "open" || state === "hot";

/** The time counts from the last use, and so does not begin while the chat is in a slot. */
function Expires({ row }) {
  if (row.expiresIn === null) return html`<span title=${t("files.expires.room")}>–</span>`;
  if (row.state === "expired") return t("files.expired");
  return isInSlot(row) ? html`<span title=${t("files.expires.use")}>–</span>` : ahead(row.expiresIn);
}

function KeepReady({ row, options }) {
  const { classes } = useStore(asked);
  return html`
    <${Select}
      value=${classOf(row, classes)}
      options=${options}
      title=${t("keep.about")}
      aria-label=${t("files.class.of", { name: row.name })}
      onChange=${(name) => setClass(row, name)}
    />`;
}

function Actions({ row, verify }) {
  const { conversation, fingerprint, name } = row;
  const items = [
    {
      icon: "check",
      label: t("files.verify.one"),
      act: () => verify({ conversation, fingerprint }, name),
    },
    { icon: "trash", label: t("files.remove"), act: () => remove(row), danger: true },
  ];
  return html`<${Menu} label=${t("chat.menu.of", { title: name })} items=${items} />`;
}

async function remove(row) {
  const { conversation, fingerprint, name } = row;
  if (isInSlot(row)) return toast(t("files.open"));
  const isAgreed = await ask({
    title: t("files.remove.title", { name }),
    text: t("files.remove.text"),
    yes: t("files.remove"),
    danger: true,
  });
  if (!isAgreed) return;
  const body = { conversations: [conversation], fingerprint };
  const done = await orToast(api.post("/v1/slots/remove", body));
  if (done) toast(removeMessage(done));
  await refresh();
}

function removeMessage({ skipped, freed_bytes }) {
  return skipped.length
    ? t("files.skipped", skipped[0])
    : t("files.freed", { bytes: freed_bytes });
}
