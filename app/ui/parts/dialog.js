// Dialogs: the browser's own, so focus stays in them, Escape closes them and what is behind is inert.

import { classes, createStore, html, t, useLayoutEffect, useRef, useStore } from "/lib.js";
import { Button } from "./button.js";

/** A dialog that is open while it is shown. `toRead`: there is nothing to do in it but to close it. */
export function Dialog({ title, wide, toRead, onClose, children, test }) {
  const element = useRef();
  useLayoutEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog.showModal();
    return () => {
      dialog.close();
      before?.focus?.();
    };
  }, []);
  const outside = (event) => event.target === element.current && onClose();
  const cancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${element} class=${classes(wide && "wide")} aria-label=${title} data-test=${test} onMouseDown=${outside} onCancel=${cancel}>
    <div class="stack dialog"><h2>${title}</h2>${children}
      ${toRead && html`<div class="actions"><${Button} onClick=${onClose}>${t("close")}<//></div>`}</div>
  </dialog>`;
}

const asked = createStore({ question: null });

/** Asks before something is done: `if (await ask({ title, text, yes, danger })) …`. */
export function ask(question) {
  return new Promise((resolve) => asked.set({ question: { ...question, resolve } }));
}

/** Asks for one line of text; null when nobody gives it. */
export function askText(question) {
  return ask({ ...question, input: question.value ?? "" });
}

/** Where questions are shown; the app has one. */
export function Questions() {
  const question = useStore(asked, ({ question }) => question);
  return question && html`<${Question} key=${question.title} question=${question} />`;
}

function Question({ question }) {
  const { title, text, yes, danger, input, label, resolve } = question;
  const field = useRef();
  useLayoutEffect(() => field.current?.select(), []);
  const answer = (value) => {
    asked.set({ question: null });
    resolve(value);
  };
  const agree = (event) => {
    event.preventDefault();
    if (input === undefined) answer(true);
    else if (field.current.value.trim()) answer(field.current.value.trim());
  };
  const decline = () => answer(input === undefined ? false : null);
  return html`<${Dialog} title=${title} onClose=${decline} test="question">
    <form class="stack" onSubmit=${agree}>
      ${text && html`<p>${text}</p>`}
      ${input !== undefined && html`<label class="field"><span>${label}</span><input class="input" ref=${field} defaultValue=${input} maxlength="200" /></label>`}
      <div class="actions">
        <${Button} onClick=${decline}>${t("cancel")}<//>
        <button class=${classes("button", danger ? "danger" : "primary")} data-test="yes">${yes}</button>
      </div>
    </form>
  <//>`;
}
