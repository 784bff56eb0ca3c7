//! Bodies that are no JSON: sound, forms, documents, and conversations as files of Hob and of other apps.

use std::io::{Cursor, Write};

use serde_json::{Value, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::bodies::changed;
use super::random::Random;

/// The type and the bytes of what the route takes beside JSON; `None`: it takes nothing else.
pub fn body(random: &mut Random, route: &str) -> Option<(&'static str, Vec<u8>)> {
    Some(match route {
        "/v1/audio/transcriptions" => ("multipart/form-data; boundary=X", form(random)),
        "/v1/voice/transcriptions" => ("audio/wav", wav(random)),
        "/v1/conversations/{id}/audio" => ("audio/pcm", pcm(random)),
        "/v1/documents" => match random.below(3) {
            0 => ("application/pdf", b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\n".to_vec()),
            _ => ("text/plain", random.text().into_bytes()),
        },
        "/v1/conversations/{id}" => match random.below(6) {
            0 => ("application/jsonl", lines(random)),
            1 => ("application/zip", zip(random)),
            2 => ("application/x-tar", tar(random)),
            3 => ("text/markdown", markdown(random)),
            _ => ("application/json", export(random)),
        },
        _ => return None,
    })
}

/// 16-bit samples of a square wave, sometimes half of one at the end.
fn pcm(random: &mut Random) -> Vec<u8> {
    let count = random.below(800);
    let sample = |at| if at % 32 < 16 { 9_000_i16 } else { -9_000 };
    let mut bytes: Vec<u8> = (0..count).flat_map(|at| sample(at).to_le_bytes()).collect();
    if random.one_in(10) {
        bytes.pop();
    }
    bytes
}

fn wav(random: &mut Random) -> Vec<u8> {
    let sound = pcm(random);
    let rate = *random.among(&[16_000_u32, 16_000, 24_000, 0, 1, u32::MAX]);
    let channels = *random.among(&[1_u16, 1, 2, 0]);
    let bits = *random.among(&[16_u16, 16, 8, 24, 0]);
    let mut wav = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0".to_vec();
    wav.extend(channels.to_le_bytes());
    wav.extend(rate.to_le_bytes());
    wav.extend(rate.wrapping_mul(2).to_le_bytes());
    wav.extend((channels * 2).to_le_bytes());
    wav.extend(bits.to_le_bytes());
    wav.extend(b"data");
    wav.extend((sound.len() as u32).to_le_bytes());
    wav.extend(sound);
    wav
}

fn form(random: &mut Random) -> Vec<u8> {
    let mut fields: Vec<(&str, Vec<u8>)> = vec![("model", b"whisper-1".to_vec())];
    for (name, values) in [
        ("response_format", ["json", "text", "verbose_json", "srt", "vtt", "xml"]),
        ("stream", ["true", "false", "1", "", "perhaps", "false"]),
        ("language", ["en", "", "de", "xx", "\u{202e}", "en"]),
        ("timestamp_granularities[]", ["word", "segment", "", "x", "segment", "word"]),
    ] {
        if random.one_in(3) {
            fields.push((name, random.among(&values).as_bytes().to_vec()));
        }
    }
    if !random.one_in(8) {
        fields.insert(random.below(2) as usize, ("file", wav(random)));
    }
    let mut body = Vec::new();
    for (name, value) in fields {
        let file = if name == "file" { "; filename=\"a.wav\"" } else { "" };
        let head = format!("--X\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        body.extend([head.as_bytes(), &value, b"\r\n"].concat());
    }
    body.extend(b"--X--\r\n");
    body
}

/// A conversation of Hob, of Open WebUI or of LM Studio.
fn conversation(random: &mut Random) -> Value {
    match random.below(3) {
        0 => {
            json!({"format": "hob conversation", "id": random.among(&["a", "b"]), "title": "T", "messages": [
                {"id": 1, "message": {"role": "user", "content": "Hi"}},
                {"id": 2, "parent": 1, "message": {"role": "assistant", "content": "Hello"}},
            ]})
        }
        1 => {
            let message = json!({"id": "u1", "parentId": null, "childrenIds": [], "role": "user",
                "content": "Why?", "timestamp": 1_731_660_000});
            json!({"id": "c1", "title": "T", "chat": {"title": "T",
                "history": {"messages": {"u1": message}, "currentId": "u1"}, "messages": []}})
        }
        _ => {
            let content = json!([{"type": "text", "text": "Warm?"}]);
            let version = json!({"type": "singleStep", "role": "user", "content": content});
            json!({"name": "K", "createdAt": 1_732_000_000_123_u64, "systemPrompt": "", "messages": [
                {"versions": [version], "currentlySelected": 0},
            ]})
        }
    }
}

fn export(random: &mut Random) -> Vec<u8> {
    let mut value = conversation(random);
    if random.one_in(3) {
        value = json!([value, conversation(random)]);
    }
    changed(random, &mut value)
}

/// Of Jan.
fn lines(random: &mut Random) -> Vec<u8> {
    let mut lines = Vec::new();
    for number in 0..random.below(4) {
        let content = json!([{"type": "text", "text": {"value": "Hi", "annotations": []}}]);
        let mut line = json!({"id": format!("m{number}"), "thread_id": "jan_1", "role": "user",
            "content": content, "created_at": 1_700_123_404});
        lines.extend(changed(random, &mut line));
        lines.push(b'\n');
    }
    lines
}

fn files(random: &mut Random) -> Vec<(&'static str, Vec<u8>)> {
    let mut files = Vec::new();
    for _ in 0..random.below(4) {
        files.push(match random.below(6) {
            0 => ("conversations.json", export(random)),
            1 => ("threads/jan_1/messages.jsonl", lines(random)),
            2 => {
                let mut thread = json!({"id": "jan_1", "title": "T", "created": 1, "updated": 2});
                ("threads/jan_1/thread.json", changed(random, &mut thread))
            }
            3 => ("conversation.json", export(random)),
            4 => ("conversation.kv", random.text().into_bytes()),
            _ => ("../../notes.txt", random.text().into_bytes()),
        });
    }
    files
}

fn zip(random: &mut Random) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files(random) {
        // A name that is there already is refused.
        if zip.start_file(name, SimpleFileOptions::default()).is_ok() {
            zip.write_all(&content).expect("memory takes it");
        }
    }
    zip.finish().expect("memory takes it").into_inner()
}

fn tar(random: &mut Random) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content) in files(random) {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_entry_type(*random.among(&[
            tar::EntryType::Regular,
            tar::EntryType::Regular,
            tar::EntryType::Regular,
            tar::EntryType::Symlink,
            tar::EntryType::XHeader,
        ]));
        // Names that leave the directory are refused by the builder.
        tar.append_data(&mut header, name, content.as_slice()).ok();
    }
    tar.into_inner().expect("memory takes it")
}

fn markdown(random: &mut Random) -> Vec<u8> {
    let parts = [
        "# A title\n\n",
        "## User\n\n",
        "**User**\n\n",
        "---\n",
        "```\ncode\n",
        "<details>\n",
        "text\n",
    ];
    (0..random.below(8)).map(|_| *random.among(&parts)).collect::<String>().into_bytes()
}
