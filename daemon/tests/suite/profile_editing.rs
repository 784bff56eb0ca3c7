//! Profiles over HTTP: reading, checking and saving them, and the paths that are never written.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::common::{Answer, Plan, World, user};

#[test]
fn a_profile_is_shown_segment_by_segment_with_its_costs() {
    let world = world();
    let profile = get(&world, "lights");
    assert_eq!((&profile["name"], &profile["ttl"]), (&json!("lights"), &json!("extended")));
    assert_eq!(profile["error"], Value::Null);
    let segments = profile["segments"].as_array().unwrap();
    let shown: Vec<_> = segments
        .iter()
        .map(|it| {
            (text(&it["layer"]), text(&it["key"]), text(&it["source"]), it["in_prefix"] == true)
        })
        .collect();
    let expected = [
        ("identity", "ember", "text", true),
        ("capabilities", "file:lights.json", "tools", true),
        ("context", "file:now.txt", "file", false),
    ];
    assert_eq!(shown, expected);
    assert_eq!((&segments[0]["path"], &segments[1]["path"]), (&Value::Null, &json!("lights.json")));
    assert_eq!(segments[0]["content"], "You are Ember. It is 10:41.");
    // The fake model's tokens are bytes. The count includes the template's own tokens.
    assert!(segments[0]["tokens"].as_u64().unwrap() >= 27);
    let prefix: u64 = segments[..2].iter().map(|it| it["tokens"].as_u64().unwrap()).sum();
    assert_eq!(profile["tokens"], prefix + 2, "the prefix includes the blank line before the tail");
    assert_eq!(profile["kv_bytes"], (prefix + 2) * crate::common::KV_BYTES_PER_TOKEN);
    let clock = &segments[0]["volatile"];
    assert_eq!(clock, &json!([{"start": 21, "end": 26, "kind": "clock"}]));
    assert_eq!(segments[2]["volatile"], json!([]), "a tail reports no volatile places");

    let list = world.get("/v1/profiles").json();
    assert_eq!(
        (&list["data"][0]["name"], &list["data"][0]["tokens"]),
        (&json!("lights"), &profile["tokens"])
    );
    assert_eq!(world.get("/v1/profiles/nobody").error()["code"], "profile_not_found");
    assert_eq!(world.get("/v1/profiles/..%2Fhob").error()["param"], "name");
}

#[test]
fn places_of_words_are_counted_as_the_page_counts() {
    let world = world();
    world.profile("smile", "[[segment]]\nlayer = 'rules'\ntext = 'ü😀 at 10:41'\n");
    world.reload();
    assert_eq!(get(&world, "smile")["segments"][0]["volatile"][0]["start"], 7);
}

#[test]
fn a_saved_profile_is_warm_up_to_the_first_change_and_then_completely() {
    let world = world();
    world.parts.warm_all();
    warm(&world, "lights");
    let profile = get(&world, "lights");
    assert_eq!(
        (&profile["computed_tokens"], &profile["segments"][0]["warm"]),
        (&json!(0), &json!(true))
    );

    let mut draft = draft(&profile);
    draft["segments"][0]["content"] = json!("You are Ember. Be brief.");
    let checked = world.post("/v1/profiles/check", draft.clone());
    assert_eq!(checked.status, 200, "{}", checked.text());
    let checked = checked.json();
    let (tools, ember) = (&checked["segments"][1], &checked["segments"][0]);
    // The fake model's template puts the tools first.
    assert_eq!((&tools["warm"], &ember["warm"]), (&json!(true), &json!(false)));
    let (all, computed) =
        (checked["tokens"].as_u64().unwrap(), checked["computed_tokens"].as_u64().unwrap());
    assert!(0 < computed && computed < all, "{computed} of {all} tokens computed");
    assert_eq!(get(&world, "lights"), profile, "a check changes nothing");

    let saved = put(&world, "lights", &draft);
    assert_eq!(saved.status, 200, "{}", saved.text());
    assert_ne!(saved.json()["revision"], profile["revision"]);
    warm(&world, "lights");
    assert_eq!(get(&world, "lights")["computed_tokens"], 0);
    let toml = fs::read_to_string(profiles(&world).join("lights.toml")).unwrap();
    assert!(toml.starts_with("# mine\n") && toml.contains("Be brief."), "{toml}");
    let body = json!({"hob": {"profile": "lights"}, "max_tokens": 1});
    assert!(
        world.chat(json!([user("Hi")]), body)["hob"]["tokens"]["shared"].as_u64() > Some(computed)
    );
}

