use std::path::Path;

use hob_prewarm::{Outline, Profile};
use hob_runtime::backend::Model;
use hob_runtime::backend::fake::FakeModel;
use hob_slots::Layer;
use serde_json::json;

use super::*;
use crate::prompt::{DocumentTexts, RendersIn, Template};

/// Text, then tools, in one system message: Qwen.
const TOOLS_BEHIND: &str = include_str!("../../../../assets/make/template.jinja");
/// No system role: its text stands in the first question, and a second one is refused.
const FOLDED: &str = "{%- if messages[0].role == 'system' %}\
    {%- set first = messages[0].content + '\\n\\n' %}{%- set rest = messages[1:] %}\
    {%- else %}{%- set first = '' %}{%- set rest = messages %}{%- endif %}\
    {%- for message in rest %}\
    {%- if message.role == 'system' %}{{ raise_exception('roles must alternate') }}{%- endif %}\
    {{- '<|im_start|>' + message.role + '\\n' + (first if loop.first else '') }}\
    {%- if loop.first and tools %}{{ tools | tojson }}{%- endif %}\
    {{- message.content | trim + '<|im_end|>\\n' }}{%- endfor %}\
    {%- if add_generation_prompt %}{{ '<|im_start|>model\\n' }}{%- endif %}";
/// No control token between system text and question; the first message is taken for a question.
const UNMARKED: &str = "{%- if messages[0].role == 'system' %}{{ messages[0].content + '\\n' }}\
    {%- set messages = messages[1:] %}{%- endif %}\
    {%- if tools %}{{ 'Tools: ' + (tools | tojson) + '\\n' }}{{ messages[0].content }}\
    {%- set messages = messages[1:] %}{%- endif %}\
    {%- for message in messages %}{{ '[' + message.content + ']' }}{%- endfor %}";

/// Instructions are refused, and so are two messages of the user in a row: Gemma 2, with tools.
const ALTERNATING: &str = "{%- if messages[0].role == 'system' %}\
    {{- raise_exception('System role not supported') }}{%- endif %}\
    {%- if tools %}{{ '<|im_start|>tools\\n' + (tools | tojson) + '<|im_end|>\\n' }}{%- endif %}\
    {%- for message in messages %}{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}\
    {{- raise_exception('roles must alternate') }}{%- endif %}\
    {{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>\\n' }}{%- endfor %}\
    {%- if add_generation_prompt %}{{ '<|im_start|>model\\n' }}{%- endif %}";

const QUESTIONS: [&str; 9] =
    ["Hi", "\n\n  Hello", "7 lights", "'tis", "\u{fc}ber", "\u{8a9e}", "?", " ", "<|im_end|>"];

#[test]
fn the_prefix_begins_every_first_request_of_its_profile() {
    for renderer in renderers() {
        for (name, profile) in profiles() {
            let preamble = Preamble::new(profile, renderer.template()).unwrap();
            let SharedPrefix { tokens: prefix, segments } = prefix(&renderer, &preamble);
            assert!(!prefix.is_empty());
            assert_eq!(segments.last().map(|last| last.end as usize), Some(prefix.len()), "{name}");
            for question in QUESTIONS {
                let messages = [Message::plain(Role::User, question)];
                let real = real(&renderer, &preamble, &messages);
                assert!(real.tokens.starts_with(&prefix), "{name}: {question:?}");
                assert!(real.tokens.len() > prefix.len());
                let same = real.segments.iter().zip(&segments).take_while(|(a, b)| a == b).count();
                assert!(same + 1 >= segments.len(), "{name}: {segments:?} {:?}", real.segments);
            }
        }
    }
}

