//! The fields of a session that are about sound.

use hob_prewarm::phrase::VoiceName;
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::speech::voice::named_voice;

/// The others are those of its chats.
const SOUND_FIELDS: [&str; 5] =
    ["audio", "turn_detection", "output_modalities", "modalities", "voice"];

/// The names of one field, in OpenAI's API of today and in its older one.
const MODALITIES: [&str; 2] = ["output_modalities", "modalities"];

const RATES: std::ops::RangeInclusive<i64> = 8_000..=48_000;

/// The only format, in and out.
const FORMAT: &str = "audio/pcm";

/// How a session hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hearing {
    /// Samples a second of appended sound.
    pub rate: u32,
    /// Whether the server finds the start and the end of speech.
    pub detects: bool,
}

impl Default for Hearing {
    /// As the Realtime API defines it.
    fn default() -> Self {
        Self { rate: 24_000, detects: true }
    }
}

/// How a session answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Output {
    #[default]
    Text,
    /// In this voice; `None`: in the default one.
    Sound(Option<VoiceName>),
}

/// What a session's [`SOUND_FIELDS`] mean.
pub(super) struct SoundSettings {
    pub hearing: Hearing,
    pub output: Output,
}

impl SoundSettings {
    pub fn of(sound: &Value) -> Result<Self, ApiError> {
        let (input, output) = (&sound["audio"]["input"], &sound["audio"]["output"]);
        for (name, format) in [("input", &input["format"]), ("output", &output["format"])] {
            if format["type"].as_str().is_some_and(|kind| kind != FORMAT) {
                let field = format!("session.audio.{name}.format.type");
                let message = format!("`{field}` must be {FORMAT}, mono and 16 bits a sample");
                return Err(ApiError::field(field, message));
            }
        }
        let rate = match &input["format"]["rate"] {
            Value::Null => Hearing::default().rate,
            rate => {
                let rate = rate.as_i64().filter(|rate| RATES.contains(rate));
                rate.and_then(|rate| rate.try_into().ok()).ok_or_else(|| {
                    let message = "`session.audio.input.format.rate` must be between 8000 and \
                                   48000 samples a second";
                    ApiError::field("session.audio.input.format.rate", message)
                })?
            }
        };
        // `null` switches detection off, as in the Realtime API; absent leaves it on.
        let is_off = |fields: &Value| fields.get("turn_detection").is_some_and(Value::is_null);
        let modalities = MODALITIES.iter().find_map(|name| sound[name].as_array());
        let speaks = modalities.is_some_and(|list| list.iter().any(|kind| kind == "audio"));
        let name = output["voice"].as_str().or_else(|| sound["voice"].as_str());
        let parsed = named_voice(name).map(str::parse::<VoiceName>).transpose();
        let voice = parsed.map_err(|error| ApiError::field("session.voice", error.to_string()))?;
        let detects = !is_off(sound) && !is_off(input);
        let answer = if speaks { Output::Sound(voice) } else { Output::Text };
        Ok(Self { hearing: Hearing { rate, detects }, output: answer })
    }
}

/// Moves the fields about sound of a `session.update` into `sound`.
pub(super) fn take_sound(update: &mut Map<String, Value>, sound: &mut Value) {
    let is_named = |name: &&str| update.get(*name).is_some_and(|value| !value.is_null());
    // Under either name, the last update decides.
    if MODALITIES.iter().any(is_named)
        && let Some(sound) = sound.as_object_mut()
    {
        sound.retain(|name, _| !MODALITIES.contains(&name.as_str()));
    }
    for name in SOUND_FIELDS {
        if let Some(value) = update.shift_remove(name) {
            merge(&mut sound[name], value);
        }
    }
}

/// `more` replaces `value`, except the fields of an object that it does not name.
fn merge(value: &mut Value, more: Value) {
    match (value, more) {
        (Value::Object(fields), Value::Object(more)) => {
            for (name, more) in more {
                merge(fields.entry(name).or_insert(Value::Null), more);
            }
        }
        (value, more) => *value = more,
    }
}
