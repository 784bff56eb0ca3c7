// One segment of a profile.

import { classes, html, t, useRef, useState } from "/lib.js";
import { Button, Icon, IconButton, Select } from "/parts.js";
import { LAYERS, isDefault, toolsIn } from "./draft.js";

export function Card({ segment, figures, at, last, inTail, over, problem, set, move, behind, remove, drag }) {
  const frame = useRef();
  const [draggable, setDraggable] = useState(false);
  const { layer, key, stable, source, path, content, editable } = segment;
  const number = at + 1;
  // The pressed button stays under the finger: focus follows the card.
  const step = (by) => (event) => {
    const test = event.currentTarget.dataset.test;
    move(at + by);
    requestAnimationFrame(() => {
      const button = (name) => frame.current?.querySelector(`[data-test=${name}]:not(:disabled)`);
      (button(test) ?? button(by < 0 ? "down" : "up"))?.focus();
    });
  };
  const volatile = (content !== null && figures?.content === content.trim() && figures.volatile) || [];
  const tools = source === "tools" && content !== null ? toolsIn(content) : null;
  return html`<article ref=${frame} class=${classes("card stack segment", !stable && "changing", over && "over")} draggable=${draggable} onDragStart=${drag.start} onDragOver=${drag.over}
    aria-label=${t("profile.segment", { number })} data-test="segment">
    <div class="row segment-head">
      <span class="grip" title=${t("profile.drag")} onPointerDown=${() => setDraggable(true)} onPointerUp=${() => setDraggable(false)} aria-hidden="true"><${Icon} name="profiles" small /></span>
      <${Select} value=${layer} options=${LAYERS.map((name) => [name, t(`part.${name}`)])} aria-label=${t("profile.layer")} onChange=${(layer) => set({ layer })} />
      <input class="input key" value=${isDefault(key) ? "" : key} placeholder=${key ?? t("profile.key")} aria-label=${t("profile.key")} maxlength="100" onInput=${(event) => set({ key: event.target.value || null })} />
      ${source !== "tools" && html`<label class="row note stays"><input type="checkbox" checked=${stable} onChange=${(event) => set({ stable: event.target.checked })} data-test="stable" />${t("profile.stable")}</label>`}
      <span class="segment-buttons">
        <${IconButton} icon="up" small label=${t("profile.up")} disabled=${at === 0} onClick=${step(-1)} data-test="up" />
        <${IconButton} icon="down" small label=${t("profile.down")} disabled=${at === last} onClick=${step(1)} data-test="down" />
        <${IconButton} icon="trash" small label=${t("profile.remove")} onClick=${remove} data-test="remove" />
      </span>
    </div>
    ${source !== "text" && html`<label class="row file note"><${Icon} name="link" small />${t("profile.file")}
      <input class="input" value=${path ?? ""} readonly=${segment.was !== null} placeholder=${source === "tools" ? t("profile.file.own") : "rules.md"} onInput=${(event) => set({ path: event.target.value || null })} /></label>`}
    ${!editable && html`<p class="note">${t("profile.elsewhere")}</p>`}
    ${content === null && editable
      ? html`<p class="row error"><span class="grow">${t("profile.missing")}</span><${Button} onClick=${() => set({ content: "" })}>${t("profile.write")}<//></p>`
      : html`<${Field} text=${content ?? ""} marks=${volatile} mono=${source === "tools"} readonly=${!editable} label=${t("profile.text", { number })} onInput=${(text) => set({ content: text })} />`}
    ${tools?.problem && html`<p class="error" role="status">${t(tools.problem)} ${tools.detail}</p>`}
    ${problem && !tools?.problem && html`<p class=${problem.isMild ? "note" : "error"} role="status">${problem.message}</p>`}
    ${volatile.length > 0 && html`<div class="advice" data-test="volatile"><${Icon} name="warning" small /><span class="grow">${advice(content.trim(), volatile)}</span>
      <${Button} onClick=${behind} data-test="behind">${t("profile.behind")}<//></div>`}
    ${stable && inTail && html`<p class="note">${t("profile.in-tail")}</p>`}
    <p class="note figure row segment-figures">${figures && html`<span>${t("profile.figures", { n: figures.tokens, bytes: figures.kv_bytes ?? 0 })}</span>
      ${figures.in_prefix && html`<span class=${classes("state", figures.warm ? "hot" : "none")}><${Icon} name=${figures.warm ? "check" : "again"} />${t(figures.warm ? "profile.warm" : "profile.computed")}</span>`}`}
      ${tools?.names && html`<span>${t("profile.tools", { n: tools.names.length, names: tools.names.join(", ") })}</span>`}</p>
  </article>`;
}

function advice(text, marks) {
  const [{ kind }] = marks;
  const words = marks.map(({ start, end }) => text.slice(start, end)).join("”, “");
  return html`<strong>“${words}”</strong> ${t(`volatile.${kind}`)} ${t("volatile.costs")}`;
}

/** A field that is as high as its text, in which words are marked. */
function Field({ text, marks, mono, readonly, label, onInput }) {
  const parts = [];
  const front = text.length - text.trimStart().length;
  let at = 0;
  for (const { start, end } of marks) {
    parts.push(text.slice(at, front + start), html`<mark>${text.slice(front + start, front + end)}</mark>`);
    at = front + end;
  }
  parts.push(text.slice(at));
  return html`<div class=${classes("marked", mono && "mono")}>
    <div aria-hidden="true">${parts}${"\n"}</div>
    <textarea class="input" rows="1" value=${text} readonly=${readonly} aria-label=${label} spellcheck=${!mono} onInput=${(event) => onInput(event.target.value)} data-test="content"></textarea>
  </div>`;
}
