// The results of an answer's tool calls, given by hand: a field for each call.

import { html, t, useState, useStore } from "/lib.js";
import { Button, useInPlace } from "/parts.js";

export function ToolResults({ message, conversation }) {
  const calls = message.tool_calls.map((call, index) => ({ id: call.id ?? `call_${index}`, name: call.function.name }));
  const returned = useStore(conversation.store, ({ results }) => results);
  const textOf = ({ id }) => returned.find(({ tool_call_id: of }) => of === id)?.content;
  // until the user opens or closes it: where results are back
  const [opened, setOpen] = useState(null);
  const isOpen = opened ?? calls.some(textOf);
  const frame = useInPlace(isOpen, "button");
  if (!isOpen) {
    return html`
      <div class="row" ref=${frame}>
        <${Button} onClick=${() => setOpen(true)} data-test="give-result">${t("result.give", { n: calls.length })}<//>
      </div>`;
  }
  const send = (event) => {
    event.preventDefault();
    const texts = new FormData(event.currentTarget).getAll("result");
    const results = calls.map(({ id, name }, index) => ({
      role: "tool", tool_call_id: id, name, content: texts[index],
    }));
    conversation.giveResults(message, results);
  };
  return html`
    <form class="stack edit" onSubmit=${send} ref=${frame} data-test="results">
      ${calls.map((call) => html`
        <label class="field" key=${call.id}>
          <span>${t("result.of", call)}</span>
          <textarea class="input" name="result" rows="2" dir="auto" defaultValue=${textOf(call)}></textarea>
        </label>`)}
      <div class="row">
        <button class="button primary">${t("result.send")}</button>
        <${Button} onClick=${() => setOpen(false)}>${t("cancel")}<//>
      </div>
    </form>`;
}
