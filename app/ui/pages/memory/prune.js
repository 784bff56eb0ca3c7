// What is to go, by criteria of which all hold; what that frees is told before anything is done.

import { api, bytes, html, isCancelled, t, useEffect, useState, useStore } from "/lib.js";
import { Button, Dialog, say, Select } from "/parts.js";
import { status } from "/chat/chats.js";
import { refresh } from "./live.js";
import { classNames, keptName, reading } from "./words.js";

const WAIT_MS = 250;
const SHOWN = 6;
const UNITS = { hours: 3600, days: 86_400, weeks: 7 * 86_400 };

export function Prune({ titles, onClose }) {
  const [wanted, setWanted] = useState({ expired: true, isOlder: false, older: 7, unit: "days", class: "", isLarger: false, larger: 16, isOwn: false });
  const [plan, setPlan] = useState(null);
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const own = useStore(status, ({ now }) => now?.fingerprint);
  const body = asked(wanted, own);
  const isChosen = body.expired || Object.keys(body).length > 1;
  useEffect(() => {
    setPlan(null);
    if (!isChosen) return;
    const stopped = new AbortController();
    const timer = setTimeout(() => api.post("/v1/slots/prune", { ...body, dry_run: true }, { signal: stopped.signal }).then(
      (plan) => (setPlan(plan), setError(null)),
      (error) => isCancelled(error) || setError(error),
    ), WAIT_MS);
    return () => (clearTimeout(timer), stopped.abort());
  }, [JSON.stringify(body)]);
  const set = (name, value) => setWanted({ ...wanted, [name]: value });
  const check = (name, test) => html`<input type="checkbox" checked=${wanted[name]} onChange=${(event) => set(name, event.target.checked)} data-test=${test} />`;
  const number = (name, on, label) => html`<input class="input figure narrow" type="number" min="1" max="100000" value=${wanted[name]} aria-label=${label}
    onInput=${(event) => setWanted({ ...wanted, [name]: Number(event.target.value), [on]: true })} />`;
  const prune = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const { freed_bytes } = await api.post("/v1/slots/prune", { ...body, dry_run: false });
      say(t("files.freed", { bytes: freed_bytes }));
      onClose();
      await refresh();
    } catch (error) {
      setError(error);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${t("prune.title")} onClose=${onClose} test="prune-dialog"><form class="stack" onSubmit=${prune}>
    <p class="note">${t("prune.text")}</p>
    <fieldset class="stack criteria"><legend class="label">${t("prune.criteria")}</legend>
      <label class="row">${check("expired", "prune-expired")}<span>${t("prune.expired")}</span></label>
      <div class="row"><label class="row">${check("isOlder", "prune-older")}<span>${t("prune.older")}</span></label>${number("older", "isOlder", t("prune.older"))}
        <${Select} aria-label=${t("prune.unit")} value=${wanted.unit} options=${Object.keys(UNITS).map((unit) => [unit, t(`prune.${unit}`)])} onChange=${(unit) => set("unit", unit)} /></div>
      <div class="row"><label class="row">${check("isLarger")}<span>${t("prune.larger")}</span></label>${number("larger", "isLarger", t("prune.larger"))}<span>MiB</span></div>
      <label class="row"><span>${t("prune.class")}</span><${Select} value=${wanted.class} options=${[["", t("prune.any")], ...classNames()]} onChange=${(name) => set("class", name)} /></label>
      ${own && html`<label class="row">${check("isOwn", "prune-own")}<span>${t("prune.own")}</span></label>`}
    </fieldset>
    <div class="preview" role="status" data-test="prune-preview">${error ? html`<p class="error">${error.message}</p>` : !isChosen ? html`<p class="note">${t("prune.choose")}</p>` : plan ? html`<${Plan} plan=${plan} titles=${titles} />` : reading()}</div>
    <div class="actions"><${Button} onClick=${onClose}>${t("cancel")}<//>
      <button class="button danger" disabled=${isBusy || !plan || !(plan.slots.length || plan.freed_bytes)} data-test="prune-do">${t("prune.do")}</button></div>
  </form><//>`;
}

function Plan({ plan, titles }) {
  const { slots, skipped, freed_bytes } = plan;
  return html`<p><strong>${slots.length || freed_bytes ? t("prune.frees", { n: slots.length, bytes: freed_bytes }) : t("prune.nothing")}</strong></p>
    ${slots.length > 0 && html`<ul>${slots.slice(0, SHOWN).map(({ conversation, own_bytes }) => html`<li class="row apart"><span class="clip">${keptName(conversation, titles)}</span><span class="figure note">${bytes(own_bytes)}</span></li>`)}
      ${slots.length > SHOWN && html`<li class="note">${t("prune.others", { n: slots.length - SHOWN })}</li>`}</ul>`}
    ${skipped.length > 0 && html`<p class="note">${t("prune.skipped", { n: skipped.length })}</p>`}`;
}

function asked({ expired, isOlder, older, unit, class: name, isLarger, larger, isOwn }, own) {
  return {
    expired,
    ...(isOlder && { older_than_secs: Math.max(1, Math.round(older * UNITS[unit])) }),
    ...(name && { class: name }),
    ...(isLarger && { larger_than: Math.max(1, Math.round(larger * 2 ** 20)) }),
    ...(isOwn && { fingerprint: own }),
  };
}
