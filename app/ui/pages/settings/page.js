// Settings: what a person changes most first. The daemon stores those of the model and of the disk, this
// browser those of the page, the shell those of the app.

import { html, shell } from "/lib.js";
import { About } from "./about.js";
import { Answers } from "./answers.js";
import { AppSettings } from "./app.js";
import { Appearance } from "./appearance.js";
import { Engine } from "./engine.js";
import { Storage } from "./storage.js";

export function Page() {
  return html`
    <div class="settings stack">
      <${Appearance} />
      <${Engine} />
      <${Storage} />
      <${Answers} />
      ${shell && html`<${AppSettings} />`}
      <${About} />
    </div>`;
}
