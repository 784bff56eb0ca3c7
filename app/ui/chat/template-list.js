// The list of templates above the composer, while a message begins with "/". Loaded then.

import { classes, html, t, useEffect, useState, useStore } from "/lib.js";
import { Button, Dialog, Icon, IconButton, orToast } from "/parts.js";
import { loadTemplates, matching, resetTemplates, saveTemplates, templates } from "./templates.js";

/** `keys.current` gets the function that handles the composer's keys: true when it did. */
export function TemplateList({ words, keys, onPick, onClose }) {
  const all = useStore(templates, ({ all }) => all);
  const [chosen, setChosen] = useState(0);
  const [isEditing, setEditing] = useState(false);
  useEffect(() => {
    orToast(loadTemplates());
  }, []);
  useEffect(() => setChosen(0), [words]);
  const found = matching(all ?? [], words);
  // The last one opens the editor.
  const count = found.length + 1;
  // Those that are not read yet cannot be edited.
  const pick = (index) => (index < found.length ? onPick(found[index].text) : setEditing(Boolean(all)));
  keys.current = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setChosen((chosen + step + count) % count);
    else if (event.key === "Escape") onClose();
    else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey && found.length) pick(chosen);
    else return false;
    return true;
  };
  useEffect(() => {
    const field = document.querySelector("[aria-controls=templates]");
    document.getElementById(`template-${chosen}`)?.scrollIntoView({ block: "nearest" });
    // The focus stays in the field: a screen reader learns from there which one is chosen.
    field?.setAttribute("aria-activedescendant", `template-${chosen}`);
    return () => field?.removeAttribute("aria-activedescendant");
  }, [chosen]);
  // Not at each change: the drawing before has set it already.
  useEffect(() => () => {
    keys.current = null;
  }, []);
  if (isEditing) {
    return html`<${Editor} onClose=${() => onPick("")} />`;
  }
  const option = (index, name, content) => html`
    <div
      id=${`template-${index}`}
      key=${name}
      role="option"
      class=${classes("template", index === chosen && "chosen")}
      aria-selected=${index === chosen}
      onMouseDown=${(event) => event.preventDefault()}
      onMouseMove=${() => index !== chosen && setChosen(index)}
      onClick=${() => pick(index)}
      data-test=${index < found.length ? "template" : "edit-templates"}
    >
      ${content}
    </div>`;
  return html`
    <div class="templates" role="listbox" id="templates" aria-label=${t("templates")} data-test="templates">
      ${found.map(({ name, text }, index) => option(index, name, html`
        <span dir="auto">${name}</span><span class="note clip" dir="auto">${text}</span>`))}
      ${option(found.length, "", html`<${Icon} name="edit" small /><span>${t("templates.edit")}</span>`)}
    </div>`;
}

function Editor({ onClose }) {
  const { all, isSet } = useStore(templates);
  const [list, setList] = useState(all);
  const [problem, setProblem] = useState(null);
  const change = (index, fields) => setList(list.map((it, at) => (at === index ? { ...it, ...fields } : it)));
  const done = async (saved) => {
    if ((await orToast(saved.then(() => true), setProblem)) === true) onClose();
  };
  const save = (event) => {
    event.preventDefault();
    done(saveTemplates(list.filter(({ name, text }) => name.trim() || text.trim())));
  };
  return html`
    <${Dialog} title=${t("templates")} wide edits onClose=${onClose} test="template-editor">
      <form class="stack" onSubmit=${save}>
        <p class="note">${t("templates.long")}</p>
        ${list.map(({ name, text }, index) => html`
          <fieldset class="template-fields" key=${index} aria-label=${name}>
            <input
              class="input"
              dir="auto"
              required
              maxlength="60"
              value=${name}
              aria-label=${t("templates.name")}
              placeholder=${t("templates.name")}
              onInput=${({ target }) => change(index, { name: target.value })}
            />
            <${IconButton}
              icon="trash"
              label=${t("templates.delete", { name })}
              onClick=${() => setList(list.filter((_, at) => at !== index))}
            />
            <textarea
              class="input"
              dir="auto"
              rows="2"
              required
              value=${text}
              aria-label=${t("templates.text")}
              placeholder=${t("templates.text")}
              onInput=${({ target }) => change(index, { text: target.value })}
            ></textarea>
          </fieldset>`)}
        <div class="row">
          <${Button}
            icon="plus"
            onClick=${() => setList([...list, { name: "", text: "" }])}
            data-test="new-template"
          >
            ${t("templates.new")}
          <//>
          ${isSet && html`<${Button} onClick=${() => done(resetTemplates())}>${t("templates.reset")}<//>`}
        </div>
        ${problem && html`<p class="error" role="alert">${problem}</p>`}
        <div class="actions">
          <${Button} onClick=${onClose}>${t("cancel")}<//>
          <button class="button primary" data-test="save-templates">${t("save")}</button>
        </div>
      </form>
    <//>`;
}
