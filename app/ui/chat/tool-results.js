// The results of an answer's tool calls, given by hand: a field for each call.

import { html, t, useState } from "/lib.js";
import { Button, useInPlace } from "/parts.js";

export function ToolResults({ message, conversation }) {
  const [isOpen, setOpen] = useState(false);
  const frame = useInPlace(isOpen, "button");
  const calls = message.tool_calls.map((call, index) => ({ id: call.id ?? `call_${index}`, name: call.function.name }));
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
      ${calls.map(({ id, name }) => html`
        <label class="field" key=${id}>
          <span>${t("result.of", { name })}</span>
          <textarea class="input" name="result" rows="2" dir="auto"></textarea>
        </label>`)}
      <div class="row">
        <button class="button primary">${t("result.send")}</button>
        <${Button} onClick=${() => setOpen(false)}>${t("cancel")}<//>
      </div>
    </form>`;
}
