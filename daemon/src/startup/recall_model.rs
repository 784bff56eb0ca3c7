//! The embedding model of the settings, by which a conversation finds what left its cells.
//!
//! One that makes no embeddings, or does not load, costs this alone: words find what left without it.

use hob_models::ModelFile;
use hob_runtime::Embedder;

use crate::models::CurrentRecallModel;

/// An embedding model, or why there is none.
pub struct RecallModel {
    /// As people see it.
    pub name: String,
    /// The reason why it finds nothing.
    pub embedder: Result<Embedder, String>,
    /// If it is used.
    pub file: Option<ModelFile>,
}

impl RecallModel {
    pub fn current(&self) -> CurrentRecallModel {
        CurrentRecallModel {
            name: self.name.clone(),
            refused: self.embedder.as_ref().err().cloned(),
        }
    }
}

#[cfg(feature = "llama")]
mod real {
    use std::ops::ControlFlow;
    use std::sync::Arc;

    use hob_config::Resolved;
    use hob_runtime::backend::llama::{GpuLayers, LlamaModel, LlamaOptions, Placement};

    use super::*;
    use crate::startup::Report;
    use crate::startup::beside::{self, Found, Refused};

    const LOST: &str = "what leaves conversations is found by its words alone";

    impl RecallModel {
        /// Finds, tries and loads the embedding model of the settings. `None`: they name none.
        pub fn load(resolved: &Resolved, report: &mut Report<'_>) -> Option<Self> {
            let choice = resolved.settings.recall_model.as_ref()?;
            let refused = |name, reason| Refused::new(name, reason, LOST);
            let loaded = beside::find(resolved, choice, report)
                .map_err(|error| refused(choice.to_string(), format!("{error:#}")))
                .and_then(|Found { file, .. }| match embedder(&file) {
                    Ok(embedder) => Ok((file, embedder)),
                    Err(error) => Err(refused(file.name, format!("{error:#}"))),
                });
            Some(match loaded {
                Ok((file, embedder)) => {
                    tracing::info!(path = %file.path.display(), "recall model");
                    Self { name: file.name.clone(), embedder: Ok(embedder), file: Some(file) }
                }
                Err(Refused { name, reason }) => Self { name, embedder: Err(reason), file: None },
            })
        }
    }

    fn embedder(file: &ModelFile) -> anyhow::Result<Embedder> {
        let goes_on = &mut |_| ControlFlow::Continue(());
        let model = LlamaModel::load_telling(&file.path, options(), goes_on)?;
        Ok(Embedder::start(Arc::new(model))?)
    }

    /// One thread of the processor: its texts are short, and answers have the other cores and all devices.
    fn options() -> LlamaOptions {
        let placement = Placement { layers: GpuLayers::Count(0), ..Placement::default() };
        LlamaOptions { threads: 1, placement, ..LlamaOptions::default() }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_recall_model_takes_nothing_of_a_device() {
            assert_eq!(options().placement.layers, GpuLayers::Count(0));
        }
    }
}
