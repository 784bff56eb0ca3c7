// The segments of a profile as cards in their order, which can be changed, moved and added.

import { html, t, useRef, useState } from "/lib.js";
import { Button, Icon } from "/parts.js";
import { Card } from "./card.js";
import { behind, moved, newSegment, tailBegins } from "./draft.js";

/** What a segment can be, and the layer that it begins as. */
const NEW = { text: "rules", file: "rules", tools: "capabilities" };

/** With the line from which on something is computed, and the one behind which anything may change. */
export function Cards({ draft: { segments: all }, figures, problem, segments }) {
  const dragged = useRef(null);
  const [over, setOver] = useState(null);
  const tail = tailBegins(all);
  const of = (id) => figures.byId.get(id);
  const anew = all.findIndex(({ id }) => of(id)?.in_prefix && !of(id).warm);
  const set = (at, fields) => segments(all.map((segment, index) => (index === at ? { ...segment, ...fields } : segment)));
  const drop = (event) => {
    event.preventDefault();
    if (dragged.current !== null && over !== null) segments(moved(all, dragged.current, over));
    dragged.current = null;
    setOver(null);
  };
  const add = (source, layer) => segments(moved([...all, newSegment(source, layer)], all.length, source === "text" && layer === "context" ? all.length : tail));
  return html`<div class="stack" onDrop=${drop} onDragEnd=${() => setOver(null)}>
    ${all.flatMap((segment, at) => [
      at === anew && html`<p class="divider anew" key="anew" data-test="anew"><span><${Icon} name="again" small />${t("profile.anew", { tokens: figures.whole.computed_tokens })}</span></p>`,
      at === tail && html`<p class="divider" key="tail"><span>${t("profile.tail")}</span></p>`,
      html`<${Card} key=${segment.id} segment=${segment} figures=${of(segment.id)} at=${at} last=${all.length - 1} inTail=${at > tail && segment.source !== "tools"} over=${over === at}
        problem=${problem?.at === at ? problem : null} set=${(fields) => set(at, fields)} move=${(to) => segments(moved(all, at, to))} behind=${() => segments(behind(all, at))}
        remove=${() => segments(all.filter((_, index) => index !== at))}
        drag=${{ start: () => (dragged.current = at), over: (event) => { event.preventDefault(); if (dragged.current !== null) setOver(at); } }} />`,
    ])}
    <div class="row">
      ${Object.entries(NEW).map(([source, layer]) => html`<${Button} icon="plus" onClick=${() => add(source, layer)} data-test=${`add-${source}`}>${t(`profile.add.${source}`)}<//>`)}
    </div>
  </div>`;
}
