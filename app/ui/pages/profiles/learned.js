// The learned prefixes: what many prompts begin with, although no profile names it.

import { api, html, t, useEffect, useState } from "/lib.js";
import { Button, orToast, useNextFocus } from "/parts.js";
import { Warmth } from "./warmth.js";

export function Learned() {
  const [prefixes, setPrefixes] = useState([]);
  const read = () => api.get("/v1/learned").then(({ data }) => setPrefixes(data), () => {});
  useEffect(() => {
    read();
  }, []);
  useNextFocus(() => document.querySelector("[data-test=forget]"));
  if (!prefixes.length) return null;
  const forget = (name) => orToast(api.del(`/v1/learned/${name}`)).then(read);
  return html`
    <section class="stack" data-test="learned">
      <h2>${t("learned.title")}</h2>
      <p class="note">${t("learned.what")}</p>
      ${prefixes.map((prefix) => html`
        <div class="card stack" key=${prefix.name} data-test="learned-row">
          <span class="row apart">
            <span class="grow" dir="auto">${prefix.text}…</span><${Warmth} profile=${prefix} />
          </span>
          <span class="row apart">
            <span class="note figure">
              ${t("learned.figures", { n: prefix.conversations, tokens: prefix.tokens })}
            </span>
            <${Button} onClick=${() => forget(prefix.name)} data-test="forget">${t("learned.forget")}<//>
          </span>
        </div>`)}
    </section>`;
}
