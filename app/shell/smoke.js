// Evaluated in the page by `--smoke-test`: does what the page does, with its own transport. Results are
// in `window.hobSmoke.results`, by step.
(() => {
  const results = {};
  const store = (name) => (result) => (results[name] = result);
  const fail = (name) => (error) => (results[name] = { error: String(error) });
  const conversation = `smoke-${Date.now()}`;

  async function say(text) {
    const { api } = await import("/lib/transport.js");
    const messages = [{ role: "user", content: text }];
    const body = { conversation, messages, hob: { append: true }, stream: true, max_tokens: 24, temperature: 0 };
    const began = performance.now();
    let first = null;
    let pieces = 0;
    let tokens = null;
    for await (const event of api.stream("POST", "/v1/chat/completions", { body })) {
      if (event.choices?.[0]?.delta?.content) {
        first ??= performance.now() - began;
        pieces += 1;
      }
      tokens = event.hob?.tokens ?? tokens;
    }
    return { pieces, tokens, first_ms: first, all_ms: performance.now() - began };
  }

  async function roundTrip() {
    const { api } = await import("/lib/transport.js");
    const times = [];
    for (let count = 0; count < 40; count += 1) {
      const began = performance.now();
      await api.get("/health");
      times.push(performance.now() - began);
    }
    return { median_ms: times.sort((a, b) => a - b)[times.length / 2] };
  }

  const step = (name, act) => void act().then(store(name), fail(name));
  const run = {
    ask: () => step("ask", () => say("My locker code is 48213. Please remember it, I will ask for it later.")),
    resume: () => step("resume", () => say("What is my locker code?")),
    trip: () => step("trip", roundTrip),
  };
  window.hobSmoke = { run, results };
})();
