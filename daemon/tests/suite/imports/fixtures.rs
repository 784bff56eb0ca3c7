//! Chats as other apps export them.
//!
//! Each fixture has the fields of a real file of the app, as public programs and documents show them:
//! - ChatGPT: `docs/chatgpt-data-export-format.md` of mitkury/chatgpt-export-parser, and the types of other
//!   readers of `conversations.json`;
//! - LM Studio: files of `~/.lmstudio/conversations`, as YorkieDev/lm-studio-conversation-converter and
//!   the types of LM Studio's own SDK (lmstudio-js, `ChatHistoryData`, `contentBlock`) describe them;
//! - Open WebUI: the row of its table `chat` with the object that its page posts to `/api/v1/chats/new`;
//! - Jan: `docs/docs/specs/threads.md` and `messages.md` of janhq/jan.

use serde_json::{Value, json};

pub fn chatgpt() -> Value {
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

pub fn lm_studio() -> Value {
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

pub fn open_webui() -> Value {
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
pub fn jan() -> (Value, String) {
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
