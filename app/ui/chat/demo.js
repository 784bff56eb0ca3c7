// Says that the bundled model answers, as long as it does: it shows what Hob does and knows little.

import { address, html, t, useStore } from "/lib.js";
import { Icon } from "/parts.js";
import { status } from "./chats.js";

export function Demo() {
  const isDemo = useStore(status, ({ now }) => now?.demo ?? false);
  return isDemo && html`
    <p class="demo note" data-test="demo">
      <${Icon} name="models" small />
      <span>${t("demo.line")} <a href=${address("models", "first")}>${t("demo.better")}</a></span>
    </p>`;
}
