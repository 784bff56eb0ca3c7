import { appBackend } from "/lib/transport/app.js";
import { ApiError, isCancelled, Unreachable } from "/lib/transport/errors.js";
import { equal, test } from "./harness.js";

/** The app's backend before a shell that answers each request with `messages`. */
function backendOf(messages) {
  const invoked = [];
  let channel = null;
  class Channel {
    onmessage = () => {};
    constructor() {
      channel = this;
    }
  }
  async function invoke(command, payload, options) {
    invoked.push({ command, payload, options });
    if (command === "request") messages.forEach((message) => channel.onmessage(message));
  }
  window.__TAURI__ = { core: { Channel, invoke } };
  const backend = appBackend();
  delete window.__TAURI__;
  return { backend, invoked };
}

const bytesOf = (text) => new TextEncoder().encode(text).buffer;

async function textOf(chunks) {
  let text = "";
  for await (const chunk of chunks) text += new TextDecoder().decode(chunk);
  return text;
}

async function errorOf(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  return null;
}

test("a request of the app is a command with its body as bytes", async () => {
  const { backend, invoked } = backendOf([
    { status: 200, headers: { "content-type": "text/plain" } },
    bytesOf("one "),
    bytesOf("two"),
    { end: true },
  ]);
  const response = await backend.open("POST", "/v1/x", { a: "b" }, "body", undefined);
  equal([response.status, response.headers], [200, { "content-type": "text/plain" }]);
  equal(await textOf(response.chunks), "one two");
  const [{ command, payload, options }] = invoked;
  equal([command, new TextDecoder().decode(payload)], ["request", "body"]);
  const { method, path, headers } = JSON.parse(options.headers["hob-request"]);
  equal({ method, path, headers }, { method: "POST", path: "/v1/x", headers: { a: "b" } });
  equal(invoked.length, 1);
});

test("a piece of sound reaches the shell as its samples, with its type", async () => {
  const { backend, invoked } = backendOf([{ status: 200, headers: {} }, { end: true }]);
  const headers = { "content-type": "audio/pcm" };
  await backend.open("POST", "/v1/x", headers, Int16Array.of(1, -2).buffer, undefined);
  const { payload, options } = invoked[0];
  equal([...payload], [1, 0, 254, 255]);
  equal(JSON.parse(options.headers["hob-request"]).headers, headers);
});

test("a request that the shell cannot send is unreachable", async () => {
  const { backend } = backendOf([{ error: "no daemon" }]);
  const error = await errorOf(backend.open("GET", "/", {}, undefined, undefined));
  equal([error instanceof Unreachable, error.message], [true, "no daemon"]);
});

test("a response that breaks off is unreachable from there on", async () => {
  const { backend } = backendOf([{ status: 200, headers: {} }, bytesOf("a"), { error: "gone" }]);
  const { chunks } = await backend.open("GET", "/", {}, undefined, undefined);
  equal(new TextDecoder().decode((await chunks.next()).value), "a");
  equal((await errorOf(chunks.next())) instanceof Unreachable, true);
});

test("an aborted request is cancelled in the shell", async () => {
  const { backend, invoked } = backendOf([{ status: 200, headers: {} }]);
  const abort = new AbortController();
  const { chunks } = await backend.open("GET", "/", {}, undefined, abort.signal);
  abort.abort();
  equal(isCancelled(await errorOf(chunks.next())), true);
  equal(invoked.map(({ command }) => command), ["request", "cancel"]);
});

test("a request that is aborted before it begins is not sent", async () => {
  const { backend, invoked } = backendOf([]);
  const signal = AbortSignal.abort();
  const error = await errorOf(backend.open("GET", "/", {}, undefined, signal));
  equal([isCancelled(error), invoked.length], [true, 0]);
});

test("a reader that stops early cancels the request", async () => {
  const { backend, invoked } = backendOf([{ status: 200, headers: {} }, bytesOf("a"), bytesOf("b")]);
  const { chunks } = await backend.open("GET", "/", {}, undefined, undefined);
  for await (const chunk of chunks) {
    equal(chunk.length, 1);
    break;
  }
  equal(invoked.map(({ command }) => command), ["request", "cancel"]);
});

test("an error of the daemon has its message, code and parameter", () => {
  const error = new ApiError(400, { message: "no", code: "bad", param: "x" });
  equal([error.message, error.status, error.code, error.param], ["no", 400, "bad", "x"]);
  equal(new ApiError(502).message.includes("502"), true);
});

test("a state of the app that has passed does not replace a newer one", async () => {
  class Channel {
    onmessage = () => {};
  }
  async function invoke(command, { changes }) {
    changes.onmessage({ phase: "ready" });
    return { phase: "starting" };
  }
  window.__TAURI__ = { core: { Channel, invoke } };
  const { shell } = appBackend();
  delete window.__TAURI__;
  const seen = [];
  shell.watch(({ phase }) => seen.push(phase));
  await new Promise((resolve) => setTimeout(resolve)); // After all that is settled by now.
  equal(seen, ["ready"]);
});
