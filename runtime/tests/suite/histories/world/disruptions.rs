//! Random events that end turns, take KV away, or end the engine.

use std::ops::ControlFlow;

use hob_runtime::TurnError;

use super::{Running, World, finish_async};

use crate::histories::directory;
use crate::support::*;

impl World {
    pub(super) fn cancel(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let index = self.random.below(self.running.len());
        let mut running = self.running.remove(index);
        let Running { chat, number, .. } = running;
        let events = *self.random.among(&[0, 0, 1, 3]);
        self.note(format!("cancel chat {chat:?} turn {number} after {events} events"));
        for _ in 0..events {
            self.patiently(running.turn.next());
        }
        self.interrupted(running);
    }

    pub(super) fn park(&mut self) {
        let name = self.random.among(&self.chats).name.clone();
        self.note(format!("park {name}"));
        self.patiently(self.engine.park(crate::support::name(&name)));
    }

    pub(super) fn forget(&mut self) {
        let chat = self.random.below(self.chats.len());
        self.chats[chat].kept = None;
        let running = self.running.iter_mut().filter(|running| running.chat == Some(chat));
        running.for_each(|running| running.forgotten = true);
        let name = self.chats[chat].name.clone();
        self.note(format!("forget {name}"));
        self.leaving = true;
        self.patiently(self.engine.forget(crate::support::name(&name))).unwrap();
    }

    /// Shuts the engine down and opens another one over the directory.
    pub(super) fn restart(&mut self) {
        self.note("restart".to_owned());
        self.engine.shutdown();
        self.check_views();
        for mut running in std::mem::take(&mut self.running) {
            let answer = self.patiently(finish_async(&mut running.turn));
            let Running { chat, request, .. } = &running;
            match answer {
                Ok(answer) => self.compare(*chat, running.number, request, &answer),
                Err(TurnError::Stopped) => self.interrupted(running),
                Err(TurnError::Forgotten) => {}
                Err(error) if self.may_fail(request, &error) => {}
                Err(error) => panic!("chat {chat:?}: {error}"),
            }
        }
        self.open();
    }

    /// Drops the engine, and opens another one over a copy of the directory at that moment.
    pub(super) fn crash(&mut self) {
        self.note("crash".to_owned());
        self.torn |= self.leaving;
        let copy = empty_directory();
        let slot_files = || directory::contents(self.directory.path(), "bin");
        let mut before = slot_files();
        loop {
            // Slot files first: their objects were written before them.
            directory::copy_files(self.directory.path(), copy.path(), "bin");
            directory::copy_files(self.directory.path(), copy.path(), "kv");
            let now = slot_files();
            if now == before {
                break;
            }
            before = now; // Snapshots that the replaced ones name may be gone.
        }
        self.running.clear();
        self.engine.shutdown();
        self.directory = copy;
        self.chats.iter_mut().for_each(|chat| chat.kept = None);
        self.open();
    }

    fn open(&mut self) {
        self.leaving = false;
        // The engine before may have dropped them.
        self.model.load_weights(&mut |_| ControlFlow::Continue(())).expect("they load");
        let directory = self.stores.then(|| self.directory.path());
        self.engine = engine(&self.model, directory, self.options.clone());
    }

    /// Damages, truncates or removes a file.
    pub(super) fn harm(&mut self) {
        let files = files::with_extensions(self.directory.path(), &["kv", "bin"]);
        if !self.random.one_in(2) || files.is_empty() {
            return;
        }
        let file = self.random.among(&files).clone();
        self.note(format!("harm {}", file.display()));
        let Ok(mut bytes) = std::fs::read(&file) else { return };
        match self.random.below(3) {
            0 => std::fs::remove_file(&file).unwrap_or(()),
            1 => std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap_or(()),
            _ => {
                let at = self.random.below(bytes.len());
                bytes[at] ^= 0x40;
                std::fs::write(&file, bytes).unwrap_or(());
            }
        }
        self.harmed = true;
        self.chats.iter_mut().for_each(|chat| chat.kept = None);
    }
}
