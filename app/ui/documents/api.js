// Requests about documents. A document's view is what the daemon says of it: tokens, and what is ready.

import { api, preferences } from "/lib.js";

/** Its KV stands behind the prefix of the chosen profile. */
const query = (fields, profile = preferences.get().profile) =>
  new URLSearchParams({ ...fields, ...(profile && { profile }) });

const pathOf = (id, suffix = "") => `/v1/documents/${id}${suffix}`;

/** `keep`: `library`, `chat` or `private`. Resolves to the view. */
export async function addDocument(file, { name, keep, profile, signal }) {
  const body = await file.arrayBuffer();
  const type = "application/octet-stream";
  return api.post(`/v1/documents?${query({ name, keep }, profile)}`, body, { type, signal });
}

export const listDocuments = async () => (await api.get(`/v1/documents?${query({})}`)).data;

export const viewDocument = (id, profile) => api.get(`${pathOf(id)}?${query({}, profile)}`);

export const textOfDocument = async (id) => (await api.bytes("GET", pathOf(id, "/text"))).text();

export const removeDocument = (id) => api.del(pathOf(id));

/** Removes the document of a message that was not sent, unless the library or another message has it. */
export const dropDocument = (id) => api.del(pathOf(id, "?unused=true")).catch(() => {});

/** Computes a document; calls `show` with each progress. Resolves to its view. */
export async function readDocument(id, { profile, show, signal }) {
  const events = api.stream("POST", `${pathOf(id, "/read")}?${query({}, profile)}`, { signal });
  for await (const { hob } of events) {
    if (hob.progress) show(hob.progress);
  }
  return viewDocument(id, profile);
}
