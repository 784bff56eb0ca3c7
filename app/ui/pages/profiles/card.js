import { classes, html, t, useRef, useState } from "/lib.js";
import { Button, Icon, IconButton, Select } from "/parts.js";
import { isDefaultKey, LAYERS, markedParts, toolsIn } from "./draft.js";

const MAX_KEY_LETTERS = 100;

export function Card(props) {
  const { segment, figures, at, over, inTail, problem, set, moveToTail, drag } = props;
  const { stable, source, content, editable } = segment;
  const frame = useRef();
  const [draggable, setDraggable] = useState(false);
  const volatile = volatileIn(segment, figures);
  const tools = source === "tools" && content !== null ? toolsIn(content) : null;
  return html`
    <article
      ref=${frame}
      class=${classes("card stack segment", !stable && "changing", over && "over")}
      draggable=${draggable}
      onDragStart=${drag.start}
      onDragEnd=${() => setDraggable(false)}
      onDragOver=${drag.over}
      aria-label=${t("profile.segment", { number: at + 1 })}
      data-test="segment"
    >
      <${Head} ...${props} frame=${frame} setDraggable=${setDraggable} />
      ${source === "file" && html`<${FilePath} segment=${segment} set=${set} />`}
      ${!editable && html`<p class="note">${t("profile.elsewhere")}</p>`}
      <${Content} segment=${segment} at=${at} marks=${volatile} set=${set} />
      ${tools?.problem && html`
        <p class="error" role="status">${t(tools.problem)} ${tools.detail}</p>`}
      ${problem && !tools?.problem && html`
        <p class=${problem.isMild ? "note" : "error"} role="status">${problem.message}</p>`}
      ${volatile.length > 0 && html`
        <${Advice} text=${content.trim()} marks=${volatile} moveToTail=${moveToTail} />`}
      ${stable && inTail && html`<p class="note">${t("profile.in-tail")}</p>`}
      <${Figures} figures=${figures} names=${tools?.names} />
      <${Details} segment=${segment} set=${set} />
    </article>`;
}

/** What looks like a time, a date or an id, in a text that the daemon has checked. */
function volatileIn({ content }, figures) {
  const isChecked = content !== null && figures?.content === content.trim();
  return (isChecked && figures.volatile) || [];
}

function Head({ segment, at, last, move, remove, frame, setDraggable }) {
  // The card has moved, and with it the button: the focus follows.
  const step = (by) => (event) => {
    const { test } = event.currentTarget.dataset;
    move(at + by);
    requestAnimationFrame(() => {
      const find = (name) => frame.current?.querySelector(`[data-test=${name}]:not(:disabled)`);
      const button = find(test) ?? find(by < 0 ? "down" : "up");
      button?.focus();
    });
  };
  const isTools = segment.source === "tools";
  return html`
    <div class="row segment-head">
      <span
        class="grip"
        title=${t("profile.drag")}
        onPointerDown=${() => setDraggable(true)}
        onPointerUp=${() => setDraggable(false)}
        aria-hidden="true"
      >
        <${Icon} name="profiles" small />
      </span>
      <strong class="grow">
        ${isTools ? t("profile.tools.part") : t("profile.segment", { number: at + 1 })}
      </strong>
      <span class="segment-buttons">
        <${IconButton}
          icon="up"
          small
          label=${t("profile.up")}
          disabled=${at === 0}
          onClick=${step(-1)}
          data-test="up"
        />
        <${IconButton}
          icon="down"
          small
          label=${t("profile.down")}
          disabled=${at === last}
          onClick=${step(1)}
          data-test="down"
        />
        <${IconButton}
          icon="trash"
          small
          label=${t("profile.remove")}
          onClick=${remove}
          data-test="remove"
        />
      </span>
    </div>`;
}

