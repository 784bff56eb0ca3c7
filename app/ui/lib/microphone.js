// Whether there is a microphone. `recording.js` records from it.

import { createStore } from "./store.js";

// Undefined in an insecure context, such as plain HTTP from another machine.
const devices = navigator.mediaDevices;

/** `problem`: the string that says why recording is impossible. */
export const microphone = createStore({
  problem: window.AudioWorkletNode ? "talk.none" : "talk.old",
});

async function detect() {
  const all = await devices.enumerateDevices();
  const isThere = all.some(({ kind }) => kind === "audioinput");
  microphone.set({ problem: isThere ? null : "talk.none" });
}

if (devices && window.AudioWorkletNode) {
  devices.addEventListener("devicechange", detect);
  detect();
}
