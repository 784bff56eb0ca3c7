// What can be done with the chats that are picked in the list.

import { html, t, useStore } from "/lib.js";
import { IconButton } from "/parts.js";
import { deleteChats, exportChats } from "./actions.js";
import { picked, pickAll, unpick } from "./picked.js";

/** `list`: the chats that are shown; one that a search hides is not picked. */
export function PickedBar({ list }) {
  const { ids } = useStore(picked);
  const chosen = ids.size ? list.filter(({ id }) => ids.has(id)) : [];
  if (!chosen.length) return null;
  return html`
    <div class="row picked-bar" role="toolbar" aria-label=${t("picked.label")} data-test="picked-bar">
      <span class="grow" role="status">${t("picked.count", { n: chosen.length })}</span>
      <${IconButton} icon="check" label=${t("picked.all")} onClick=${() => pickAll(list)} />
      <${IconButton}
        icon="download"
        label=${t("picked.export")}
        onClick=${() => exportChats(chosen)}
        data-test="picked-export"
      />
      <${IconButton}
        icon="trash"
        label=${t("picked.delete")}
        onClick=${() => deleteChats(chosen)}
        data-test="picked-delete"
      />
      <${IconButton} icon="close" label=${t("picked.none")} onClick=${unpick} data-test="picked-none" />
    </div>`;
}
