//! Ollama: a manifest a model, `manifests/<host>/<namespace>/<model>/<tag>`, whose layers are named
//! by digest and lie in `blobs/sha256-…`.

use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use super::{Discovery, Source, walk};
use crate::model::ModelFile;
use crate::shards::Group;

const MODEL_LAYER: &str = "application/vnd.ollama.image.model";
const MANIFEST_BYTES: u64 = 1 << 20;

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

/// The model as `ollama list` writes it: the usual host and namespace are left out.
fn name_of(manifest: &Path) -> Option<String> {
    let parts = manifest.components().map(|part| match part {
        Component::Normal(part) => part.to_str(),
        _ => None,
    });
    let parts = parts.collect::<Option<Vec<_>>>()?;
    Some(match parts[..] {
        ["registry.ollama.ai", "library", model, tag] => format!("{model}:{tag}"),
        ["registry.ollama.ai", owner, model, tag] => format!("{owner}/{model}:{tag}"),
        [host, owner, model, tag] => format!("{host}/{owner}/{model}:{tag}"),
        _ => return None,
    })
}

fn model_blob(root: &Path, manifest: &Path) -> Option<PathBuf> {
    if fs::metadata(manifest).ok()?.len() > MANIFEST_BYTES {
        return None;
    }
    let manifest: Manifest = serde_json::from_slice(&fs::read(manifest).ok()?).ok()?;
    let layer = manifest.layers.into_iter().find(|layer| layer.media_type == MODEL_LAYER)?;
    let digits = layer.digest.strip_prefix("sha256:")?;
    // The digest becomes a file name: nothing but a digest may.
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
        let shelf = Shelf::new();
        shelf.manifest("registry.ollama.ai/library/qwen3/latest", &shelf.blob('a'));
        shelf.manifest("registry.ollama.ai/someone/qwen3/4b", &shelf.blob('b'));
        shelf.manifest("hf.co/someone/qwen3/4b", &shelf.blob('c'));
        let found = shelf.discover();
        let names: Vec<_> = found.models.iter().map(|model| model.name.as_str()).collect();
        assert_eq!(names, ["hf.co/someone/qwen3:4b", "qwen3:latest", "someone/qwen3:4b"]);
        assert!(found.models[1].aliases.contains(&"qwen3".to_owned()));
    }

    #[test]
    fn a_digest_that_is_none_reaches_no_file() {
        let shelf = Shelf::new();
        Gguf::new("llama").write(&shelf.0.path().join("secret"));
        for digest in ["sha256:../../secret", "../secret", "sha256:short", ""] {
            shelf.manifest("registry.ollama.ai/library/evil/latest", digest);
            let found = shelf.discover();
            assert!(found.models.is_empty() && found.problems.is_empty(), "{digest}");
        }
    }

    #[test]
    fn a_missing_blob_is_a_problem_that_names_it() {
        let shelf = Shelf::new();
        let digest = format!("sha256:{}", "d".repeat(64));
        shelf.manifest("registry.ollama.ai/library/gone/latest", &digest);
        assert!(shelf.discover().problems[0].to_string().contains("sha256-ddd"));
    }

    struct Shelf(tempfile::TempDir);

    impl Shelf {
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