#[test]
fn an_edit_of_an_older_revision_is_refused() {
    let world = world();
    let profile = get(&world, "lights");
    let mut draft = draft(&profile);
    draft["segments"][0]["content"] = json!("You are Ash.");
    fs::write(profiles(&world).join("lights.json"), tools("set_lamp")).unwrap();
    let refused = put(&world, "lights", &draft);
    assert_eq!((refused.status, text(&refused.error()["code"])), (409, "profile_changed"));

    draft["revision"] = get(&world, "lights")["revision"].clone();
    // A change of a volatile file does not change the revision.
    fs::write(profiles(&world).join("now.txt"), "It is night.").unwrap();
    assert_eq!(put(&world, "lights", &draft).status, 200);
    draft["revision"] = Value::Null;
    let refused = put(&world, "lights", &draft);
    assert_eq!((refused.status, text(&refused.error()["code"])), (409, "profile_exists"));
    assert_eq!(get(&world, "lights")["segments"][0]["content"], "You are Ash.");
}

#[test]
fn each_of_several_tools_without_a_path_gets_a_file_of_its_own() {
    let world = world();
    let tools =
        |name: &str| json!({"layer": "capabilities", "source": "tools", "content": tools(name)});
    let text = json!({"layer": "identity", "source": "text", "content": "You are Ash."});
    let segments = [text, tools("look"), tools("listen")];
    let made = put(&world, "ash", &json!({"revision": null, "ttl": "kept", "segments": segments}));
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    let paths = [&made["segments"][1]["path"], &made["segments"][2]["path"]];
    assert_eq!(paths, ["ash.tools.json", "ash.tools-2.json"]);
}

#[test]
fn a_new_profile_is_made_with_its_files_and_removed_with_them() {
    let world = world();
    let draft = json!({"revision": null, "ttl": "kept", "segments": [
        {"layer": "identity", "source": "text", "content": "You are Ash."},
        {"layer": "rules", "source": "file", "path": "ash.md", "content": "Be brief."},
        {"layer": "capabilities", "source": "tools", "content": tools("look")},
    ]});
    let made = put(&world, "ash", &draft);
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    assert_eq!(
        (&made["ttl"], &made["segments"][2]["path"]),
        (&json!("permanent"), &json!("ash.tools.json"))
    );
    assert_eq!(fs::read_to_string(profiles(&world).join("ash.md")).unwrap(), "Be brief.\n");
    assert!(
        !fs::read_dir(profiles(&world))
            .unwrap()
            .any(|entry| { entry.unwrap().file_name().to_string_lossy().starts_with(".hob-") })
    );

    // Another profile uses one of its files.
    world.profile("other", "[[segment]]\nlayer = 'rules'\nfile = 'ash.md'\n");
    world.reload();
    let gone = world.call("DELETE", "/v1/profiles/ash").send().json();
    assert_eq!(gone["files"], json!(["ash.tools.json"]));
    assert_eq!(world.get("/v1/profiles/ash").status, 404);
    assert!(profiles(&world).join("ash.md").exists());
    assert_eq!(world.call("DELETE", "/v1/profiles/ash").send().status, 404);
    assert_eq!(world.parts.profiles.names().len(), 2);
}

#[test]
fn a_file_that_another_profile_needs_stays_however_that_names_it_and_in_whatever_state_it_is() {
    let world = world();
    for (other, toml) in [
        ("elsewise", "[[segment]]\nlayer = 'rules'\nfile = '../profiles/ash.md'\n"),
        ("unread", "[[segment]]\nlayer = 'rules'\nfile = 'ash.md'\n"),
        ("torn", "[[segment]]\nlayer = 'rules'\nfile = 'ash.md\n"),
    ] {
        let draft = json!({"revision": null, "segments": [
            {"layer": "rules", "source": "file", "path": "ash.md", "content": "Be brief."},
        ]});
        assert_eq!(put(&world, "ash", &draft).status, 201);
        world.profile(other, toml);
        let gone = world.call("DELETE", "/v1/profiles/ash").send().json();
        assert_eq!((&gone["deleted"], &gone["files"]), (&json!(true), &json!([])), "{other}");
        fs::remove_file(profiles(&world).join("ash.md")).unwrap();
        fs::remove_file(profiles(&world).join(format!("{other}.toml"))).unwrap();
    }
}

