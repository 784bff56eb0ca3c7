// Run in the page by `--smoke-test`: what the page itself would do, with its own transport. What was
// seen is left in `window.hobTrial`.
(() => {
  const trial = (window.hobTrial = {});
  const done = (name) => (seen) => (trial[name] = seen);
  const failed = (name) => (error) => (trial[name] = { error: String(error) });
  const conversation = `trial-${Date.now()}`;

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

  const run = (name, act) => void act().then(done(name), failed(name));
  window.hobTry = {
    ask: () => run("ask", () => say("My locker code is 48213. Please remember it, I will ask for it later.")),
    resume: () => run("resume", () => say("What is my locker code?")),
    trip: () => run("trip", roundTrip),
  };
})();
