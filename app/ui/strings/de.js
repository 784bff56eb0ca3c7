// Deutsch.

export default {
  // Überall
  cancel: "Abbrechen", close: "Schließen", save: "Speichern", undo: "Rückgängig", copy: "Kopieren", copied: "Kopiert.", skip: "Zum Inhalt springen",
  "copy.failed": "Die Zwischenablage ist hier nicht erreichbar.", "time.now": "gerade eben",
  "page.chat": "Chat", "page.memory": "Speicher", "page.profiles": "Profile", "page.models": "Modelle", "page.settings": "Optionen",
  "side.label": "Chats und Seiten", "side.show": "Chats zeigen oder verbergen",
  "link.title": "Diesen Link öffnen?", "link.open": "Öffnen",

  // Wo der KV liegt
  "state.hot": "heiß", "state.hot.long": "In einem Slot: die nächste Antwort berechnet nur ihre neuen Wörter",
  "state.warm": "warm", "state.warm.long": "Im Arbeitsspeicher: gleich wieder da",
  "state.cold": "kalt", "state.cold.long": "Auf der Platte: wird gelesen, sobald du hierherkommst",
  "state.none": "nur Text", "state.none.long": "Nur der Text ist da: die nächste Antwort berechnet ihn einmal",

  // Chats
  "chat.new": "Neuer Chat", "chat.untitled": "Ohne Titel", "chat.search": "Chats durchsuchen", "chat.list": "Chats", "chat.none": "Noch keine Chats",
  "chat.none-found": "Nichts gefunden", "chat.pinned": "angeheftet: ", "chat.menu": "Was mit diesem Chat geschehen soll", "chat.menu.of": ({ title }) => `Was mit „${title}“ geschehen soll`,
  "chat.rename": "Umbenennen", "chat.rename.label": "Titel", "chat.pin": "Anheften", "chat.unpin": "Loslösen", "chat.delete": "Löschen",
  "chat.deleted": ({ title }) => `„${title}“ wurde gelöscht.`, "chat.to-end": "Zum Ende", "chat.answering": "Hob antwortet",
  "chat.export.markdown": "Als Markdown exportieren", "chat.export.json": "Als JSON exportieren", "chat.export.archive": "Mit Gedächtnis exportieren",
  "chat.import": "Chat importieren", "chat.imported": "Der Chat wurde importiert.", "chat.imported.text": "Der Chat wurde importiert; sein Gedächtnis gehört zu einem anderen Modell und blieb draußen.",
  "chat.import.failed": "Das lässt sich nicht importieren", "chat.import.unknown": "Chats kommen als .json, .md oder .tar.",
  "composer.label": "Nachricht", "composer.placeholder": "Nachricht schreiben", "composer.send": "Senden", "composer.stop": "Anhalten",
  "composer.profile": "Profil ", "composer.profile.none": "keines", "composer.hint": "Eingabe sendet, Umschalt+Eingabe bricht die Zeile um",
  "message.you": "Du", "message.hob": "Hob", "message.system": "Anweisungen", "message.copy": "Kopieren", "message.edit": "Ändern und neu senden",
  "message.again": "Neu antworten", "message.cold": "Diese Antwort kalt geben: nichts wiederverwenden, zum Vergleich", "message.resend": "Senden", "message.interrupted": "angehalten",
  "message.length": "an der Grenze beendet", "message.reasoning": "Überlegung", "message.call": ({ name }) => `Ruft ${name} auf`, "message.result": "Ergebnis eines Werkzeugs",
  "branch.before": "Voriger Zweig", "branch.after": "Nächster Zweig", "branch.shares": ({ tokens }) => `teilt ${tokens} Token`,
  "branch.shares.long": "Token, die dieser Zweig mit Behaltenem gemeinsam hat und nicht berechnet hat",
  "numbers.ttft": ({ time }) => `${time} bis zum ersten Token`, "numbers.shared": ({ tokens }) => `${tokens} Token heiß`,
  "numbers.memory": ({ tokens }) => `${tokens} Token aus dem Speicher`, "numbers.disk": ({ tokens }) => `${tokens} Token von der Platte`,
  "numbers.ahead": ({ tokens }) => `${tokens} Token vorab berechnet`, "numbers.computed": ({ tokens }) => `${tokens} berechnet`, "numbers.saved": ({ time }) => `etwa ${time} gespart`, "numbers.cold": "kalt",
  "numbers.saved.long": "Geschätzt: nicht berechnete Token bei der gemessenen Rechengeschwindigkeit", "numbers.why": "warum berechnet?",
  "miss.title": "Warum wurde neu berechnet?",
  "welcome.title": "Was soll ich mir merken?", "welcome.text": "Hob behält den Kontext jedes Chats. Komm nächste Woche wieder, und die Antwort beginnt sofort.",
  "notify.answered": "Hob hat geantwortet",

  // Der Dienst hinter der Seite
  "shell.starting": "Hob startet", "shell.doing.opening": "Hob startet", "shell.doing.reading": "Das Modell wird gelesen", "shell.doing.loading": "Das Modell wird geladen",
  "shell.doing.waiting": "Ein anderes Programm arbeitet an Hobs Ablage; sie wird gleich frei", "shell.doing.saving": "Wird gesichert", "shell.failed": ({ message, remedy }) => `${message}. Was hilft: ${remedy}.`,
  "shell.took": "Das andere Hob ist beendet. Dieses macht allein weiter.", "shell.attached": ({ address }) => `Hob läuft in einem anderen Prozess unter ${address}; dieses Fenster zeigt, was er hält.`,
  "shell.away": ({ message }) => `Hob ist nicht erreichbar: ${message}. Neuer Versuch läuft.`, "shell.loading": ({ model }) => `${model} wird geladen`,
  "connect.title": "Hob im Terminal öffnen", "connect.text": "Diese Seite braucht das Token des Dienstes, damit niemand sonst mit ihm spricht. So öffnet sie sich damit:",
  "connect.token": "Oder das Token einfügen", "connect.go": "Verbinden", "connect.where": "hobd sagt beim Start, wo das Token liegt; hob doctor sagt es noch einmal.",

  // Optionen
  "settings.look": "Aussehen", "settings.theme": "Farben", "settings.theme.system": "Wie im System", "settings.theme.light": "Hell", "settings.theme.dark": "Dunkel",
  "settings.language": "Sprache", "settings.answers": "Antworten", "settings.temperature": "Temperatur", "settings.temperature.long": "0 nimmt immer das wahrscheinlichste Wort",
  "settings.profile": "Profil neuer Chats", "settings.app": "App", "settings.close": "Fenster schließen", "settings.close.quit": "beendet Hob", "settings.close.tray": "lässt Hob in der Leiste weiterlaufen",
  "settings.autostart": "Mit dem Rechner starten", "settings.notifications": "Sagen, wenn eine lange Antwort fertig ist", "settings.about": "Über Hob",
  "about.version": "Version", "about.model": "Modell", "about.fingerprint": "Fingerabdruck", "about.context": "Kontext", "about.tokens": ({ tokens }) => `${tokens} Token`,

  // Tasten
  "keys.title": "Tasten", "keys.search": "Chats durchsuchen", "keys.new": "Neuer Chat", "keys.next": "Nächster Chat", "keys.previous": "Voriger Chat", "keys.write": "Schreiben",
  "keys.stop": "Antwort anhalten", "keys.side": "Chats zeigen oder verbergen", "keys.help": "Diese Liste", "keys.send": "Senden", "keys.line": "Zeile umbrechen",
};
