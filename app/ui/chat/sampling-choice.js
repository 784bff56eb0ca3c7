// The button below the composer that says how answers are chosen, and opens their parameters.

import { classes, formatter, html, importModule, lazy, t, useState, useStore, withTexts } from "/lib.js";
import { Icon } from "/parts.js";
import { status } from "./chats.js";
import { profileChoices } from "./profile-choices.js";
import { presetOf } from "./sampling.js";

const dialog = lazy(() => withTexts(importModule("/chat/sampling-dialog.js")));

export function SamplingChoice({ conversation }) {
  const [isOpen, setOpen] = useState(false);
  const loaded = dialog.use(isOpen);
  const sampling = useStore(conversation.store, ({ sampling }) => sampling);
  const profile = useSampledProfile(conversation);
  const set = { ...profile?.sampling, ...sampling };
  const digits = formatter(Intl.NumberFormat, { maximumFractionDigits: 8, useGrouping: false });
  const texts = Object.entries(set).map(([name, value]) => `${t(`sampling.${name}`)} ${digits.format(value)}`);
  const isSet = texts.length > 0;
  const preset = presetOf(set);
  const name = t(preset ? `sampling.preset.${preset}` : "sampling.own");
  return html`
    <button
      type="button"
      class=${classes("foot-button", isSet && "set")}
      title=${isSet ? texts.join(", ") : t("sampling.long")}
      aria-haspopup="dialog"
      onClick=${() => setOpen(true)}
      data-test="sampling"
    >
      <${Icon} name="settings" small />${isSet ? name : t("sampling.title")}
      ${isSet && html`<${Icon} name="check" small />`}
    </button>
    ${isOpen && loaded && html`
      <${loaded.SamplingDialog}
        conversation=${conversation}
        profile=${profile}
        onClose=${() => setOpen(false)}
      />`}`;
}

/** The profile that the chat's requests name, with its parameters; undefined without one. */
function useSampledProfile(conversation) {
  const profiles = useStore(status, ({ now }) => now?.profiles) ?? [];
  const chosen = useStore(conversation.store, ({ profile }) => profile);
  const { chosen: name } = profileChoices(profiles, chosen);
  return profiles.find((profile) => profile.name === name);
}
