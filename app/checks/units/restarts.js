import { chats, refreshStatus, status } from "/chat/chats.js";
import { equal, test } from "./harness.js";

/** Answers requests as daemons would, one after the other; counts the lists of chats that were asked for. */
async function answering(daemons, look) {
  const real = globalThis.fetch;
  const asked = { lists: 0 };
  let daemon = null;
  globalThis.fetch = async (path) => {
    const isStatus = path === "/v1/status";
    if (!isStatus) asked.lists += 1;
    return Response.json(isStatus ? { ...daemon, parked: [], slots: [] } : { data: [] });
  };
  try {
    for (const next of daemons) {
      daemon = next;
      await refreshStatus();
      look(asked);
    }
  } finally {
    globalThis.fetch = real;
    status.set({ now: null, error: null, restarts: 0 });
    chats.set({ all: [], loaded: false });
  }
}

test("a daemon that started again between two looks at it is another one", async () => {
  const first = { pid: 1, started_at: 10, fingerprint: "a" };
  const seen = [];
  const daemons = [first, first, { ...first, pid: 2 }, { ...first, pid: 2, fingerprint: "b" }];
  await answering(daemons, ({ lists }) => seen.push([status.get().restarts, lists]));
  equal(seen, [[0, 0], [0, 0], [1, 1], [2, 2]]);
});

test("the list is read again when an answer has ended between two looks at the daemon", async () => {
  const after = (turns) => ({ pid: 1, started_at: 10, fingerprint: "a", counters: { turns } });
  const seen = [];
  await answering([after(1), after(1), after(2), after(2)], ({ lists }) => seen.push(lists));
  equal(seen, [0, 0, 1, 1]);
});

test("the list is read again when a client has changed a chat between two looks at the daemon", async () => {
  const after = (changes) => ({ pid: 1, started_at: 10, fingerprint: "a", changes });
  const seen = [];
  await answering([after(1), after(1), after(2), after(2)], ({ lists }) => seen.push(lists));
  equal(seen, [0, 0, 1, 1]);
});

test("a status that was asked for earlier replaces no later one, and neither does its failure", async () => {
  const real = globalThis.fetch;
  const requests = [];
  globalThis.fetch = (path) =>
    path === "/v1/status"
      ? new Promise((resolve, reject) => requests.push({ resolve, reject }))
      : Promise.resolve(Response.json({ data: [] }));
  const answer = (index, turns) =>
    requests[index].resolve(Response.json({ pid: 1, counters: { turns }, parked: [], slots: [] }));
  try {
    const [first, second, third] = [refreshStatus(), refreshStatus(), refreshStatus()];
    answer(2, 3);
    await third;
    answer(1, 2);
    requests[0].reject(new TypeError("it is away"));
    await Promise.all([first, second]);
    equal([status.get().now.counters.turns, status.get().error], [3, null]);
  } finally {
    globalThis.fetch = real;
    status.set({ now: null, error: null, restarts: 0 });
    chats.set({ all: [], loaded: false });
  }
});
