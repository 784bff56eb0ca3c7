import { html, t, useEffect, useStore } from "/lib.js";
import { Bars } from "./bars.js";
import { Cells } from "./cells.js";
import { Chart } from "./chart.js";
import { Files } from "./files.js";
import { follow, memory } from "./live.js";
import { Quarantine } from "./quarantine.js";

export function Page() {
  useEffect(follow, []);
  const { now, map, slots, quarantine, turns, error } = useStore(memory);
  return html`
    <div class="memory stack">
      ${error && html`
        <p class="error" role="alert">${t("memory.error", { message: error.message })}</p>`}
      <${Bars} now=${now} />
      <${Cells} map=${map} />
      <${Files} slots=${slots} disk=${now?.disk} />
      <${Quarantine} list=${quarantine} />
      <${Chart} turns=${turns} />
    </div>`;
}