#[test]
fn a_draft_with_a_forbidden_path_or_name_is_refused_and_writes_nothing() {
    let world = world();
    let outside = world.directory.join("secret.txt");
    fs::write(&outside, "secret").unwrap();
    fs::write(profiles(&world).join("notes.md"), "Unrelated notes.").unwrap();
    fs::create_dir(world.directory.join("elsewhere")).unwrap();
    {
        std::os::unix::fs::symlink(&outside, profiles(&world).join("link.md")).unwrap();
        std::os::unix::fs::symlink(world.directory.join("elsewhere"), profiles(&world).join("dir"))
            .unwrap();
    }
    let before = tree(&world);
    for path in [
        "../secret.txt",
        outside.to_str().unwrap(),
        "a/../../secret.txt",
        "link.md",
        "dir/a.md",
        "notes.md",
        "lights.toml",
        ".hidden",
        "",
        "a\\..\\b",
        "missing/a.md",
        "a\0.md",
        "a\nb.md",
        &"long".repeat(64),
    ] {
        for content in [json!("changed"), Value::Null] {
            if path == "notes.md" && content.is_null() {
                continue; // Reading an existing file is allowed.
            }
            let draft = json!({"revision": null, "segments": [
                {"layer": "identity", "source": "text", "content": "You are Ash."},
                {"layer": "rules", "key": "notes", "source": "file", "path": path, "content": content},
            ]});
            let refused = put(&world, "ash", &draft);
            assert_eq!(refused.status, 400, "{path}: {}", refused.text());
            assert_eq!(refused.error()["param"], "segments[1].path", "{path}");
            assert_eq!(
                world.post("/v1/profiles/check", without_revision(draft)).status,
                400,
                "{path}"
            );
        }
    }
    for name in ["..", "a b", ".ash", "a%2Fb"] {
        let draft = json!({"segments": [{"layer": "identity", "source": "text", "content": "x"}]});
        let refused = put(&world, &name.replace(' ', "%20"), &draft);
        assert!([400, 404].contains(&refused.status), "{name}: {}", refused.text());
    }
    assert_eq!(tree(&world), before);
}

#[test]
fn a_draft_that_cannot_be_used_changes_nothing_and_says_where() {
    let world = world();
    let profile = get(&world, "lights");
    let before = tree(&world);
    for (field, value, param) in [
        ("content", json!(" "), "segments[0]"),
        ("layer", json!("user"), "segments"),
        ("layer", json!("nonsense"), "segments"),
        ("key", json!("a\nb"), "segments[0]"),
        ("source", json!("web"), "segments"),
    ] {
        let mut draft = draft(&profile);
        draft["segments"][0][field] = value;
        let refused = put(&world, "lights", &draft);
        assert_eq!((refused.status, text(&refused.error()["param"])), (400, param), "{field}");
    }
    let mut draft = draft(&profile);
    draft["segments"][1]["content"] = json!("[{]");
    let refused = put(&world, "lights", &draft);
    assert!(text(&refused.error()["message"]).contains("is not JSON"), "{}", refused.text());
    draft["segments"] = json!([]);
    assert_eq!(put(&world, "lights", &draft).status, 400);
    assert_eq!(tree(&world), before);
}

