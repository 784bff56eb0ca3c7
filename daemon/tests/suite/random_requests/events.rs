//! Random messages of a realtime session: events with changes, and bytes of WebSocket frames.

use serde_json::{Value, json};

use super::random::Random;

/// The text of one message. Most are events that a session knows.
pub fn event(random: &mut Random) -> Vec<u8> {
    let mut event = if random.one_in(6) { random.value(4) } else { valid(random) };
    for _ in 0..random.below(3) {
        random.change(&mut event);
    }
    let mut text = serde_json::to_vec(&event).expect("a value is JSON");
    if random.one_in(8) {
        random.damage(&mut text);
    }
    text
}

fn valid(random: &mut Random) -> Value {
    let name = random.among(&["a", "b", "chat-1"]);
    let text = random.among(&["Say this: one", "What is", " my locker code?", "\u{202e}é 水", ""]);
    // Silence, and a square wave: 16-bit PCM.
    let sound = random.among(&["AAAAAAAAAAA=", "/3//fwCAAID/f/9/AIAAgA==", "AA==", "no base64"]);
    let session = json!({
        "conversation": name, "max_tokens": 8, "temperature": 0.5, "filler": random.one_in(2),
        "messages": [{"role": "system", "content": "You are brief."}], "voice": random.among(&["en", "de"]),
        "audio": {"input": {"format": {"rate": 16_000}, "turn_detection": null}},
        "output_modalities": [random.among(&["text", "text", "text", "text", "audio"])],
        "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
    });
    match random.below(12) {
        0 | 1 => json!({"type": "session.update", "session": session, "event_id": "e1"}),
        2 => {
            json!({"type": "input_audio_buffer.append", "audio": sound.repeat(1 + random.below(40) as usize)})
        }
        3 => json!({"type": "input_audio_buffer.commit"}),
        4 => json!({"type": "input_audio_buffer.clear"}),
        5 => json!({"type": "input_audio_buffer.speech_started"}),
        6 => json!({"type": "input_audio_buffer.speech_stopped"}),
        7 => json!({"type": "conversation.item.input_audio_transcription.delta", "delta": text}),
        8 => {
            json!({"type": "conversation.item.input_audio_transcription.delta", "transcript": text})
        }
        9 => {
            json!({"type": "conversation.item.input_audio_transcription.completed", "transcript": text})
        }
        10 => json!({"type": "response.create", "response": {"max_tokens": 4}, "event_id": "e2"}),
        _ => json!({"type": "response.cancel"}),
    }
}

const TEXT: u8 = 1;
const BINARY: u8 = 2;

/// One frame or several, as bytes on the wire. Most are whole and masked, as those of clients are.
pub fn frames(random: &mut Random) -> Vec<u8> {
    let (code, content) = match random.below(60) {
        0..6 => (BINARY, (0..random.below(4_000)).map(|_| random.below(256) as u8).collect()),
        6..12 => (9, b"ping".to_vec()),
        12 => (*random.among(&[0, 3, 5, 8, 10, 11, 15]), event(random)),
        _ => (TEXT, event(random)),
    };
    let mut wire = Vec::new();
    // In parts, now and then.
    let parts = if code == TEXT && random.one_in(8) { 1 + random.below(4) as usize } else { 1 };
    let length = content.len().div_ceil(parts).max(1);
    let chunks: Vec<&[u8]> =
        if content.is_empty() { vec![&[][..]] } else { content.chunks(length).collect() };
    for (at, chunk) in chunks.iter().enumerate() {
        let is_last = at + 1 == chunks.len();
        frame(&mut wire, random, if at == 0 { code } else { 0 }, is_last, chunk);
    }
    if random.one_in(100) {
        random.damage(&mut wire);
    }
    wire
}

/// RFC 6455, section 5.2.
fn frame(wire: &mut Vec<u8>, random: &mut Random, code: u8, is_last: bool, content: &[u8]) {
    let reserved = if random.one_in(200) { (random.below(8) as u8) << 4 } else { 0 };
    wire.push(u8::from(is_last) << 7 | reserved | code);
    let masked = if random.one_in(200) { 0 } else { 0x80 };
    // A length that is not that of the content, now and then.
    let length = if random.one_in(300) { random.below(1 << 40) } else { content.len() as u64 };
    match length {
        0..126 => wire.push(masked | length as u8),
        126..65_536 => {
            wire.push(masked | 126);
            wire.extend((length as u16).to_be_bytes());
        }
        _ => {
            wire.push(masked | 127);
            wire.extend(length.to_be_bytes());
        }
    }
    let mask = random.below(1 << 32).to_be_bytes();
    let mask = &mask[4..];
    if masked == 0 {
        wire.extend(content);
        return;
    }
    wire.extend(mask);
    wire.extend(content.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
}
