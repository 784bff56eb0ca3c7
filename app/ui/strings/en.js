// English. A string is a text, or a function of its values. Sections are in the order of the pages.

const tokens = (n, shown) => (n === 1 ? `${shown} token` : `${shown} tokens`);

export default {
  // Everywhere
  cancel: "Cancel", close: "Close", save: "Save", undo: "Undo", copy: "Copy", copied: "Copied.", skip: "Skip to the content",
  "copy.failed": "The clipboard cannot be used here.", "time.now": "just now",
  "page.chat": "Chat", "page.memory": "Memory", "page.profiles": "Profiles", "page.models": "Models", "page.settings": "Settings",
  "side.label": "Chats and pages", "side.show": "Show or hide the chats",
  "link.title": "Open this link?", "link.open": "Open",

  // Where KV is
  "state.hot": "hot", "state.hot.long": "In a slot: the next answer computes only its new words",
  "state.warm": "warm", "state.warm.long": "In memory: back in a moment",
  "state.cold": "cold", "state.cold.long": "On disk: read back when you come here",
  "state.none": "text only", "state.none.long": "Only the text is kept: the next answer computes it once",

  // Chats
  "chat.new": "New chat", "chat.untitled": "Untitled", "chat.search": "Search chats", "chat.list": "Chats", "chat.none": "No chats yet",
  "chat.none-found": "Nothing found", "chat.pinned": "pinned: ", "chat.menu": "What to do with this chat", "chat.menu.of": ({ title }) => `What to do with “${title}”`,
  "chat.rename": "Rename", "chat.rename.label": "Title", "chat.pin": "Pin", "chat.unpin": "Unpin", "chat.delete": "Delete",
  "chat.deleted": ({ title }) => `“${title}” was deleted.`, "chat.to-end": "To the end", "chat.answering": "Hob answers",
  "chat.export.markdown": "Export as Markdown", "chat.export.json": "Export as JSON", "chat.export.archive": "Export with its memory",
  "chat.import": "Import a chat", "chat.imported": "The chat was imported.", "chat.imported.text": "The chat was imported; its memory belongs to another model and was left out.",
  "chat.import.failed": "This cannot be imported", "chat.import.unknown": "Chats come as .json, .md or .tar.",
  "composer.label": "Message", "composer.placeholder": "Write a message", "composer.send": "Send", "composer.stop": "Stop",
  "composer.profile": "Profile ", "composer.profile.none": "none", "composer.hint": "Enter sends, Shift+Enter breaks the line",
  "message.you": "You said", "message.hob": "Hob said", "message.system": "Instructions", "message.copy": "Copy", "message.edit": "Edit and send again",
  "message.again": "Answer again", "message.cold": "Answer this turn cold: reuse nothing, to compare", "message.resend": "Send", "message.interrupted": "stopped",
  "message.length": "ended at its limit", "message.reasoning": "Reasoning", "message.call": ({ name }) => `Calls ${name}`, "message.result": "Result of a tool",
  "branch.before": "Branch before", "branch.after": "Branch after", "branch.shares": ({ tokens }) => `shares ${tokens} tokens`,
  "branch.shares.long": "Tokens that this branch has in common with what was kept, and did not compute",
  "numbers.ttft": ({ time }) => `${time} to first token`, "numbers.shared": ({ n, tokens: shown }) => `${tokens(n, shown)} hot`,
  "numbers.memory": ({ n, tokens: shown }) => `${tokens(n, shown)} from memory`, "numbers.disk": ({ n, tokens: shown }) => `${tokens(n, shown)} from disk`,
  "numbers.ahead": ({ n, tokens: shown }) => `${tokens(n, shown)} computed ahead`, "numbers.computed": ({ tokens }) => `${tokens} computed`, "numbers.saved": ({ time }) => `about ${time} saved`, "numbers.cold": "cold",
  "numbers.saved.long": "An estimate: tokens that were not computed, at the measured speed of computing them", "numbers.why": "why computed?",
  "miss.title": "Why was it computed again?",
  "welcome.title": "What can I remember for you?", "welcome.text": "Hob keeps the context of every chat. Come back next week and the answer begins at once.",
  "suggest.1": "My locker code is 48213.", "suggest.2": "What is the capital of Peru?", "suggest.3": "Hello",
  "notify.answered": "Hob has answered",

  // The daemon behind the page
  "shell.starting": "Hob is starting", "shell.doing.opening": "Hob is starting", "shell.doing.reading": "Reading the model", "shell.doing.loading": "Loading the model",
  "shell.doing.waiting": "Another program works on what Hob keeps; waiting for it", "shell.doing.saving": "Saving", "shell.failed": ({ message, remedy }) => `${message}. To do: ${remedy}.`,
  "shell.took": "The other Hob has ended. This one goes on by itself.", "shell.attached": ({ address }) => `Hob runs in another process, at ${address}; this window shows what it holds.`,
  "shell.away": ({ message }) => `Hob cannot be reached: ${message}. Trying again.`, "shell.loading": ({ model }) => `Loading ${model}`,
  "connect.title": "Open Hob from a terminal", "connect.text": "This page needs the token of the daemon, so that nobody else can talk to it. This opens it with the token:",
  "connect.token": "Or paste the token", "connect.go": "Connect", "connect.where": "hobd printed where the token lies when it started; hob doctor tells it again.",

  // Memory
  "memory.error": ({ message }) => `Memory cannot be read: ${message}. Trying again.`, "memory.reading": "Reading…", "memory.unknown": "not known",
  "memory.bars": "Where memory goes", "memory.machine": "This machine's memory", "memory.disk": "Disk quota", "memory.nothing-kept": "This daemon keeps nothing on disk.",
  "memory.part.weights": "model", "memory.part.hot": "hot", "memory.part.reserved": "room for hot", "memory.part.warm": "warm", "memory.part.others": "other programs", "memory.part.free": "free", "memory.part.cold": "cold, on disk", "memory.part.room": "left to keep",
  "memory.resident": "in memory", "memory.loading": "loading", "memory.unloaded": "on disk until somebody speaks", "memory.cells.used": ({ used, all }) => `${used} of ${all} tokens`, "memory.of": ({ bytes }) => `of ${bytes} at most`,
  "memory.percent": ({ percent }) => `${percent} % of it`, "memory.disk.free": ({ bytes }) => `${bytes} free on the disk`,
  "map.title": "What is hot, block by block", "map.used": ({ used, all }) => `${used} of ${all} tokens`, "map.empty": "Nothing is hot yet. What a chat computes is kept here, and its next answer begins from it.",
  "map.prefix": ({ profile }) => `Beginning of profile “${profile}”`, "map.nobody": "without a name", "map.tokens": ({ n, count }) => tokens(n, count), "map.progress": ({ done, all }) => `${done} of ${all} tokens in place`,
  "map.free": ({ n, count }) => (n === 0 ? "Every slot is taken: the next chat takes the one that was silent longest, whose KV stays warm." : n === 1 ? "One more chat can be hot beside these." : `${count} more chats can be hot beside these.`),
  "map.strip": ({ name }) => `Blocks of ${name}`, "map.no-blocks": "nothing yet", "map.legend.layers": "What it is", "map.legend.origins": "How it came here",
  "map.table": "The same as a table", "map.table.blocks": "Blocks", "map.table.part": "What it is", "map.table.origin": "How it came here", "map.table.sharers": "Shared with",
  "layer.system": "system", "layer.tool": "tools", "layer.document": "document", "layer.user": "user", "layer.assistant": "assistant", "layer.unknown": "not known",
  "origin.computed": "computed", "origin.generated": "generated", "origin.shared": "shared", "origin.memory": "from memory", "origin.disk": "from disk", "origin.coming": "still to come",
  "origin.computed.long": "computed here", "origin.generated.long": "generated here", "origin.shared.long": "shared: another slot had it", "origin.memory.long": "imported from memory", "origin.disk.long": "imported from disk, every byte checked",
  "block.of": ({ n, of }) => `block ${n} of ${of}`, "block.tokens": ({ start, end }) => `tokens ${start} to ${end}`, "block.sharers": ({ n, count }) => (n === 1 ? "one other slot has it too" : `${count} other slots have it too`),
  "slot.free": "left over", "slot.idle": "idle", "slot.restoring": "coming back", "slot.prefill": "reading the prompt", "slot.decoding": "answering",
  "left.title": ({ n, count }) => (n === 1 ? "What left lately" : `What left lately (${count})`), "left.who": "Chat", "left.tokens": "Tokens", "left.to": "Where it is", "left.why": "Why it left", "left.when": "When",
  "left.to.memory": "in memory", "left.to.disk": "on disk", "left.to.nowhere": "nowhere", "left.why.slot": "another chat needed its slot", "left.why.room": "others needed the cells", "left.why.idle": "nobody used it", "left.why.differs": "the chat went on otherwise",
  "left.why.deleted": "it was deleted", "left.why.unloaded": "the model left memory", "left.why.failed": "something went wrong",
  "files.title": "What is kept on disk", "files.verify": "Verify", "files.prune": "Prune…", "files.empty": "Nothing is kept yet. A chat's memory is written here behind its first answer, and comes back from here after a restart.",
  "files.summary": ({ n, count, bytes }) => (n === 1 ? `One conversation, ${bytes} altogether` : `${count} conversations, ${bytes} altogether; what they share is counted once`),
  "files.name": "Chat", "files.state": "Where", "files.class": "Class", "files.tokens": "Tokens", "files.own": "Own", "files.shared": "Shared", "files.age": "First kept", "files.used": "Last use", "files.actions": "Actions", "files.other": "other model",
  "files.more": ({ count }) => `Show more (${count})`, "files.class.of": ({ name }) => `How long ${name} is kept`, "files.open": "It is in a slot now; this can be done once it has left.", "files.verify.one": "Verify", "files.remove": "Remove",
  "files.remove.title": ({ name }) => `Remove the memory of “${name}”?`, "files.remove.text": "What was said stays. The next answer computes it once more.", "files.freed": ({ bytes }) => `${bytes} freed.`, "files.speaking": "speaking", "files.expired": "expired", "files.skipped": ({ reason }) => `Left alone: ${reason}`,
  "class.short": "short", "class.long": "long", "class.extended": "extended", "class.kept": "kept", "class.about": "How long it stays after its last use: short, long, extended, or kept until the quota needs its place",
  "prune.title": "Prune what is kept", "prune.text": "Whatever meets all that is chosen goes. Text is never pruned, and what is open stays.", "prune.criteria": "What goes", "prune.expired": "its time is over", "prune.older": "not used for", "prune.unit": "Unit", "prune.hours": "hours", "prune.days": "days", "prune.weeks": "weeks",
  "prune.larger": "larger than", "prune.class": "of class", "prune.any": "any", "prune.own": "of the model that runs", "prune.frees": ({ n, count, bytes }) => (n === 0 ? `Frees ${bytes} that nobody needs` : n === 1 ? `One conversation goes, which frees ${bytes}` : `${count} conversations go, which frees ${bytes}`),
  "prune.nothing": "Nothing meets this.", "prune.others": ({ n, count }) => (n === 1 ? "and one more" : `and ${count} more`), "prune.skipped": ({ n, count }) => (n === 1 ? "One is open and stays." : `${count} are open and stay.`), "prune.do": "Prune",
  "verify.all": "Reading everything that is kept", "verify.one": ({ name }) => `Reading what “${name}” is made of`, "verify.stop": "Stop", "verify.progress": ({ done, all }) => `${done} of ${all}`,
  "verify.read": ({ n, count, bytes }) => `${n === 1 ? "One file" : `${count} files`}, ${bytes}, every byte read and checked: `, "verify.whole": "all whole.", "verify.faults": ({ n, count }) => (n === 0 ? "something is missing." : n === 1 ? "one is damaged." : `${count} are damaged.`),
  "verify.cost": ({ conversation, lost, tokens }) => `${conversation}: ${lost} of ${tokens} tokens will be computed again.`, "verify.quarantined": ({ n, count }) => (n === 1 ? "It went into quarantine." : `${count} files went into quarantine.`),
  "quarantine.title": "Quarantine", "quarantine.empty": "Empty", "quarantine.empty.title": "Empty the quarantine?", "quarantine.text": ({ n, count, bytes }) => (n === 1 ? `One file failed its check, ${bytes}. It is never used.` : `${count} files failed their check, ${bytes}. None is ever used.`),
  "quarantine.ask": ({ n, count, bytes }) => (n === 1 ? `One file of ${bytes} is removed for good.` : `${count} files, ${bytes}, are removed for good.`), "quarantine.file": "File", "quarantine.reason": "Why", "quarantine.bytes": "Size", "quarantine.since": "Since",
  "chart.title": "Time to first token", "chart.empty": "No answers yet. Here each one will be a mark: how soon it began, and whether it was reused or cold.",
  "chart.reused": ({ n, count }) => `reused, median of ${count}:`, "chart.cold": ({ n, count }) => `cold, median of ${count}:`, "chart.reused.none": "reused: none yet", "chart.cold.none": "cold: none yet",
  "chart.label": ({ n, reused, cold }) => `Time to first token of ${n} answers, on a logarithmic scale. Median of reused ones ${reused}, of cold ones ${cold}.`, "chart.point": ({ time, kind }) => `${time}, ${kind}`, "chart.tokens": ({ reused, computed }) => `${reused} tokens reused, ${computed} computed`,
  "chart.kind": "Kind", "chart.kind.reused": "reused", "chart.kind.cold": "cold", "chart.ttft": "First token", "chart.reused.tokens": "Reused", "chart.computed.tokens": "Computed",

  // Settings
  "settings.look": "Look", "settings.theme": "Colours", "settings.theme.system": "As the system has it", "settings.theme.light": "Light", "settings.theme.dark": "Dark",
  "settings.language": "Language", "settings.answers": "Answers", "settings.temperature": "Temperature", "settings.temperature.long": "0 always takes the likeliest word",
  "settings.profile": "Profile of new chats", "settings.app": "App", "settings.close": "Closing the window", "settings.close.quit": "ends Hob", "settings.close.tray": "keeps Hob running in the tray",
  "settings.autostart": "Start with the computer", "settings.notifications": "Tell when a long answer ends", "settings.about": "About",
  "about.version": "Version", "about.model": "Model", "about.fingerprint": "Fingerprint", "about.context": "Context", "about.tokens": ({ tokens }) => `${tokens} tokens`,

  // Keys
  "keys.title": "Keys", "keys.search": "Search chats", "keys.new": "New chat", "keys.next": "Next chat", "keys.previous": "Chat before", "keys.write": "Write",
  "keys.stop": "Stop the answer", "keys.side": "Show or hide the chats", "keys.help": "This list", "keys.send": "Send", "keys.line": "Break the line",
};