#[test]
fn a_file_elsewhere_stays_in_the_profile_and_is_not_written() {
    let world = world();
    let clock = world.directory.join("clock.txt");
    fs::write(&clock, "It is noon.").unwrap();
    let toml = format!(
        "[[segment]]\nlayer = 'rules'\ntext = 'Be brief.'\n\n[[segment]]\nlayer = 'context'\nfile = '{}'\nstable = false\n",
        clock.display()
    );
    world.profile("clocked", &toml);
    world.reload();
    let profile = get(&world, "clocked");
    assert_eq!(profile["segments"][1]["editable"], false);
    let mut draft = draft(&profile);
    draft["segments"][0]["content"] = json!("Be kind.");
    draft["segments"][1]["content"] = Value::Null;
    fs::write(&clock, "It is night.").unwrap();
    assert_eq!(put(&world, "clocked", &draft).status, 200);
    assert_eq!(get(&world, "clocked")["segments"][1]["content"], "It is night.");

    draft["revision"] = get(&world, "clocked")["revision"].clone();
    draft["segments"][1]["content"] = json!("It is mine.");
    assert_eq!(put(&world, "clocked", &draft).error()["param"], "segments[1].path");
    assert_eq!(fs::read_to_string(&clock).unwrap(), "It is night.");
}

#[test]
fn a_broken_profile_reports_its_error_and_can_be_repaired() {
    let world = world();
    world.profile("broken", "[[segment]]\nlayer = 'rules'\nfile = 'broken.md'\n");
    world.reload();
    let profile = get(&world, "broken");
    assert!(text(&profile["error"]).contains("broken.md cannot be read"), "{profile}");
    assert_eq!(
        (&profile["segments"][0]["content"], &profile["tokens"]),
        (&Value::Null, &Value::Null)
    );
    let mut draft = draft(&profile);
    draft["segments"][0]["content"] = json!("Be brief.");
    let mended = put(&world, "broken", &draft);
    assert_eq!(mended.json()["error"], Value::Null, "{}", mended.text());

    world.profile("torn", "[[segment]]\nlayer = 'ru");
    world.reload();
    let profile = get(&world, "torn");
    assert!(
        text(&profile["error"]).contains("line 2") && profile["segments"].is_null(),
        "{profile}"
    );
    assert_eq!(world.get("/v1/profiles").json()["data"].as_array().unwrap().len(), 3);
}

fn world() -> World {
    let world = Plan::new().knows_kv_size().start();
    fs::create_dir_all(profiles(&world)).unwrap();
    fs::write(profiles(&world).join("lights.json"), tools("set_light")).unwrap();
    fs::write(profiles(&world).join("now.txt"), "It is noon.").unwrap();
    world.profile(
        "lights",
        "# mine\n[[segment]]\nlayer = 'identity'\nkey = 'ember'\ntext = 'You are Ember. It is 10:41.'\n\n\
         [[segment]]\nlayer = 'capabilities'\ntools = 'lights.json'\n\n\
         [[segment]]\nlayer = 'context'\nfile = 'now.txt'\nstable = false\n",
    );
    world.reload();
    world
}

fn tools(name: &str) -> String {
    json!([{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}])
        .to_string()
}

fn profiles(world: &World) -> PathBuf {
    world.directory.join("profiles")
}

fn get(world: &World, name: &str) -> Value {
    let answer = world.get(&format!("/v1/profiles/{name}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn put(world: &World, name: &str, draft: &Value) -> Answer {
    world.call("PUT", &format!("/v1/profiles/{name}")).json(draft).send()
}

/// The draft that an editor sends for this profile.
fn draft(profile: &Value) -> Value {
    let fields = ["layer", "key", "stable", "source", "path", "content"];
    let segment =
        |it: &Value| fields.iter().map(|name| (name.to_string(), it[*name].clone())).collect();
    let segments: Vec<Value> =
        profile["segments"].as_array().unwrap().iter().map(segment).collect();
    json!({"name": profile["name"], "revision": profile["revision"], "ttl": profile["ttl"],
        "segments": segments})
}

fn without_revision(mut draft: Value) -> Value {
    draft.as_object_mut().unwrap().remove("revision");
    draft
}

fn warm(world: &World, name: &str) {
    world.until("the profile is warm", |world| get(world, name)["state"] == "warm");
}

/// Every file below the daemon's directory that a profile could write.
fn tree(world: &World) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = vec![world.directory.join("secret.txt")];
    for directory in ["profiles", "elsewhere"] {
        let entries = fs::read_dir(world.directory.join(directory)).into_iter().flatten();
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    files.sort();
    files.into_iter().map(|file| (file.clone(), fs::read(&file).unwrap_or_default())).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}"))
}