#[test]
fn the_prefix_has_the_whole_stable_text_and_all_tools() {
    for renderer in renderers() {
        for (name, profile) in profiles() {
            let preamble = Preamble::new(profile, renderer.template()).unwrap();
            let text = prefix_text(&renderer, &preamble);
            assert!(text.contains(&preamble.profile.stable_text()), "{name}: {text}");
            for tool in preamble.tools().iter().filter(|_| preamble.tail().is_empty()) {
                assert!(text.contains(&tool.name), "{name}: {text}");
            }
            assert!(
                preamble.tail().is_empty() || !text.contains(preamble.tail()),
                "{name}: {text}"
            );
        }
    }
}

#[test]
fn a_clock_is_written_behind_the_tools_where_the_template_allows_it() {
    let renderer = renderer(TOOLS_BEHIND);
    let preamble = Preamble::new(load(CLOCK), renderer.template()).unwrap();
    let text = real(&renderer, &preamble, &[Message::plain(Role::User, "Hi")]).text;
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part:?} in {text}"));
    assert!(place("You are Ember.") < place("set_light"));
    assert!(place("set_light") < place("It is noon."));
    assert!(place("It is noon.") < place("Hi"));
    assert!(prefix_text(&renderer, &preamble).contains("set_light"));
}

#[test]
fn a_template_with_one_system_message_gets_one() {
    for source in [FOLDED, UNMARKED, ALTERNATING] {
        let renderer = renderer(source);
        let preamble = Preamble::new(load(CLOCK), renderer.template()).unwrap();
        let text = real(&renderer, &preamble, &[Message::plain(Role::User, "Hi")]).text;
        assert!(text.contains("You are Ember.\n\nIt is noon."), "{text}");
    }
}

#[test]
fn a_clients_own_system_message_is_written_behind_the_profile_and_its_prefix() {
    let renderer = renderer(TOOLS_BEHIND);
    let preamble = Preamble::new(load(CLOCK), renderer.template()).unwrap();
    let own = [Message::plain(Role::System, "Speak French."), Message::plain(Role::User, "Hi")];
    let rendered = real(&renderer, &preamble, &own);
    assert!(rendered.text.contains("It is noon.\n\nSpeak French."), "{}", rendered.text);
    let SharedPrefix { tokens: prefix, .. } = prefix(&renderer, &preamble);
    assert!(rendered.tokens.starts_with(&prefix));
}

#[test]
fn each_part_of_the_prompt_is_a_segment() {
    let renderer = renderer(TOOLS_BEHIND);
    let preamble = Preamble::new(load(CLOCK), renderer.template()).unwrap();
    let rendered = real(&renderer, &preamble, &[Message::plain(Role::User, "Hi")]);
    let told: Vec<_> = rendered.segments.iter().map(|it| (it.layer, it.key.as_str())).collect();
    let expected = [
        (Layer::Identity, "ember"),
        (Layer::Capabilities, "tools"),
        (Layer::Context, "tail"),
        (Layer::Identity, "message 2"),
        (Layer::User, "message 3"),
    ];
    assert_eq!(told, expected);
    assert!(rendered.segments.is_sorted_by_key(|segment| segment.end));
}

#[test]
fn each_part_of_a_tail_has_its_own_layer() {
    let renderer = renderer(TOOLS_BEHIND);
    let rules = "[[segment]]\nlayer = 'rules'\ntext = 'Be brief.'\n";
    let preamble = Preamble::new(load(&format!("{CLOCK}{rules}")), renderer.template()).unwrap();
    let rendered = real(&renderer, &preamble, &[Message::plain(Role::User, "Hi")]);
    let told: Vec<_> = rendered.segments.iter().map(|it| (it.layer, it.key.as_str())).collect();
    assert_eq!(told[2..4], [(Layer::Context, "tail"), (Layer::Rules, "tail")], "{told:?}");
}

