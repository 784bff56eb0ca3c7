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
