//! Ollama: each model has a manifest, `manifests/<host>/<namespace>/<model>/<tag>`, whose layers
//! are the files `blobs/sha256-<digest>`.

use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use super::{Discovery, walk};
use crate::model::ModelFile;
use crate::shards::Group;
use crate::source::Source;

const MODEL_LAYER: &str = "application/vnd.ollama.image.model";
const MAX_MANIFEST_BYTES: u64 = 1 << 20;

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
struct Layer {
    #[serde(rename = "mediaType")]
    media_type: String,
    digest: String,
}

pub(super) fn find(root: &Path, found: &mut Discovery) {
    let manifests = root.join("manifests");
    for path in walk::files(&manifests) {
        let name = path.strip_prefix(&manifests).ok().and_then(name_of);
        let Some((name, blob)) = name.zip(model_blob(root, &path)) else { continue };
        let group = Group { stem: name.clone(), files: vec![blob], total: 1, missing: vec![] };
        found.add(ModelFile::of_group(group, Source::Ollama), |model| {
            // `ollama run qwen3` means the tag `latest`.
            model.aliases.extend(name.strip_suffix(":latest").map(str::to_owned));
            model.aliases.push(format!("ollama:{name}"));
        });
    }
}

/// The name as `ollama list` shows it, without the default host and namespace.
fn name_of(manifest: &Path) -> Option<String> {
    let components = manifest.components().map(|part| match part {
        Component::Normal(part) => part.to_str(),
        _ => None,
    });
    let parts = components.collect::<Option<Vec<_>>>()?;
    Some(match parts[..] {
        ["registry.ollama.ai", "library", model, tag] => format!("{model}:{tag}"),
        ["registry.ollama.ai", owner, model, tag] => format!("{owner}/{model}:{tag}"),
        [host, owner, model, tag] => format!("{host}/{owner}/{model}:{tag}"),
        _ => return None,
    })
}

fn model_blob(root: &Path, manifest: &Path) -> Option<PathBuf> {
    if fs::metadata(manifest).ok()?.len() > MAX_MANIFEST_BYTES {
        return None;
    }
    let manifest: Manifest = serde_json::from_slice(&fs::read(manifest).ok()?).ok()?;
    let layer = manifest.layers.into_iter().find(|layer| layer.media_type == MODEL_LAYER)?;
    let digits = layer.digest.strip_prefix("sha256:")?;
    // The digest becomes a file name, so it must be one.
    let is_digest = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest.then(|| root.join("blobs").join(format!("sha256-{digits}")))
}

#[cfg(test)]
mod tests {
    use super::super::{Roots, discover};
    use super::*;
    use crate::testing::Gguf;

    #[test]
    fn a_manifest_leads_to_its_model_layer() {
        let ollama = OllamaDir::new();
        ollama.manifest("registry.ollama.ai/library/qwen3/latest", &ollama.blob('a'));
        ollama.manifest("registry.ollama.ai/someone/qwen3/4b", &ollama.blob('b'));
        ollama.manifest("hf.co/someone/qwen3/4b", &ollama.blob('c'));
        let found = ollama.discover();
        let names: Vec<_> = found.models.iter().map(|model| model.name.as_str()).collect();
        assert_eq!(names, ["hf.co/someone/qwen3:4b", "qwen3:latest", "someone/qwen3:4b"]);
        assert!(found.models[1].aliases.contains(&"qwen3".to_owned()));
    }

    #[test]
    fn an_invalid_digest_reaches_no_file() {
        let ollama = OllamaDir::new();
        Gguf::new("llama").write(&ollama.0.path().join("secret"));
        for digest in ["sha256:../../secret", "../secret", "sha256:short", ""] {
            ollama.manifest("registry.ollama.ai/library/evil/latest", digest);
            let found = ollama.discover();
            assert!(found.models.is_empty() && found.problems.is_empty(), "{digest}");
        }
    }

    #[test]
    fn a_missing_blob_is_a_problem_that_names_it() {
        let ollama = OllamaDir::new();
        let digest = format!("sha256:{}", "d".repeat(64));
        ollama.manifest("registry.ollama.ai/library/gone/latest", &digest);
        assert!(ollama.discover().problems[0].to_string().contains("sha256-ddd"));
    }

    struct OllamaDir(tempfile::TempDir);

    impl OllamaDir {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn blob(&self, digit: char) -> String {
            let digits = digit.to_string().repeat(64);
            let path = self.0.path().join("blobs").join(format!("sha256-{digits}"));
            Gguf::new("qwen3").tensor(&digits, 32).write(&path);
            format!("sha256:{digits}")
        }

        fn manifest(&self, path: &str, digest: &str) {
            let path = self.0.path().join("manifests").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = format!(
                r#"{{"layers":[{{"mediaType":"x","digest":"sha256:0"}},
                {{"mediaType":"{MODEL_LAYER}","digest":"{digest}","size":1}}]}}"#
            );
            fs::write(path, text).unwrap();
        }

        fn discover(&self) -> Discovery {
            discover(&Roots { ollama: vec![self.0.path().to_owned()], ..Roots::default() })
        }
    }
}
