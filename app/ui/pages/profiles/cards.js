// The segments of a profile as cards, which can be edited, moved, added and removed.

import { html, t, useRef, useState } from "/lib.js";
import { Button, Icon } from "/parts.js";
import { Card } from "./card.js";
import { moved, movedToTail, tailStart, withNew } from "./draft.js";

const NEW_SEGMENTS = { text: "rules", file: "rules", tools: "capabilities" };

export function Cards({ segments, figures, problem, onChange }) {
  const { over, drag, drop, leave } = useDragging(segments, onChange);
  const figuresOf = ({ id }) => figures.byId.get(id);
  const isComputed = (segment) => figuresOf(segment)?.in_prefix && !figuresOf(segment).warm;
  const firstComputed = segments.findIndex(isComputed);
  const tail = tailStart(segments);
  const list = useRef();
  /** Once it is drawn. */
  const focusOn = (find) => requestAnimationFrame(() => list.current && find(list.current)?.focus());
  const add = (source, layer) => {
    const next = withNew(segments, source, layer);
    const at = next.findIndex((one) => !segments.includes(one));
    onChange(next);
    focusOn((cards) => cards.querySelectorAll("[data-test=segment]")[at]?.querySelector("textarea"));
  };
  const remove = (at) => {
    onChange(segments.filter((_, index) => index !== at));
    focusOn((cards) => {
      const buttons = [...cards.querySelectorAll("[data-test=remove]")];
      return buttons[at] ?? buttons.at(-1) ?? cards.querySelector("[data-test=add-text]");
    });
  };
  const set = (at, fields) => {
    onChange(segments.map((one, index) => (index === at ? { ...one, ...fields } : one)));
  };
  return html`
    <div class="stack" ref=${list} onDrop=${drop} onDragEnd=${leave}>
      ${segments.flatMap((segment, at) => [
        at === firstComputed && html`
          <${ComputedDivider} key="computed" tokens=${figures.whole.computed_tokens} />`,
        at === tail && html`
          <p class="divider" key="tail"><span>${t("profile.tail")}</span></p>`,
        html`
          <${Card}
            key=${segment.id}
            segment=${segment}
            figures=${figuresOf(segment)}
            at=${at}
            last=${segments.length - 1}
            inTail=${at > tail && segment.source !== "tools"}
            over=${over === at}
            problem=${problem?.at === at ? problem : null}
            set=${(fields) => set(at, fields)}
            move=${(to) => onChange(moved(segments, at, to))}
            moveToTail=${() => onChange(movedToTail(segments, at))}
            remove=${() => remove(at)}
            drag=${drag(at)}
          />`,
      ])}
      <div class="row">
        ${Object.entries(NEW_SEGMENTS).map(([source, layer]) => html`
          <${Button}
            icon="plus"
            onClick=${() => add(source, layer)}
            data-test=${`add-${source}`}
          >
            ${t(`profile.add.${source}`)}
          <//>`)}
      </div>
    </div>`;
}

function ComputedDivider({ tokens }) {
  return html`
    <p class="divider computed" data-test="computed">
      <span><${Icon} name="again" small />${t("profile.computed-from", { tokens })}</span>
    </p>`;
}

/** `over`: where the card would be dropped. */
function useDragging(segments, onChange) {
  const from = useRef(null);
  const [over, setOver] = useState(null);
  const drag = (at) => ({
    start: () => {
      from.current = at;
    },
    over: (event) => {
      event.preventDefault();
      if (from.current !== null) setOver(at);
    },
  });
  const leave = () => {
    from.current = null;
    setOver(null);
  };
  const drop = (event) => {
    event.preventDefault();
    if (from.current !== null && over !== null) onChange(moved(segments, from.current, over));
    leave();
  };
  return { over, drag, drop, leave };
}
