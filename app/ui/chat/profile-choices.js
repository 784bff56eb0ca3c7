// The instructions that a chat may begin with.

import { shownName, t } from "/lib.js";

/** What a request may name, and what `profile` means: nothing chosen means the default profile. */
export function profileChoices(profiles, profile) {
  const names = profiles.map(({ name }) => name);
  const options = [["none", t("composer.profile.none")], ...names.map((name) => [name, shownName(name)])];
  return { options, chosen: profile || (names.includes("default") ? "default" : "none") };
}
