//! Files of users: exports of other apps that are imported, and sound.

use std::io::{Cursor, Write};
use std::os::unix::fs::PermissionsExt;

use hob_testkit::Answer;
use serde_json::json;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::*;

const JSON: &str = "application/json";
const LINES: &str = "application/jsonl";
const ZIP: &str = "application/zip";
const TAR: &str = "application/x-tar";
const MARKDOWN: &str = "text/markdown";

fn zip(files: &[(String, String)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        zip.start_file(name.as_str(), SimpleFileOptions::default()).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn tar(files: &[(String, String)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, name, content.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap()
}

fn hob_s(flock: &mut Flock) -> Value {
    json!({"format": "hob conversation", "title": flock.next(), "messages": [
        {"id": 1, "message": {"role": "user", "content": flock.next()}},
        {"id": 2, "parent": 1, "message": {"role": "assistant", "content": flock.next()}},
    ]})
}

fn webui_s(flock: &mut Flock) -> Value {
    let message = json!({"id": "u1", "parentId": null, "childrenIds": [], "role": "user",
        "content": flock.next(), "timestamp": 1});
    json!({"id": "0f3c1a52", "title": flock.next(), "chat": {"title": flock.next(),
        "history": {"messages": {"u1": message}, "currentId": "u1"}, "messages": []}})
}

#[test]
fn imported_files_and_their_names_are_in_no_log_and_in_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path());
    let hobd = launch.start();
    let mut flock = Flock(0);
    let import = |kind: &str, body: Vec<u8>| -> Answer {
        let call = hobd.client.call("POST", "/v1/conversations/import");
        call.header("content-type", kind).body(body).send()
    };
    let jan = |flock: &mut Flock| {
        let text = json!({"value": flock.next(), "annotations": []});
        let content = json!([{"type": "text", "text": text}]);
        json!({"id": "m", "thread_id": "jan_1", "role": "user", "content": content, "created_at": 1})
            .to_string()
    };
    let names = |flock: &mut Flock, name: &str| format!("{}/{name}", flock.next());
    succeeds(import(JSON, hob_s(&mut flock).to_string().into()));
    succeeds(import(JSON, json!([webui_s(&mut flock)]).to_string().into()));
    succeeds(import(LINES, jan(&mut flock).into()));
    let thread = json!({"id": "jan_1", "title": flock.next()}).to_string();
    let folder = flock.next();
    let of_jan = [
        (format!("{folder}/thread.json"), thread),
        (format!("{folder}/messages.jsonl"), jan(&mut flock)),
        (names(&mut flock, "notes.txt"), flock.next()),
    ];
    succeeds(import(ZIP, zip(&of_jan)));
    let exported = |kind: &str| {
        let chats = hobd.client.get("/v1/conversations");
        let id = chats["data"][0]["id"].as_str().unwrap().to_owned();
        let path = format!("/v1/conversations/{id}/export?format={kind}");
        succeeds(hobd.client.call("GET", &path).send()).body
    };
    succeeds(import(MARKDOWN, exported("markdown")));

    let mut refusals = Refusals::default();
    let broken = |flock: &mut Flock| format!("{{\"{}\": \"{}", flock.next(), flock.next());
    // The names of an unknown file's fields are told, so that its reader recognises it.
    let unknown = |flock: &mut Flock| json!({"diary": flock.next()}).to_string();
    let role = |flock: &mut Flock| {
        let mut chat = hob_s(flock);
        chat["messages"][0]["message"]["role"] = "poet".into();
        chat.to_string()
    };
    for (what, kind, body) in [
        ("JSON of another kind", JSON, unknown(&mut flock).into_bytes()),
        ("a list of another kind", JSON, format!("[{}]", unknown(&mut flock)).into()),
        ("a text", JSON, json!(flock.next()).to_string().into()),
        ("broken JSON", JSON, broken(&mut flock).into()),
        ("an unknown role", JSON, role(&mut flock).into()),
        (
            "a wrong title",
            JSON,
            json!({"format": [flock.next()], "title": [flock.next()]}).to_string().into(),
        ),
        (
            "a format of another kind",
            JSON,
            json!({"format": flock.next(), "messages": []}).to_string().into(),
        ),
        ("broken lines", LINES, broken(&mut flock).into()),
        ("lines of another kind", LINES, unknown(&mut flock).into()),
        ("no ZIP archive", ZIP, flock.next().into()),
        ("a ZIP archive of others", ZIP, zip(&[(names(&mut flock, "a.txt"), flock.next())])),
        (
            "a ZIP archive with a broken thread",
            ZIP,
            zip(&[(names(&mut flock, "thread.json"), broken(&mut flock))]),
        ),
        (
            "a ZIP archive with broken messages",
            ZIP,
            zip(&[(names(&mut flock, "messages.jsonl"), broken(&mut flock))]),
        ),
        (
            "a ZIP archive with broken conversations",
            ZIP,
            zip(&[(names(&mut flock, "conversations.json"), broken(&mut flock))]),
        ),
        (
            "a ZIP archive with conversations of another kind",
            ZIP,
            zip(&[(names(&mut flock, "conversations.json"), unknown(&mut flock))]),
        ),
        ("no tar archive", TAR, flock.next().into()),
        ("a tar archive of others", TAR, tar(&[(names(&mut flock, "a.txt"), flock.next())])),
        (
            "a tar archive with a broken text",
            TAR,
            tar(&[("conversation.json".to_owned(), broken(&mut flock))]),
        ),
        (
            "a tar archive with an unknown role",
            TAR,
            tar(&[("conversation.json".to_owned(), role(&mut flock))]),
        ),
        (
            "Markdown of another kind",
            MARKDOWN,
            format!("# {}\n\n{}", flock.next(), flock.next()).into(),
        ),
        ("a type", &format!("application/{}", flock.next()), Vec::new()),
    ] {
        refusals.add(what, &import(kind, body));
    }
    refusals.expect_none();
    expect_none_outside(&launch, hobd);
}

#[test]
fn spoken_words_and_names_of_sound_files_are_in_no_log_and_in_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let mut flock = Flock(0);
    // It hears a canary; with a file beside it, it fails behind it.
    let script = directory.path().join("hear");
    let fails = directory.path().join("fails");
    let heard = flock.next();
    let source = format!(
        "#!/bin/sh\ncat >/dev/null\necho '{heard}'\nif [ -e '{}' ]; then echo 'out of memory' >&2; exit 1; fi\n",
        fails.display()
    );
    fs::write(&script, source).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    let script = script.display().to_string();
    let launch = launch(directory.path())
        .args(["--voice-recognizer", &script])
        .env("PATH", std::env::var_os("PATH").unwrap());
    let hobd = launch.start();

    let form = |fields: &[(&str, String)], file: Option<(String, &[u8])>| {
        let mut body = Vec::new();
        for (name, value) in fields {
            let part = format!(
                "--X\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            );
            body.extend(part.into_bytes());
        }
        if let Some((name, bytes)) = file {
            let head = format!(
                "--X\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n"
            );
            body.extend(head.into_bytes());
            body.extend(bytes);
            body.extend(b"\r\n");
        }
        body.extend(b"--X--\r\n");
        let call = hobd.client.call("POST", "/v1/audio/transcriptions");
        call.header("content-type", "multipart/form-data; boundary=X").body(body).send()
    };
    let wav = sound();
    let named = |flock: &mut Flock| flock.next() + ".wav";
    let said = [
        ("prompt", flock.next()),
        ("language", flock.next()),
        ("model", flock.next()),
        (&flock.next(), flock.next()),
    ];
    let answer = succeeds(form(&said, Some((named(&mut flock), &wav))));
    assert!(answer.text().contains(&heard), "{}", answer.text());

    let mut refusals = Refusals::default();
    refusals.add("no file", &form(&[("prompt", flock.next())], None));
    let no_sound = flock.next();
    refusals.add("no sound", &form(&[], Some((named(&mut flock), no_sound.as_bytes()))));
    let wrong = [("stream", flock.next())];
    refusals.add("a wrong field", &form(&wrong, Some((named(&mut flock), &wav))));
    let broken = format!("--X\r\n{}: {}", flock.next(), flock.next());
    let call = hobd.client.call("POST", "/v1/audio/transcriptions");
    let call = call.header("content-type", "multipart/form-data; boundary=X").body(broken);
    refusals.add("a broken form", &call.send());
    fs::write(&fails, "").unwrap();
    refusals.add("a recogniser that fails", &form(&[], Some((named(&mut flock), &wav))));
    let speech = |body: &Value| hobd.client.call("POST", "/v1/audio/speech").json(body).send();
    refusals.add("no voice", &speech(&json!({"input": flock.next(), "voice": "alloy"})));
    refusals.add("a voice", &speech(&json!({"input": "a", "voice": [flock.next()]})));
    refusals.add("no text", &speech(&json!({"input": [flock.next()]})));
    refusals.add("a long text", &speech(&json!({"input": flock.next().repeat(9_000)})));
    refusals.expect_none();
    expect_none_outside(&launch, hobd);
}

/// A tenth of a second of a square wave, 16 kHz.
fn sound() -> Vec<u8> {
    let mut wav = Cursor::new(Vec::new());
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 16_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::new(&mut wav, spec).unwrap();
    (0..1_600)
        .for_each(|at| writer.write_sample(if at % 32 < 16 { 9_000_i16 } else { -9_000 }).unwrap());
    writer.finalize().unwrap();
    wav.into_inner()
}
