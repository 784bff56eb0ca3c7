//! The routes that change Ollama's own store of models: hobd reads models where they are, and changes none.

use crate::error::{ApiError, ErrorKind};

pub async fn pull() -> ApiError {
    refused(
        "hobd pulls no models from Ollama's registry: put a GGUF file into its `models` directory, or pull it \
         with Ollama, whose models `hob models` lists",
    )
}

pub async fn create() -> ApiError {
    refused(
        "hobd creates no models: settings of a profile (docs/PROFILES.md) do what a Modelfile does",
    )
}

pub async fn delete() -> ApiError {
    refused("hobd deletes no models: delete the file that `hob models` lists")
}

pub async fn copy() -> ApiError {
    refused("hobd copies no models")
}

pub async fn push() -> ApiError {
    refused("hobd publishes no models")
}

pub async fn blob() -> ApiError {
    refused("hobd stores no files of models: put a GGUF file into its `models` directory")
}

fn refused(message: &str) -> ApiError {
    ApiError::new(ErrorKind::NotImplemented, message).code("unsupported")
}
