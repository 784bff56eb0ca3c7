//! Opens the place of a shared tier.
//!
//! - Credentials come from the environment, under the names that S3's own tools read. They are no settings:
//!   `hob config` shows settings. No other source of credentials is asked, so no service of a cloud is.
//! - Nothing is sent while a place is opened.

use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hob_config::SharedPlace;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, RetryConfig};

use super::connector::Connector;
use crate::private_dir;

const KEY_ID: &str = "AWS_ACCESS_KEY_ID";
const SECRET: &str = "AWS_SECRET_ACCESS_KEY";
const TOKEN: &str = "AWS_SESSION_TOKEN";
const REGION: &str = "AWS_REGION";
/// What storage that is not Amazon's goes by.
const DEFAULT_REGION: &str = "us-east-1";

#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("the shared directory {} cannot be used: make it writable for hobd, or change `shared`", path.display())]
    Directory { path: PathBuf, source: std::io::Error },
    #[error(
        "`shared` names {place}, and there is no {name} in the environment: set it and {}",
        other(name)
    )]
    NoCredentials { place: String, name: &'static str },
    #[error(
        "`shared` names {place}, which cannot be used: correct `shared` or `shared_endpoint`: {source}"
    )]
    Store { place: String, source: object_store::Error },
}

fn other(name: &str) -> &'static str {
    if name == KEY_ID { SECRET } else { KEY_ID }
}

/// The store, and the folder in it.
pub fn open(
    place: &SharedPlace,
    endpoint: Option<&str>,
) -> Result<(Arc<dyn ObjectStore>, Path), PlaceError> {
    match place {
        SharedPlace::Directory(path) => Ok((directory(path)?, Path::default())),
        SharedPlace::S3 { bucket, prefix } => {
            Ok((bucket_of(place, bucket, endpoint)?, Path::from(prefix.as_str())))
        }
    }
}

fn directory(path: &FilePath) -> Result<Arc<dyn ObjectStore>, PlaceError> {
    let failed = |source| PlaceError::Directory { path: path.to_owned(), source };
    private_dir::create(path).map_err(failed)?;
    // Another machine may read a file as soon as it is there: it is durable first.
    let store = LocalFileSystem::new_with_prefix(path).map(|store| store.with_fsync(true));
    store.map(|store| Arc::new(store) as _).map_err(|error| failed(std::io::Error::other(error)))
}

fn bucket_of(
    place: &SharedPlace,
    bucket: &str,
    endpoint: Option<&str>,
) -> Result<Arc<dyn ObjectStore>, PlaceError> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let needed = |name| {
        variable(name).ok_or_else(|| PlaceError::NoCredentials { place: place.to_string(), name })
    };
    let retry = RetryConfig {
        max_retries: 2,
        retry_timeout: Duration::from_secs(5),
        ..RetryConfig::default()
    };
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(bucket)
        .with_region(variable(REGION).as_deref().unwrap_or(DEFAULT_REGION))
        .with_access_key_id(needed(KEY_ID)?)
        .with_secret_access_key(needed(SECRET)?)
        .with_retry(retry)
        .with_http_connector(Connector);
    if let Some(token) = variable(TOKEN) {
        builder = builder.with_token(token);
    }
    if let Some(endpoint) = endpoint {
        let is_clear = endpoint.starts_with("http://");
        builder = builder.with_endpoint(endpoint).with_allow_http(is_clear);
    }
    let store = builder.build();
    store
        .map(|store| Arc::new(store) as _)
        .map_err(|source| PlaceError::Store { place: place.to_string(), source })
}
