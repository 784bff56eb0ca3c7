// What Hob remembers: first the chats, then, for who wants to see it, the engine below.

import { createPersistentStore, html, t, useEffect, useStore } from "/lib.js";
import { Button } from "/parts.js";
import { Bars } from "./bars.js";
import { Cells } from "./cells.js";
import { Chart } from "./chart.js";
import { Files } from "./files.js";
import { follow, memory } from "./live.js";
import { Quarantine } from "./quarantine.js";

const shown = createPersistentStore("hob.memory", { engine: false });

export function Page() {
  useEffect(follow, []);
  const { now, map, slots, quarantine, turns, error } = useStore(memory);
  const { engine } = useStore(shown);
  return html`
    <div class="memory stack">
      ${error && html`
        <p class="error" role="alert">${t("memory.error", { message: error.message })}</p>`}
      <${Files} slots=${slots} disk=${now?.disk} isDetailed=${engine} />
      <${Quarantine} list=${quarantine} />
      <div class="row">
        <${Button}
          icon=${engine ? "up" : "down"}
          aria-expanded=${engine}
          onClick=${() => shown.set({ engine: !engine })}
          data-test="engine"
        >
          ${t(engine ? "memory.engine.hide" : "memory.engine.show")}
        <//>
        ${!engine && html`<span class="note grow engine-about">${t("memory.engine.about")}</span>`}
      </div>
      ${engine && html`
        <${Bars} now=${now} />
        <${Cells} map=${map} />
        <${Chart} turns=${turns} />`}
    </div>`;
}
