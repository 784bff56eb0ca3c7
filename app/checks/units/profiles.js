import {
  differs,
  draftOf,
  isDefaultKey,
  markedParts,
  moved,
  movedToTail,
  newDraft,
  newSegment,
  requestOf,
  restoredDraft,
  slugOf,
  tailStart,
  toolsIn,
  withNew,
} from "/pages/profiles/draft.js";
import { shownName } from "/lib/format.js";
import { equal, test } from "./harness.js";

const file = {
  layer: "rules",
  key: "rules",
  stable: true,
  source: "file",
  path: "rules.md",
  content: "Be brief.",
  editable: true,
};

const profile = {
  name: "home",
  revision: 7,
  ttl: "kept",
  segments: [{ ...file, source: "text", path: null }, file],
};

const segment = (id, stable = true, source = "text") => ({ id, stable, source });
const idsOf = (segments) => segments.map(({ id }) => id);

test("a stored draft is the same one, with cards of its own", () => {
  const draft = draftOf(profile);
  const restored = restoredDraft(JSON.stringify(draft));
  equal(requestOf(restored), requestOf(draft));
  const ids = [...draft.segments, ...restored.segments].map(({ id }) => id);
  equal(new Set(ids).size, 4);
  equal(restoredDraft(""), null);
});

test("names of instructions become names of files", () => {
  equal(["home", "kitchen-light.2", "_x"].map(slugOf), ["home", "kitchen-light.2", "_x"]);
  const named = ["My Helper", "Küchenhilfe für später!", "Café", ".x", "a/b", " - "].map(slugOf);
  equal(named, ["My-Helper", "Kuechenhilfe-fuer-spaeter", "Cafe", "x", "a-b", ""]);
  equal(slugOf("a".repeat(80)).length, 64);
  equal(["My-Helper", "a-b-c", "_x", "-x"].map(shownName), ["My Helper", "a b c", "_x", "-x"]);
});

test("a key that a place or a file gives is a default one", () => {
  equal([null, "", "segment 12", "file:rules.md"].map(isDefaultKey), [true, true, true, true]);
  equal(["rules", "segment x"].map(isDefaultKey), [false, false]);
});

test("the content of an unchanged file is not sent", () => {
  equal(requestOf(draftOf(profile)).segments.map(({ content }) => content), ["Be brief.", null]);
});

test("the content of a changed file is sent", () => {
  const draft = draftOf(profile);
  draft.segments[1].content = "Be kind.";
  equal(requestOf(draft).segments[1].content, "Be kind.");
});

test("a request has no ids", () => {
  equal(Object.keys(requestOf(draftOf(profile)).segments[0]), [
    "layer",
    "key",
    "stable",
    "source",
    "path",
    "content",
  ]);
});

test("a draft as it was read does not differ, whichever name its class has", () => {
  const draft = draftOf(profile);
  equal(draft.ttl, "permanent");
  equal(differs(draft, profile), false);
  equal(differs({ ...draft, ttl: "short" }, profile), true);
});

test("a new draft differs from nothing", () => {
  const draft = newDraft("home");
  equal([draft.revision, draft.segments.length, differs(draft, null)], [null, 1, true]);
});

test("segments have ids of their own", () => {
  equal(newSegment("text", "rules").id === newSegment("text", "rules").id, false);
});

test("a new segment of tools has one to fill in", () => {
  equal(toolsIn(newSegment("tools", "capabilities").content), { problem: "profile.tools.name" });
});

test("a segment moves inside the list", () => {
  const all = [segment(1), segment(2), segment(3)];
  equal(idsOf(moved(all, 0, 2)), [2, 3, 1]);
  equal(idsOf(moved(all, 2, -1)), [3, 1, 2]);
  equal(idsOf(moved(all, 0, 9)), [2, 3, 1]);
  equal(idsOf(all), [1, 2, 3]);
});

test("the tail starts at the first text that changes; tools do not count", () => {
  equal(tailStart([segment(1), segment(2, false), segment(3)]), 1);
  equal(tailStart([segment(1, false, "tools"), segment(2)]), 2);
  equal(tailStart([]), 0);
});

test("a segment that changes moves behind all that do not", () => {
  const all = movedToTail([segment(1), segment(2), segment(3), segment(4, false)], 0);
  equal(idsOf(all), [2, 3, 1, 4]);
  equal(all[2].stable, false);
});

test("a new segment stands in front of what changes", () => {
  const all = withNew([segment(1), segment(2, false)], "text", "rules");
  equal([all.length, idsOf(all)[0], idsOf(all)[2]], [3, 1, 2]);
});

test("new context stands at the end", () => {
  const all = withNew([segment(1), segment(2, false)], "text", "context");
  equal(idsOf(all).slice(0, 2), [1, 2]);
});

test("tools are a list of functions with names", () => {
  const tool = (name) => ({ type: "function", function: { name } });
  equal(toolsIn(JSON.stringify([tool("a"), tool("b")])), { names: ["a", "b"] });
  equal(toolsIn("[]"), { problem: "profile.tools.array" });
  equal(toolsIn("{}"), { problem: "profile.tools.array" });
  equal(toolsIn(JSON.stringify([tool("a"), null])), { problem: "profile.tools.name" });
  equal(toolsIn("[").problem, "profile.tools.json");
});

test("marks count from the first character that is not white space", () => {
  equal(markedParts("  on 2026-11-21.", [{ start: 3, end: 13 }]), [
    ["  on ", false],
    ["2026-11-21", true],
    [".", false],
  ]);
  equal(markedParts("plain", []), [["plain", false]]);
});
