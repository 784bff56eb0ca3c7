//! Imports of what other apps export.

mod fixtures;
mod hostile;

use std::io::{Cursor, Write};

use serde_json::{Value, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::common::{Answer, Plan, World};

use fixtures::{chatgpt, jan, lm_studio, open_webui};

const JSON: &str = "application/json";
const LINES: &str = "application/jsonl";
const ZIP: &str = "application/zip";

#[test]
fn chatgpts_tree_keeps_its_branches_instructions_reasoning_and_model() {
    let world = World::new();

    let answer = world.import(JSON, json!([chatgpt()]).to_string());

    let imported = &list(&answer)[0];
    assert_eq!(imported["source"], "ChatGPT");
    assert_eq!(imported["conversation"]["title"], "Bread at 18 degrees");
    assert_eq!(imported["conversation"]["updated_at"], 1_715_791_412);
    assert_eq!(imported["id"], "6644e4a1-0000-8000-9d38-2a4e3c1f0001");
    assert_eq!(
        tree(&world, imported),
        [
            "1 < 0 system: I bake at home.\n\nAnswer briefly.",
            "2 < 1 user: How long does dough rest?",
            "3 < 2 assistant (gpt-4o): Four hours.",
            "4 < 2 assistant (o3-mini) [It is cool there.]: Six hours.\n\nAt least.",
            "5 < 4 user: And this one?\n\n[image]",
            "6 < 5 assistant (gpt-4o): ```python\nprint(6)\n```",
        ]
    );
    assert_eq!(head(&world, imported), 6);
}

#[test]
fn lm_studios_versions_are_branches_and_its_thinking_is_reasoning() {
    let world = World::new();

    let answer = world.import(JSON, lm_studio().to_string());

    let imported = &list(&answer)[0];
    assert_eq!(imported["source"], "LM Studio");
    assert_eq!(imported["conversation"]["title"], "Kettle");
    assert_eq!(imported["conversation"]["pinned"], true);
    assert_eq!(imported["conversation"]["created_at"], 1_732_000_000);
    assert_eq!(
        tree(&world, imported),
        [
            "1 < 0 system: You are a kettle.",
            "2 < 1 user: Are you warm?",
            "3 < 2 assistant (qwen2.5-7b-instruct): No.",
            "4 < 2 assistant (qwen2.5-7b-instruct) [Let me see.]: Yes, since nine.",
            "5 < 4 user: Thanks",
        ]
    );
    assert_eq!(head(&world, imported), 5);
    // The file has no id, but it is the same chat when it comes again.
    let again = world.import(JSON, lm_studio().to_string());
    assert_eq!(list(&again)[0]["was_here"], true);
}

#[test]
fn open_webuis_history_keeps_its_branches_and_folds_reasoning_away() {
    let world = World::new();

    let answer = world.import(JSON, json!([open_webui()]).to_string());

    let imported = &list(&answer)[0];
    assert_eq!(imported["source"], "Open WebUI");
    assert_eq!(imported["conversation"]["title"], "Retrieval");
    assert_eq!(
        tree(&world, imported),
        [
            "1 < 0 system: Be exact.",
            "2 < 1 user: Compare two strategies.",
            "3 < 2 assistant (gpt-4o): Use keywords.",
            "4 < 2 assistant (deepseek-r1:8b) [First thought.\nSecond thought.]: Use both.",
            "5 < 4 user: Why?",
        ]
    );
    assert_eq!(head(&world, imported), 5);
}

#[test]
fn all_that_a_model_thought_before_and_between_the_parts_of_an_answer_stays() {
    let world = World::new();
    let mut chat = chatgpt();
    let nodes = &mut chat["mapping"];
    for (id, before, behind, thoughts) in [
        ("t3", "t2", "a2", json!([{"content": "Cold slows yeast."}])),
        ("t4", "t3", "a2", json!([])),
        ("t5", "r3", "a3", json!([{"content": "Better be careful."}])),
    ] {
        let mut node = nodes["t2"].clone();
        (node["id"], node["parent"], node["children"]) =
            (json!(id), json!(before), json!([behind]));
        node["message"]["content"]["thoughts"] = thoughts;
        nodes[id] = node;
        nodes[before]["children"] = json!([id]);
        nodes[behind]["parent"] = json!(id);
    }
    let answer = world.import(JSON, chat.to_string());
    let thought = "It is cool there.\n\nCold slows yeast.\n\nBetter be careful.";
    let line = format!("4 < 2 assistant (o3-mini) [{thought}]: Six hours.\n\nAt least.");
    assert_eq!(tree(&world, &list(&answer)[0])[3], line);

    let mut chat = open_webui();
    let content = &mut chat["chat"]["history"]["messages"]["a2"]["content"];
    let more = "<details type=\"reasoning\">\n<summary>Thought</summary>\n&gt; Hm.\n</details>\n";
    *content = json!(format!("{more}{}", content.as_str().unwrap()));
    let answer = world.import(JSON, json!([chat]).to_string());
    let line =
        "4 < 2 assistant (deepseek-r1:8b) [Hm.\n\nFirst thought.\nSecond thought.]: Use both.";
    assert_eq!(tree(&world, &list(&answer)[0])[3], line);
}

#[test]
fn jans_messages_are_read_alone_and_with_their_thread_in_a_zip() {
    let world = World::new();
    let (thread, messages) = jan();

    let alone = world.import(LINES, messages.clone());
    let alone = &list(&alone)[0];
    assert_eq!((&alone["source"], &alone["id"]), (&json!("Jan"), &json!("jan_1700123404")));
    assert_eq!(tree(&world, alone), ["1 < 0 user: Hi!?", "2 < 1 assistant [A greeting.]: Hello."]);

    let zip = zip(&[
        ("threads/jan_1700123404/thread.json", thread.to_string()),
        ("threads/jan_1700123404/messages.jsonl", messages),
        ("threads/empty/messages.jsonl", String::new()),
    ]);
    let whole = world.import(ZIP, zip);
    let whole = &list(&whole)[0];
    assert_eq!(whole["conversation"]["title"], "funny physics joke");
    assert_eq!(
        tree(&world, whole),
        [
            "1 < 0 system: You are Jan.",
            "2 < 1 user: Hi!?",
            "3 < 2 assistant (mistral-ins-7b-q4) [A greeting.]: Hello.",
        ]
    );
}

#[test]
fn chatgpts_zip_is_read_and_a_chat_without_text_is_reported() {
    let world = World::new();
    let mut empty = chatgpt();
    empty["title"] = json!("Nothing");
    empty["mapping"] =
        json!({"root": {"id": "root", "message": null, "parent": null, "children": []}});
    let zip = zip(&[
        ("user.json", json!({"id": "user-x", "email": "a@example.org"}).to_string()),
        ("message_feedback.json", "[]".to_owned()),
        ("chat.html", "<html></html>".to_owned()),
        ("conversations.json", json!([chatgpt(), empty]).to_string()),
    ]);

    let answer = world.import(ZIP, zip);

    assert_eq!(list(&answer).len(), 1);
    let reason = "it has no message with a text";
    assert_eq!(answer.json()["skipped"], json!([{"title": "Nothing", "reason": reason}]));
}

#[test]
fn an_array_of_hobs_own_documents_is_imported_whole() {
    let world = World::new();
    let document = |id: &str| {
        json!({"format": "hob conversation", "id": id, "messages": [
            {"id": 1, "message": {"role": "user", "content": format!("I am {id}")}}]})
    };

    let answer = world.import(JSON, json!([document("one"), document("two")]).to_string());

    let ids: Vec<_> = list(&answer).iter().map(|one| one["id"].clone()).collect();
    assert_eq!(ids, ["one", "two"]);
    assert_eq!(world.conversation("two")["messages"][0]["content"], "I am two");
}

#[test]
fn what_no_app_has_written_is_refused_with_what_it_is_and_what_is_accepted() {
    let world = World::new();
    for (kind, body, what) in [
        (JSON, b"{}".to_vec(), "its object is empty"),
        (JSON, br#"{"foo": 1, "bar": []}"#.to_vec(), "its fields are `foo`, `bar`"),
        (JSON, b"[]".to_vec(), "there is no conversation"),
        (JSON, b"[1, 2]".to_vec(), "it has no objects"),
        (LINES, b"{\"a\": 1}\n".to_vec(), "its lines are no messages"),
        (LINES, b"{\"a\": 1}\nnothing\n".to_vec(), "line 2 is not JSON"),
        (ZIP, b"not a zip".to_vec(), "the ZIP archive cannot be read"),
        (
            ZIP,
            zip(&[("a.txt", "a".to_owned()), ("b.json", "{}".to_owned())]),
            "none of the ZIP archive's 2 files",
        ),
        (ZIP, zip(&[("conversations.json", "[{".to_owned())]), "the file is not JSON"),
    ] {
        let answer = world.import(kind, body);
        let message = answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!(answer.status, 400, "{message}");
        assert!(message.contains(what), "{message}");
        assert!(message.contains("ChatGPT") && message.contains("Open WebUI"), "{message}");
    }
    assert_eq!(world.get("/v1/conversations").json()["data"], json!([]));
}

#[test]
fn circles_and_strangers_in_a_tree_end_no_import() {
    let world = World::new();
    let mut circle = chatgpt();
    circle["mapping"]["q1"]["children"] = json!(["a1", "q1", "root", "nobody"]);
    circle["mapping"]["a1"]["children"] = json!(["q1"]);
    circle["current_node"] = json!("nobody");

    let answer = world.import(JSON, circle.to_string());

    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(!tree(&world, &list(&answer)[0]).is_empty());
}

#[test]
fn an_export_larger_than_a_request_may_be_is_imported_from_disk() {
    let world = Plan::new().body_bytes(20_000).start();
    let chats: Vec<_> = (0..40)
        .map(|n| {
            let mut chat = chatgpt();
            chat["conversation_id"] = json!(format!("chat-{n}"));
            chat
        })
        .collect();
    let body = json!(chats).to_string();
    assert!(body.len() > 40_000, "{}", body.len());

    let answer = world.import(JSON, body);

    assert_eq!(list(&answer).len(), 40);
}

#[test]
fn a_file_may_have_the_mark_that_editors_of_windows_write() {
    let world = World::new();
    let own = json!({"format": "hob conversation", "id": "a", "messages": [
        {"id": 1, "message": {"role": "user", "content": "Hi"}}]});
    let line = json!({"object": "thread.message", "role": "user", "created_at": 1,
        "content": [{"type": "text", "text": {"value": "Hi"}}]});
    for (kind, text) in
        [(JSON, own.to_string()), (JSON, json!([chatgpt()]).to_string()), (LINES, line.to_string())]
    {
        let answer = world.import(kind, format!("\u{feff}{text}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

#[test]
fn imported_answers_are_no_turns_of_this_daemon() {
    let world = World::new();
    let answer = json!({"role": "assistant", "content": "Hello"});
    let tokens = json!({"shared": 0, "memory": 0, "disk": 0, "computed": 9});
    let finish = json!({"model": "another", "hob": {"tokens": tokens, "ttft_ms": 900.0}});
    let document = json!({"format": "hob conversation", "id": "a", "messages": [
        {"id": 1, "message": {"role": "user", "content": "Hi"}},
        {"id": 2, "parent": 1, "message": answer, "finish": finish}]});

    assert_eq!(world.import(JSON, document.to_string()).status, 200);
    world.import(JSON, json!([chatgpt()]).to_string());
    assert_eq!(world.get("/v1/turns").json()["data"], json!([]));
    assert_eq!(world.conversation("a")["messages"][1]["finish"], finish);

    let extra = json!({"conversation": "a", "hob": {"append": true}});
    world.chat(json!([crate::common::user("And you?")]), extra);
    assert_eq!(world.get("/v1/turns").json()["data"].as_array().unwrap().len(), 1);
}

fn list(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["data"].as_array().expect("a list").clone()
}

/// A line a message: its id and its parent's, counted from the first; role, model, reasoning, text.
fn tree(world: &World, imported: &Value) -> Vec<String> {
    let conversation = world.conversation(imported["id"].as_str().expect("an id"));
    let messages = conversation["messages"].as_array().expect("messages");
    let first = messages[0]["id"].as_i64().expect("an id");
    let number = |id: &Value| id.as_i64().map_or(0, |id| id - first + 1);
    let line = |message: &Value| {
        let model = message["finish"]["model"].as_str().map(|name| format!(" ({name})"));
        let reasoning = message["reasoning_content"].as_str().map(|text| format!(" [{text}]"));
        format!(
            "{} < {} {}{}{}: {}",
            number(&message["id"]),
            number(&message["parent"]),
            message["role"].as_str().unwrap_or_default(),
            model.unwrap_or_default(),
            reasoning.unwrap_or_default(),
            message["content"].as_str().unwrap_or_default()
        )
    };
    messages.iter().map(line).collect()
}

/// The message that was shown last, counted from the first.
fn head(world: &World, imported: &Value) -> i64 {
    let conversation = world.conversation(imported["id"].as_str().expect("an id"));
    let first = conversation["messages"][0]["id"].as_i64().expect("an id");
    conversation["head"].as_i64().expect("an id") - first + 1
}

fn zip(files: &[(&str, String)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}
