//! Imports of what other apps export.
//!
//! Each fixture has the fields of a real file of the app, as public programs and documents show them:
//! - ChatGPT: `docs/chatgpt-data-export-format.md` of mitkury/chatgpt-export-parser, and the types of other
//!   readers of `conversations.json`;
//! - LM Studio: files of `~/.lmstudio/conversations`, as YorkieDev/lm-studio-conversation-converter and
//!   the types of LM Studio's own SDK (lmstudio-js, `ChatHistoryData`, `contentBlock`) describe them;
//! - Open WebUI: the row of its table `chat` with the object that its page posts to `/api/v1/chats/new`;
//! - Jan: `docs/docs/specs/threads.md` and `messages.md` of janhq/jan.

use std::io::{Cursor, Write};

use serde_json::{Value, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::common::{Answer, Plan, World};

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

fn chatgpt() -> Value {
    let node =
        |id: &str, parent: &str, children: &[&str], role: &str, content: Value, more: Value| {
            let mut message = json!({
                "id": id, "author": {"role": role, "name": null, "metadata": {}},
                "create_time": 1_715_791_402.5, "update_time": null, "content": content,
                "status": "finished_successfully", "end_turn": true, "weight": 1.0, "metadata": {},
                "recipient": "all", "channel": null,
            });
            for (name, value) in more.as_object().into_iter().flatten() {
                message[name] = value.clone();
            }
            json!({"id": id, "message": message, "parent": parent, "children": children})
        };
    let said = |text: &str| json!({"content_type": "text", "parts": [text]});
    let by = |model: &str| json!({"metadata": {"model_slug": model}});
    let hidden = json!({"metadata": {"is_visually_hidden_from_conversation": true}});
    let context = json!({
        "content_type": "user_editable_context",
        "user_profile": "The user provided the following information: I bake at home.",
        "user_instructions": "The user wants: Answer briefly.",
    });
    let written = json!({"metadata": {
        "is_user_system_message": true, "is_visually_hidden_from_conversation": true,
        "user_context_message_data": {
            "about_user_message": "I bake at home.", "about_model_message": "Answer briefly.",
        },
    }});
    let thoughts = json!({"content_type": "thoughts", "thoughts": [
        {"summary": "Temperature", "content": "It is cool there.", "chunks": [], "finished": true}]});
    let image = json!({"content_type": "multimodal_text", "parts": [
        "And this one?", {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}]});
    let code = json!({"content_type": "code", "language": "python", "text": "print(6)"});
    let call = json!({"content_type": "code", "language": "unknown", "text": "search(\"dough\")"});
    json!({
        "title": "Bread at 18 degrees", "create_time": 1_715_791_400.123, "update_time": 1_715_791_412.9,
        "conversation_id": "6644e4a1-0000-8000-9d38-2a4e3c1f0001", "id": "6644e4a1-0000-8000-9d38-2a4e3c1f0001",
        "moderation_results": [], "plugin_ids": null, "gizmo_id": null, "is_archived": false,
        "default_model_slug": "gpt-4o", "current_node": "a6",
        "mapping": {
            "root": {"id": "root", "message": null, "parent": null, "children": ["sys"]},
            "sys": node("sys", "root", &["ctx"], "system", said(""), hidden.clone()),
            "ctx": node("ctx", "sys", &["q1"], "user", context, written),
            "q1": node("q1", "ctx", &["a1", "t2"], "user", said("How long does dough rest?"), json!({})),
            "a1": node("a1", "q1", &[], "assistant", said("Four hours."), by("gpt-4o")),
            "t2": node("t2", "q1", &["a2"], "assistant", thoughts, by("o3-mini")),
            "a2": node("a2", "t2", &["c3"], "assistant", said("Six hours."), by("o3-mini")),
            "c3": node("c3", "a2", &["r3"], "assistant", call, json!({"recipient": "web.search"})),
            "r3": node("r3", "c3", &["a3"], "tool", said("18 degrees"), json!({})),
            "a3": node("a3", "r3", &["q4"], "assistant", said("At least."), by("o3-mini")),
            "q4": node("q4", "a3", &["a6"], "user", image, json!({})),
            "a6": node("a6", "q4", &[], "assistant", code, by("gpt-4o")),
        },
    })
}

fn lm_studio() -> Value {
    let user = |text: &str| json!({"type": "singleStep", "role": "user", "content": [{"type": "text", "text": text}]});
    let block = |text: &str, style: Value| {
        json!({
            "type": "contentBlock", "stepIdentifier": "1732000001000-0.5", "style": style,
            "content": [{"type": "text", "text": text, "fromDraftModel": false}],
            "defaultShouldIncludeInContext": true, "shouldIncludeInContext": true,
            "genInfo": {
                "indexedModelIdentifier": "lmstudio-community/Qwen2.5-7B-Instruct-GGUF/Qwen2.5-7B-Instruct-Q4_K_M.gguf",
                "identifier": "qwen2.5-7b-instruct", "stats": {"stopReason": "eosFound", "tokensPerSecond": 41.2},
            },
        })
    };
    let answer = |steps: Value| {
        json!({
            "type": "multiStep", "role": "assistant", "senderInfo": {"senderName": "qwen2.5-7b-instruct"},
            "steps": steps,
        })
    };
    let debug = json!({"type": "debugInfoBlock", "stepIdentifier": "1", "debugInfo": "Conversation naming"});
    let thinking = json!({"type": "thinking", "ended": true, "title": "Thought for 2.1 seconds"});
    json!({
        "name": "Kettle", "pinned": true, "createdAt": 1_732_000_000_123_u64, "preset": "", "tokenCount": 48,
        "userLastMessagedAt": 1_732_000_100_456_u64, "systemPrompt": "",
        "messages": [
            {"versions": [user("Are you warm?")], "currentlySelected": 0},
            {"versions": [
                answer(json!([block("No.", Value::Null)])),
                answer(json!([block("Let me see.", thinking), block("Yes, since nine.", Value::Null), debug])),
            ], "currentlySelected": 1},
            {"versions": [user("Thanks")], "currentlySelected": 0},
        ],
        "usePerChatPredictionConfig": true,
        "perChatPredictionConfig": {"fields": [
            {"key": "llm.prediction.temperature", "value": 0.7},
            {"key": "llm.prediction.systemPrompt", "value": "You are a kettle."},
        ]},
        "clientInput": "", "clientInputFiles": [], "userFilesSizeBytes": 0,
        "lastUsedModel": {"identifier": "qwen2.5-7b-instruct", "indexedModelIdentifier": "x"},
        "notes": [], "plugins": [],
    })
}

fn open_webui() -> Value {
    let thought = "<details type=\"reasoning\" done=\"true\" duration=\"2\">\n<summary>Thought for 2 seconds</summary>\n\
                   &gt; First thought.\n&gt; Second thought.\n</details>\nUse both.";
    let message = |id: &str, parent: Value, children: Value, role: &str, content: &str, at: u64| {
        json!({
            "id": id, "parentId": parent, "childrenIds": children, "role": role, "content": content,
            "timestamp": at,
        })
    };
    let by = |mut message: Value, model: &str| {
        message["model"] = json!(model);
        message["modelName"] = json!(model);
        message["done"] = json!(true);
        message
    };
    let messages = json!({
        "u1": message("u1", Value::Null, json!(["b2", "a2"]), "user", "Compare two strategies.", 1_731_660_000),
        "a2": by(message("a2", json!("u1"), json!(["u3"]), "assistant", thought, 1_731_660_002), "deepseek-r1:8b"),
        "b2": by(message("b2", json!("u1"), json!([]), "assistant", "Use keywords.", 1_731_660_001), "gpt-4o"),
        "u3": message("u3", json!("a2"), json!([]), "user", "Why?", 1_731_660_003),
    });
    json!({
        "id": "0f3c1a52-7a7e-4a08-9d5d-6a3f8f1a0001", "user_id": "u", "title": "Retrieval",
        "chat": {
            "id": "", "title": "Retrieval", "models": ["deepseek-r1:8b"], "params": {"system": "Be exact."},
            "history": {"messages": messages, "currentId": "u3"}, "messages": [], "tags": [], "files": [],
            "timestamp": 1_731_660_000_000_u64,
        },
        "updated_at": 1_731_660_003, "created_at": 1_731_660_000, "share_id": null, "archived": false,
        "pinned": false, "meta": {}, "folder_id": null,
    })
}

/// `thread.json` and `messages.jsonl`.
fn jan() -> (Value, String) {
    let thread = json!({
        "id": "jan_1700123404", "object": "thread", "title": "funny physics joke", "created": 1_700_123_404,
        "updated": 1_700_123_409, "metadata": {},
        "assistants": [{
            "assistant_id": "jan", "assistant_name": "Jan", "instructions": "You are Jan.",
            "model": {"id": "mistral-ins-7b-q4", "engine": "nitro", "settings": {}, "parameters": {}},
        }],
    });
    let message = |id: &str, role: &str, text: &str, at: u64| {
        json!({
            "id": id, "object": "thread.message", "thread_id": "jan_1700123404", "assistant_id": "jan",
            "role": role, "content": [{"type": "text", "text": {"value": text, "annotations": []}}],
            "status": "ready", "created_at": at, "metadata": {},
        })
    };
    let lines = [
        message("1", "assistant", "<think>\nA greeting.\n</think>\n\nHello.", 1_700_123_406),
        message("0", "user", "Hi!?", 1_700_123_405),
    ];
    (thread, lines.map(|line| line.to_string() + "\n").concat())
}
