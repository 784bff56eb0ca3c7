// The fetch of a real model: begun by a press of its button, shown while it runs, and cancelled.

import { api, every, html, isUnreachable, t, useEffect, useState } from "/lib.js";
import { Button, Icon, openLink } from "/parts.js";
import { useReading } from "/chat/daemon.js";

const POLL_MS = 500;
const RUNNING = ["looking", "downloading", "checking"];

/** `{ fetch, start, cancel }`: how far it is, null until that is read. `onDone`: called once it is here, also where it
    came while nothing followed it. */
export function useFetch(onDone) {
  const [fetch, setFetch] = useState(null);
  const isRunning = RUNNING.includes(fetch?.state);
  const receive = (next) => {
    setFetch(next);
    return next;
  };
  const read = () => api.get("/v1/models/fetch").then(receive);
  const failed = (error) => {
    if (!isUnreachable(error)) setFetch({ state: "failed", message: error.message });
  };
  const follow = async () => {
    try {
      const { state } = await read();
      if (state === "done") onDone();
    } catch (error) {
      // The daemon may restart: it goes on.
      failed(error);
    }
  };
  useReading(follow);
  useEffect(() => (isRunning ? every(POLL_MS, follow) : undefined), [isRunning]);
  const start = (model) => api.post("/v1/models/fetch", { model }).then(receive, failed);
  const cancel = () => api.del("/v1/models/fetch").then(receive, failed);
  return { fetch, isRunning, start, cancel };
}

/** The button, or the progress in its place. `model`: a suggestion that can be fetched. */
export function FetchControl({ model, fetching }) {
  const { fetch, isRunning, start, cancel } = fetching;
  if (!isRunning) {
    return html`
      <${Button} icon="download" onClick=${() => start(model.fetch)} data-test="fetch">
        ${t(fetch?.state === "cancelled" || fetch?.state === "failed" ? "first.fetch.again" : "first.fetch", {
          size: model.download_bytes,
        })}
      <//>`;
  }
  const { state, done_bytes: done = 0, total_bytes: total = 0 } = fetch;
  const words = t(`first.fetch.${state}`, { done, total });
  const shown = { downloading: done, checking: total || 1 }[state];
  return html`
    <span class="fetch-progress" data-test="fetching" data-state=${state}>
      <span class="row apart">
        <span class="note figure" role="status">${words}</span>
        <${Button} onClick=${cancel} data-test="fetch-cancel">${t("cancel")}<//>
      </span>
      <progress
        max=${total || 1}
        value=${shown}
        aria-label=${words}
      ></progress>
    </span>`;
}

/** Why it failed, with a way that needs no registry. */
export function FetchFailure({ model, fetch, directory }) {
  if (fetch?.state !== "failed") return null;
  return html`
    <div class="notice row" role="alert" data-test="fetch-failed">
      <${Icon} name="warning" />
      <span class="grow">
        ${t(fetch.unreachable ? "first.unreachable" : "first.failed", { message: fetch.message })}
        ${" "}<a href=${model.page} onClick=${openLink}>${t("first.page")}</a>${" "}
        ${t("first.put", { directory })}
      </span>
    </div>`;
}
