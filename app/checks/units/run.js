// Runs every test and puts the outcome into `window.outcome`, where `tests/page/units.rs` reads it.

import { locale } from "/lib/strings.js";
import { runAll } from "./harness.js";

const read = async (name) => (await fetch(`/strings/${name}.json`)).json();
locale.set({ language: "en", strings: { ...(await read("en")), ...(await read("later/en")) } });
try {
  await import("./lib.js");
  await import("./transport.js");
  await import("./chat.js");
  await import("./conversation.js");
  await import("./drawing.js");
  await import("./markdown.js");
  await import("./specs.js");
  await import("./memory.js");
  await import("./models.js");
  await import("./profiles.js");
  await import("./restarts.js");
  await import("./settings.js");
  window.outcome = await runAll();
} catch (error) {
  window.outcome = { passed: 0, failed: [{ name: "loading the tests", why: String(error) }] };
}