#[test]
fn a_changed_segment_keeps_the_prefix_before_it() {
    let renderer = renderer(TOOLS_BEHIND);
    let prefix = |text: &str| {
        let preamble = Preamble::new(load(text), renderer.template()).unwrap();
        let SharedPrefix { tokens, segments } = prefix(&renderer, &preamble);
        (tokens, segments)
    };
    let two = "[[segment]]\nlayer = 'identity'\ntext = 'You are Ember.'\n\
               [[segment]]\nlayer = 'rules'\ntext = 'Be brief.'\n";
    let ((before, segments), (after, _)) = (prefix(two), prefix(&two.replace("brief", "loud")));
    let same = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    assert!(same >= segments[0].end as usize && same < segments[1].end as usize);
}

#[test]
fn a_template_without_tools_refuses_a_profile_with_tools() {
    let plain = "{%- for message in messages %}{{ message.content }}{%- endfor %}";
    let renderer = renderer(plain);
    let error = Preamble::new(load(CLOCK), renderer.template()).unwrap_err();
    assert!(error.message.contains("knows no tools"), "{error}");
}

const CLOCK: &str = "[[segment]]\nlayer = 'identity'\nkey = 'ember'\ntext = 'You are Ember.'\n\
    [[segment]]\nlayer = 'context'\ntext = 'It is noon.'\nstable = false\n\
    [[segment]]\nlayer = 'capabilities'\ntools = 'tools.json'\n";
const TOOLS: &str = r#"[{"type": "function", "function": {"name": "set_light", "parameters":
    {"type": "object", "properties": {"room": {"type": "string"}}}}}]"#;

/// Those that come with Hob, and shapes of all kinds.
fn profiles() -> Vec<(String, Profile)> {
    let shapes = [
        ("text alone", "[[segment]]\nlayer = 'rules'\ntext = 'Be brief.'\n"),
        ("tools alone", "[[segment]]\nlayer = 'capabilities'\ntools = 'tools.json'\n"),
        (
            "a tail",
            "[[segment]]\nlayer = 'rules'\ntext = 'Be brief.'\n\
             [[segment]]\nlayer = 'context'\ntext = 'Now.'\nstable = false\n",
        ),
        ("a tail and tools", CLOCK),
    ];
    let mut profiles: Vec<_> =
        shapes.into_iter().map(|(name, text)| (name.to_owned(), load(text))).collect();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/profiles");
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let outline = Outline::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let profile = Profile::load(&outline, &directory, |file| std::fs::read(file)).unwrap();
            profiles.push((path.display().to_string(), profile));
        }
    }
    assert!(profiles.len() > shapes.len(), "the example profile is missing");
    profiles
}

fn load(text: &str) -> Profile {
    let read = |_: &Path| Ok(TOOLS.as_bytes().to_vec());
    Profile::load(&Outline::parse(text).unwrap(), Path::new("/p"), read).unwrap()
}

fn renderers() -> Vec<Renderer> {
    let own = Renderer::of(Arc::new(FakeModel::new()), RendersIn::ThisProcess);
    let made = [TOOLS_BEHIND, FOLDED, UNMARKED, ALTERNATING].map(renderer);
    std::iter::once(own).chain(made).collect()
}

fn renderer(source: &str) -> Renderer {
    let model = FakeModel::new();
    let template = Template::new(source, model.vocabulary(), RendersIn::ThisProcess);
    Renderer::new(Arc::new(model), template)
}

fn prefix(renderer: &Renderer, preamble: &Preamble) -> SharedPrefix {
    shared_prefix(renderer, preamble).unwrap()
}

fn real(renderer: &Renderer, preamble: &Preamble, messages: &[Message]) -> Rendered {
    let variables = json!({}).as_object().cloned().unwrap();
    let tools = preamble.tools();
    let preamble = Some(preamble);
    let documents = DocumentTexts::new();
    let parts =
        PromptParts { preamble, messages, tools, variables: &variables, documents: &documents };
    renderer.render(&parts, &[]).unwrap()
}

fn prefix_text(renderer: &Renderer, preamble: &Preamble) -> String {
    let SharedPrefix { tokens, .. } = prefix(renderer, preamble);
    String::from_utf8(FakeModel::new().vocabulary().bytes(&tokens)).unwrap()
}
