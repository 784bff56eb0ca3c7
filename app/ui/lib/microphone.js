// Whether there is a microphone. `recording.js` records from it.

import { createStore } from "./store.js";

// Undefined in an insecure context, such as plain HTTP from another machine.
const devices = navigator.mediaDevices;

function problemOfBrowser() {
  if (!window.isSecureContext) return "talk.insecure";
  return window.AudioWorkletNode ? "talk.none" : "talk.old";
}

/** `problem`: the string that says why recording is impossible. */
export const microphone = createStore({ problem: problemOfBrowser() });

async function detect() {
  const all = await devices.enumerateDevices();
  const isThere = all.some(({ kind }) => kind === "audioinput");
  microphone.set({ problem: isThere ? null : "talk.none" });
}

if (devices && window.AudioWorkletNode) {
  devices.addEventListener("devicechange", detect);
  detect();
}