/** What only some need: where the part belongs, its key, and whether it stays the same. */
function Details({ segment, set }) {
  const { layer, key, stable, source } = segment;
  return html`
    <details class="fold-plain" data-test="segment-details">
      <summary>${t("profile.details")}</summary>
      <div class="row">
        <${Select}
          value=${layer}
          options=${LAYERS.map((name) => [name, t(`part.${name}`)])}
          aria-label=${t("profile.layer")}
          onChange=${(layer) => set({ layer })}
        />
        <input
          class="input key"
          value=${isDefaultKey(key) ? "" : key}
          placeholder=${key ?? t("profile.key")}
          aria-label=${t("profile.key")}
          maxlength=${MAX_KEY_LETTERS}
          onInput=${(event) => set({ key: event.target.value || null })}
        />
        ${source !== "tools" && html`
          <label class="row note stays">
            <input
              type="checkbox"
              checked=${stable}
              onChange=${(event) => set({ stable: event.target.checked })}
              data-test="stable"
            />
            ${t("profile.stable")}
          </label>`}
      </div>
      ${source === "tools" && html`<${FilePath} segment=${segment} set=${set} />`}
    </details>`;
}

function FilePath({ segment, set }) {
  const { path, source, was } = segment;
  return html`
    <label class="row file note">
      <${Icon} name="link" small />${t("profile.file")}
      <input
        class="input"
        value=${path ?? ""}
        readonly=${was !== null}
        placeholder=${source === "tools" ? t("profile.file.own") : "rules.md"}
        onInput=${(event) => set({ path: event.target.value || null })}
      />
    </label>`;
}

function Content({ segment, at, marks, set }) {
  const { content, editable, source } = segment;
  if (content === null && editable) {
    return html`
      <p class="row error">
        <span class="grow">${t("profile.missing")}</span>
        <${Button} onClick=${() => set({ content: "" })}>${t("profile.write")}<//>
      </p>`;
  }
  return html`
    <${Field}
      text=${content ?? ""}
      marks=${marks}
      mono=${source === "tools"}
      readonly=${!editable}
      label=${t("profile.text", { number: at + 1 })}
      onInput=${(text) => set({ content: text })}
    />`;
}

/** A text area as high as its text. The marks are drawn by a copy of the text below it. */
function Field({ text, marks, mono, readonly, label, onInput }) {
  return html`
    <div class=${classes("marked", mono && "mono")}>
      <div aria-hidden="true" dir="auto">
        ${markedParts(text, marks).map(([part, isMarked]) =>
          isMarked ? html`<mark>${part}</mark>` : part,
        )}
        ${"\n"}
      </div>
      <textarea
        class="input"
        rows="1"
        dir="auto"
        value=${text}
        readonly=${readonly}
        aria-label=${label}
        spellcheck=${!mono}
        onInput=${(event) => onInput(event.target.value)}
        data-test="content"
      ></textarea>
    </div>`;
}

function Advice({ text, marks, moveToTail }) {
  const quoted = ({ start, end }) => t("volatile.quoted", { text: text.slice(start, end) });
  const words = marks.map(quoted).join(", ");
  return html`
    <div class="advice" data-test="volatile">
      <${Icon} name="warning" small />
      <span class="grow">
        <strong>${words}</strong> ${t(`volatile.${marks[0].kind}`)} ${t("volatile.costs")}
      </span>
      <${Button} onClick=${moveToTail} data-test="behind">${t("profile.behind")}<//>
    </div>`;
}

function Figures({ figures, names }) {
  return html`
    <p class="note figure row segment-figures">
      ${figures && html`
        <span>
          ${t("profile.figures", { n: figures.tokens, bytes: figures.kv_bytes ?? 0 })}
        </span>`}
      ${figures?.in_prefix && html`<${InPrefix} isWarm=${figures.warm} />`}
      ${names && html`
        <span>${t("profile.tools", { n: names.length, names: names.join(", ") })}</span>`}
    </p>`;
}

function InPrefix({ isWarm }) {
  return html`
    <span class=${classes("state", isWarm ? "hot" : "none")}>
      <${Icon} name=${isWarm ? "check" : "again"} />
      ${t(isWarm ? "profile.warm" : "profile.computed")}
    </span>`;
}
