// Runs beside the page, where sound is made: hands on what the microphone hears.

registerProcessor("recorder", class extends AudioWorkletProcessor {
  process([[channel]]) {
    if (channel) this.port.postMessage(channel.slice());
    return true;
  }
});
