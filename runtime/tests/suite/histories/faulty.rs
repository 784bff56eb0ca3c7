//! Contexts whose micro-batches, changes of adapters and exports fail now and then.

use hob_runtime::backend::{DecodeError, LoadError, StateError};

use crate::histories::hooked::Hooks;

/// One in so many calls of a context fails.
#[derive(Clone)]
pub struct Faults {
    one_in: u64,
    /// Calls of this context so far.
    calls: u64,
}

impl Faults {
    pub fn one_in(calls: u64) -> Self {
        Self { one_in: calls, calls: 0 }
    }

    fn fails(&mut self) -> bool {
        self.calls += 1;
        self.calls.is_multiple_of(self.one_in)
    }

    fn export(&mut self) -> Result<(), StateError> {
        if self.fails() {
            return Err(StateError::Export { announced: 1, written: 0 });
        }
        Ok(())
    }
}

impl Hooks for Faults {
    fn before_decode(&mut self) -> Result<(), DecodeError> {
        if self.fails() {
            return Err(DecodeError::Failed("injected".to_owned()));
        }
        Ok(())
    }

    fn before_set_adapters(&mut self) -> Result<(), LoadError> {
        if self.fails() {
            let (path, reason) = ("injected".to_owned(), "injected".to_owned());
            return Err(LoadError::Adapter { path, reason, setting: "adapters" });
        }
        Ok(())
    }

    fn before_export_of_cells(&mut self) -> Result<(), StateError> {
        self.export()
    }

    fn before_export_of_rest(&mut self) -> Result<(), StateError> {
        self.export()
    }
}
