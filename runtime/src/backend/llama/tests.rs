//! Of a model in memory, and of the pin of llama.cpp.

use super::*;

/// A model whose weights say that a device has all layers.
fn loaded(layers: GpuLayers) -> LlamaModel {
    let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../assets/hob-tiny-f16.gguf"));
    let placement = Placement { layers, ..Placement::default() };
    let options = LlamaOptions { threads: 1, placement, ..LlamaOptions::default() };
    let model = LlamaModel::load(file, options).expect("the bundled model loads");
    let weights = model.weights.write().take();
    let weights = weights.and_then(Arc::into_inner).expect("nothing else has the weights");
    let devices = vec!["CUDA0".to_owned()];
    let offload = Offload { layers: 5, all_layers: 5, devices, split: vec![5], kv: true };
    *model.weights.write() = Some(Arc::new(weights.said_to_be_on(offload)));
    model
}

#[test]
fn the_processor_gets_the_layers_where_a_chosen_device_has_no_memory_for_a_context() {
    let model = loaded(GpuLayers::Auto);
    let shape = |context_tokens| ContextShape { context_tokens, sequences: 2, micro_batch: 32 };
    let refused = model.with_context(shape(1 << 40), &mut |_| panic!("it has a context"));
    assert!(matches!(&refused, Err(LoadError::Context { beside: Some(_), .. })), "{refused:?}");
    let mut goes_on = |_| ControlFlow::Continue(());
    assert_eq!(model.leave_devices(&mut goes_on), Ok(true));
    assert_eq!(model.offload(), None);
    assert!(!model.tokenize("hello", false, false).is_empty());
    let mut cells = 0;
    let made = model.with_context(shape(256), &mut |it| cells = it.context_tokens());
    assert_eq!((made, cells), (Ok(()), 256));
    assert_eq!(model.leave_devices(&mut goes_on), Ok(false), "it has left them");
}

#[test]
fn layers_that_a_setting_puts_on_a_device_stay_there() {
    let model = loaded(GpuLayers::Count(99));
    let left = model.leave_devices(&mut |_| ControlFlow::Continue(()));
    assert_eq!((left, model.offload().is_some()), (Ok(false), true));
}

#[test]
fn the_state_format_names_the_pinned_llama_cpp() {
    let manifest = include_str!("../../../../Cargo.toml");
    let pin = manifest.lines().find(|line| line.starts_with("llama-cpp-sys-2 = "));
    let version = pin.and_then(|line| line.split("\"=").nth(1)?.split('"').next());
    let expected = format!("llama-cpp-sys-2 {}", version.expect("the version is pinned"));
    assert_eq!(STATE_FORMAT, expected);
}
