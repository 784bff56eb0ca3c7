// The prune dialog: criteria, and a preview of what they free before anything is deleted.

import { api, bytes, html, isCancelled, t, useEffect, useState, useStore } from "/lib.js";
import { Button, Dialog, Select, toast } from "/parts.js";
import { status } from "/chat/chats.js";
import { keepOptions } from "./keeping.js";
import { refresh } from "./live.js";
import { initial, isChosen, selection, UNIT_SECS } from "./selection.js";
import { loadingNote, savedName } from "./words.js";

const PREVIEW_AFTER_MS = 250;
const MAX_LISTED = 6;
const MAX_NUMBER = 100_000;

export function Prune({ titles, lifetimes, onClose }) {
  const [fields, setFields] = useState(initial);
  const [isBusy, setBusy] = useState(false);
  const fingerprint = useStore(status, ({ now }) => now?.fingerprint);
  const body = selection(fields, fingerprint);
  const { plan, error, setError } = usePlan(body);
  const prune = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const { freed_bytes } = await api.post("/v1/slots/prune", { ...body, dry_run: false });
      toast(t("files.freed", { bytes: freed_bytes }));
      onClose();
      await refresh();
    } catch (error) {
      setError(error);
      setBusy(false);
    }
  };
  const isUseful = plan && (plan.slots.length > 0 || plan.freed_bytes > 0);
  return html`
    <${Dialog} title=${t("prune.title")} onClose=${onClose} test="prune-dialog">
      <form class="stack" onSubmit=${prune}>
        <p class="note">${t("prune.text")}</p>
        <${Criteria}
          fields=${fields}
          set=${(changed) => setFields({ ...fields, ...changed })}
          hasModel=${Boolean(fingerprint)}
          lifetimes=${lifetimes}
        />
        <div class="preview" role="status" data-test="prune-preview">
          <${Preview} body=${body} plan=${plan} error=${error} titles=${titles} />
        </div>
        <div class="actions">
          <${Button} onClick=${onClose}>${t("cancel")}<//>
          <button class="button danger" disabled=${isBusy || !isUseful} data-test="prune-do">
            ${t("prune.do")}
          </button>
        </div>
      </form>
    <//>`;
}

/** A dry run of the selection, shortly after it has changed. */
function usePlan(body) {
  const [plan, setPlan] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    setPlan(null);
    if (!isChosen(body)) return;
    const abort = new AbortController();
    const { signal } = abort;
    const timer = setTimeout(async () => {
      try {
        setPlan(await api.post("/v1/slots/prune", { ...body, dry_run: true }, { signal }));
        setError(null);
      } catch (error) {
        if (!isCancelled(error)) setError(error);
      }
    }, PREVIEW_AFTER_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [JSON.stringify(body)]);
  return { plan, error, setError };
}

function Criteria({ fields, set, hasModel, lifetimes }) {
  const checkbox = (name, test) => html`
    <input
      type="checkbox"
      checked=${fields[name]}
      onChange=${(event) => set({ [name]: event.target.checked })}
      data-test=${test}
    />`;
  // A number that is entered switches its criterion on.
  const number = (name, isOn, label) => html`
    <input
      class="input figure narrow"
      type="number"
      min="1"
      max=${MAX_NUMBER}
      value=${fields[name]}
      aria-label=${label}
      onInput=${(event) => set({ [name]: Number(event.target.value), [isOn]: true })}
    />`;
  const units = Object.keys(UNIT_SECS).map((unit) => [unit, t(`prune.${unit}`)]);
  const classes = [["", t("prune.any")], ...keepOptions(lifetimes)];
  return html`
    <fieldset class="stack criteria">
      <legend class="label">${t("prune.criteria")}</legend>
      <label class="row">
        ${checkbox("expired", "prune-expired")}<span>${t("prune.expired")}</span>
      </label>
      <div class="row">
        <label class="row">
          ${checkbox("isOlder", "prune-older")}<span>${t("prune.older")}</span>
        </label>
        ${number("older", "isOlder", t("prune.older"))}
        <${Select}
          aria-label=${t("prune.unit")}
          value=${fields.unit}
          options=${units}
          onChange=${(unit) => set({ unit })}
        />
      </div>
      <div class="row">
        <label class="row">${checkbox("isLarger")}<span>${t("prune.larger")}</span></label>
        ${number("larger", "isLarger", t("prune.larger"))}<span>MiB</span>
      </div>
      <label class="row">
        <span>${t("prune.class")}</span>
        <${Select}
          value=${fields.class}
          options=${classes}
          onChange=${(name) => set({ class: name })}
        />
      </label>
      ${hasModel && html`
        <label class="row">
          ${checkbox("isOwn", "prune-own")}<span>${t("prune.own")}</span>
        </label>`}
    </fieldset>`;
}

function Preview({ body, plan, error, titles }) {
  if (error) return html`<p class="error">${error.message}</p>`;
  if (!isChosen(body)) return html`<p class="note">${t("prune.choose")}</p>`;
  if (!plan) return loadingNote();
  return html`<${Plan} plan=${plan} titles=${titles} />`;
}

function Plan({ plan, titles }) {
  const { slots, skipped, freed_bytes: freed } = plan;
  const summary = { n: slots.length, bytes: freed };
  const more = slots.length - MAX_LISTED;
  return html`
    <p>
      <strong>${slots.length || freed ? t("prune.frees", summary) : t("prune.nothing")}</strong>
    </p>
    ${slots.length > 0 && html`
      <ul>
        ${slots.slice(0, MAX_LISTED).map(({ conversation, own_bytes }) => html`
          <li class="row apart">
            <span class="clip" dir="auto">${savedName(conversation, titles)}</span>
            <span class="figure note">${bytes(own_bytes)}</span>
          </li>`)}
        ${more > 0 && html`<li class="note">${t("prune.others", { n: more })}</li>`}
      </ul>`}
    ${skipped.length > 0 && html`
      <p class="note">${t("prune.skipped", { n: skipped.length })}</p>`}`;
}
