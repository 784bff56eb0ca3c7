// Dialogs: the browser's element keeps the focus inside and makes the page behind it inert.

import { classes, createStore, html, t, useLayoutEffect, useRef, useState, useStore } from "/lib.js";
import { Button } from "./button.js";

const MAX_LINE_LETTERS = 200;

/** Open while it is rendered. `toRead`: its only action is to close it. `edits`: a press beside it does not close it,
    because what was written would be lost. */
export function Dialog({ title, wide, toRead, edits, onClose, children, test }) {
  const element = useRef();
  useLayoutEffect(() => {
    const dialog = element.current;
    const focusedBefore = document.activeElement;
    dialog.showModal();
    return () => {
      dialog.close();
      focusedBefore?.focus?.();
    };
  }, []);
  const closeOnBackdrop = ({ target, clientX: x, clientY: y }) => {
    const { left, right, top, bottom } = element.current.getBoundingClientRect();
    // The scroll bar of a long dialog is the same element, within its edges.
    const isBeside = target === element.current && (x < left || x > right || y < top || y > bottom);
    if (isBeside && !edits) onClose();
  };
  const cancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`
    <dialog
      ref=${element}
      class=${classes(wide && "wide")}
      aria-label=${title}
      data-test=${test}
      onMouseDown=${closeOnBackdrop}
      onCancel=${cancel}
    >
      <div class="stack dialog">
        <h2>${title}</h2>
        ${children}
        ${toRead && html`<div class="actions"><${Button} onClick=${onClose}>${t("close")}<//></div>`}
      </div>
    </dialog>`;
}

const pending = createStore({ question: null });

/** Asks before an action: `if (await ask({ title, text, yes, danger })) …`. */
export function ask(question) {
  return new Promise((resolve) => pending.set({ question: { ...question, resolve } }));
}

/** Says what went wrong or is to be known; its only button closes it. */
export function tell(message) {
  return ask({ ...message, isToRead: true });
}

/** Asks for a line of text; null when the user cancels. `check(line)`: why it cannot be that, or null. */
export function askText(question) {
  return ask({ ...question, input: question.value ?? "" });
}

export function Questions() {
  const question = useStore(pending, ({ question }) => question);
  return question && html`<${Question} key=${question.title} question=${question} />`;
}

function Question({ question }) {
  const { title, text, yes, danger, input, label, isToRead, check, resolve } = question;
  const [problem, setProblem] = useState(null);
  const field = useRef();
  useLayoutEffect(() => field.current?.select(), []);
  const answer = (value) => {
    pending.set({ question: null });
    resolve(value);
  };
  const agree = (event) => {
    event.preventDefault();
    if (input === undefined) return answer(true);
    const line = field.current.value.trim();
    const wrong = check?.(line) ?? null;
    setProblem(wrong);
    if (line && !wrong) answer(line);
    else field.current.focus();
  };
  const decline = () => answer(input === undefined ? false : null);
  return html`
    <${Dialog} title=${title} edits=${input !== undefined} onClose=${decline} test="question">
      <form class="stack" onSubmit=${agree}>
        ${text && html`<p>${text}</p>`}
        ${input !== undefined && html`
          <label class="field">
            <span>${label}</span>
            <input
              class="input"
              dir="auto"
              ref=${field}
              defaultValue=${input}
              maxlength=${MAX_LINE_LETTERS}
              aria-invalid=${problem ? "true" : null}
            />
          </label>`}
        ${problem && html`<p class="error" role="alert" data-test="question-problem">${problem}</p>`}
        <div class="actions">
          ${!isToRead && html`<${Button} onClick=${decline}>${t("cancel")}<//>`}
          <button class=${classes("button", danger ? "danger" : "primary")} data-test="yes">
            ${yes ?? t("close")}
          </button>
        </div>
      </form>
    <//>`;
}
