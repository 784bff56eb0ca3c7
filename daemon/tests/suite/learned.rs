//! Learned prefixes: what many prompts begin with stays warm without a profile.

use hob_testkit::{Client, Launch, wait};
use serde_json::{Value, json};

use crate::common::{Plan, World, user};

const RULES: &str =
    "You are the porter of a small hotel by the sea. Answer in one short sentence. ";

const QUESTIONS: [&str; 3] = ["Is there breakfast?", "How late is it?", "Where is the beach?"];

fn rules() -> String {
    RULES.repeat(6)
}

/// A request without any key.
fn ask(world: &World, question: &str) -> Value {
    ask_as(world, question, json!({}))
}

fn ask_as(world: &World, question: &str, extra: Value) -> Value {
    let system = json!({"role": "system", "content": rules()});
    world.chat(json!([system, user(question)]), extra)
}

/// Asks in three conversations, as few as teach a prefix.
fn teach(world: &World) {
    for question in QUESTIONS {
        ask(world, question);
    }
}

fn learned(world: &World) -> Vec<Value> {
    world.get("/v1/learned").json()["data"].as_array().unwrap().clone()
}

fn until_warm(world: &World, count: usize) -> Vec<Value> {
    let is_warm = |prefix: &Value| prefix["state"] == "warm" && prefix["place"] == "hot";
    world.until("the prefixes are warm", |world| {
        let learned = learned(world);
        learned.len() == count && learned.iter().all(is_warm)
    });
    learned(world)
}

/// Teaches another prompt, and asserts that nothing else is learned: what is learned of later requests comes after
/// what would have been learned of those before. Returns its prefix.
fn learns_another_alone(world: &World) -> Value {
    let system = json!({"role": "system", "content": "Be the cook of a large ship. ".repeat(20)});
    for question in QUESTIONS {
        world.chat(json!([system, user(question)]), json!({}));
    }
    let prefix = until_warm(world, 1).remove(0);
    assert!(prefix["text"].as_str().unwrap().contains("the cook"), "{prefix}");
    prefix
}

fn number(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

#[test]
fn three_conversations_without_a_key_teach_their_system_prompt() {
    let world = World::new();
    for question in ["Is there breakfast?", "How late is it?"] {
        ask(&world, question);
    }
    ask(&world, "How late is it?"); // The same conversation once more.
    let other = learns_another_alone(&world);
    ask(&world, "Where is the beach?");
    let mut learned = until_warm(&world, 2);
    learned.retain(|prefix| prefix["name"] != other["name"]);
    let prefix = learned.remove(0);
    assert!(number(&prefix["tokens"]) > rules().len(), "{prefix}");
    assert!(number(&prefix["tokens"]) < rules().len() + 64, "{prefix}");
    assert!(prefix["text"].as_str().unwrap().contains("the porter"), "{prefix}");
    assert_eq!(prefix["computed_tokens"], 0, "its cells are shared with the conversation's");
}

#[test]
fn short_questions_teach_it_where_no_token_ends_the_users_turn() {
    const TEMPLATE: &str = "{% for message in messages %}[{{ message.role }}] {{ message.content }}\n\
        {% endfor %}[assistant]";
    let world = Plan::new().chat_template(TEMPLATE).start();
    teach(&world);
    let prefix = until_warm(&world, 1).remove(0);
    assert!(number(&prefix["tokens"]) < rules().len() + 16, "no question is in it: {prefix}");
}

#[test]
fn the_command_line_lists_and_forgets_them() {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let hobd = launch.args(["--model", "fake"]).start();
    let hob = |words: &[&str]| {
        let hob = std::path::Path::new(env!("CARGO_BIN_EXE_hobd")).with_file_name("hob");
        assert!(hob.exists(), "cargo build -p hob-cli");
        let output = Launch::new(hob, directory.path()).command().args(words).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    assert!(hob(&["prefixes"]).1.starts_with("no prefix is learned"));
    for forgets in ["one", "all"] {
        for question in QUESTIONS {
            let system = json!({"role": "system", "content": format!("{forgets} {}", rules())});
            hobd.client.chat(&json!({"messages": [system, user(question)], "max_tokens": 4}));
        }
        let learned = || hobd.client.get("/v1/learned")["data"].as_array().unwrap().clone();
        let prefix = wait::until("it is learned", || learned().first().cloned());
        let name = prefix["name"].as_str().unwrap();
        let (_, table, _) = hob(&["prefixes", "list"]);
        let row = table.lines().nth(1).unwrap();
        assert!(row.starts_with(name) && row.contains("the porter"), "{table}");
        let (_, listed, _) = hob(&["prefixes", "ls", "--json"]);
        assert_eq!(serde_json::from_str::<Value>(&listed).unwrap()[0]["name"], name);

        let what = if forgets == "all" { "--all" } else { name };
        assert_eq!(hob(&["prefixes", "forget", what]).1, format!("forgot {name}\n"));
        assert!(learned().is_empty());
    }
    let (code, _, error) = hob(&["prefixes", "forget", "0123456789abcdef"]);
    assert!(code == 4 && error.contains("hob prefixes"), "{code} {error}");
    assert_eq!(hob(&["prefixes", "forget"]).0, 2);
}

#[test]
fn after_a_restart_the_first_request_computes_its_new_tokens_only() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = Plan::new().directory(directory.path()).start();
    teach(&world);
    let tokens = number(&until_warm(&world, 1)[0]["tokens"]);
    world.stop();
    drop(world);

    let world = Plan::new().directory(directory.path()).start();
    let prefix = until_warm(&world, 1).remove(0);
    assert_eq!((&prefix["how"], &prefix["computed_tokens"]), (&json!("disk"), &json!(0)));
    assert_eq!(world.status().counters.computed_tokens, 0);
    let answer = ask(&world, "May I bring a dog?");
    let computed = number(&answer["hob"]["tokens"]["computed"]);
    assert_eq!(computed, number(&answer["usage"]["prompt_tokens"]) - tokens, "{answer}");
    assert_eq!(number(&answer["hob"]["tokens"]["shared"]), tokens);
}

#[test]
fn a_forgotten_prefix_loses_its_kv_and_its_conversations() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = Plan::new().directory(directory.path()).start();
    teach(&world);
    let name = until_warm(&world, 1)[0]["name"].as_str().unwrap().to_owned();
    let forgotten = world.call("DELETE", &format!("/v1/learned/{name}")).send();
    assert_eq!((forgotten.status, &forgotten.json()["forgotten"]), (200, &json!([name])));
    assert!(learned(&world).is_empty());
    let again = world.call("DELETE", &format!("/v1/learned/{name}")).send();
    assert_eq!((again.status, &again.error()["code"]), (404, &json!("prefix_not_found")));
    let invalid = world.call("DELETE", "/v1/learned/nonsense").send();
    assert_eq!((invalid.status, &invalid.error()["param"]), (400, &json!("name")));
    world.until("its KV is gone", |world| {
        world.get("/v1/slots").json()["data"] == json!([])
            && world.status().prefixes.iter().all(|slot| slot.conversation.is_none())
    });
    world.stop();
    drop(world);

    let world = Plan::new().directory(directory.path()).start();
    ask(&world, "May I bring a dog?"); // One further conversation is not enough.
    let other = learns_another_alone(&world);
    for forgotten in [json!([other["name"]]), json!([])] {
        let all = world.call("DELETE", "/v1/learned").send();
        assert_eq!((all.status, &all.json()["forgotten"]), (200, &forgotten));
    }
}

#[test]
fn requests_that_ask_to_store_nothing_teach_nothing() {
    let world = World::new();
    for private in [json!({"store": false}), json!({"hob": {"private": true}})] {
        for question in QUESTIONS {
            ask_as(&world, question, private.clone());
        }
    }
    learns_another_alone(&world);
}

#[test]
fn deleting_a_conversation_takes_what_only_it_and_two_others_taught() {
    let world = World::new();
    for (id, question) in [("a", "Is there breakfast?"), ("b", "How late?"), ("c", "Where?")] {
        ask_as(&world, question, json!({"conversation": id}));
    }
    until_warm(&world, 1);
    assert_eq!(world.call("DELETE", "/v1/conversations/b").send().status, 200);
    assert!(learned(&world).is_empty());
}

#[test]
fn a_prefix_that_a_profile_covers_is_not_learned() {
    let world = World::new();
    let text = format!("[[segment]]\nlayer = 'rules'\ntext = '{}'\n", rules());
    world.profile("porter", &text);
    let changes = world.reload();
    world.parts.profiles.warm_changed(&changes);
    world.until("the profile is warm", |world| {
        world.get("/v1/status").json()["prefixes"][0]["state"] == "warm"
    });
    for (id, question) in [("a", "Is there breakfast?"), ("b", "How late?"), ("c", "Where?")] {
        let body = json!({"conversation": id, "hob": {"profile": "porter"}});
        world.chat(json!([user(question)]), body);
    }
    learns_another_alone(&world);
}

#[test]
fn nothing_is_learned_and_what_was_learned_is_gone_when_the_setting_is_0() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = Plan::new().directory(directory.path()).start();
    teach(&world);
    until_warm(&world, 1);
    world.stop();
    drop(world);

    let world = Plan::new().directory(directory.path()).learned_prefixes(0).start();
    world.until("its KV is gone", |world| world.get("/v1/slots").json()["data"] == json!([]));
    teach(&world);
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(learned(&world).is_empty());
}

/// Several conversations without a key through the built hobd, a restart, and one more.
fn a_client_without_a_profile_is_warm_after_a_restart(arguments: &[&str], system: &str) {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--voice-command", "off"]).args(arguments.iter().copied());
    let mut hobd = launch.start();
    let ask = |client: &Client, said: Value| {
        let mut messages = vec![json!({"role": "system", "content": system})];
        messages.extend(said.as_array().unwrap().iter().cloned());
        client.chat(&json!({"messages": messages, "max_tokens": 4, "temperature": 0}))
    };
    for question in QUESTIONS {
        let answer = ask(&hobd.client, json!([user(question)]));
        let answer = answer["choices"][0]["message"].clone();
        ask(&hobd.client, json!([user(question), answer, user("And tomorrow?")]));
    }
    let warm = |client: &Client| {
        let learned = client.get("/v1/learned")["data"].clone();
        let is_warm = |prefix: &Value| prefix["state"] == "warm" && prefix["place"] == "hot";
        learned.as_array().unwrap().iter().all(is_warm).then_some(learned)
    };
    let learned = wait::until("it is learned", || {
        warm(&hobd.client).filter(|learned| learned.as_array().unwrap().len() == 1)
    });
    let tokens = number(&learned[0]["tokens"]);
    assert_eq!(hobd.process.terminate(wait::PATIENCE).code(), Some(0));

    let hobd = launch.start();
    let learned = wait::until("it is warm again", || warm(&hobd.client));
    assert_eq!(learned[0]["tokens"], tokens, "{learned}");
    let counters = hobd.client.get("/v1/status")["counters"].clone();
    assert_eq!(counters["computed_tokens"], 0, "the boot computes nothing");
    let answer = ask(&hobd.client, json!([user("May I bring a dog?")]));
    let from = &answer["hob"]["tokens"];
    assert_eq!(number(&from["shared"]), tokens, "{answer}");
    let new = number(&answer["usage"]["prompt_tokens"]) - tokens;
    assert_eq!(number(&from["computed"]), new, "{answer}");
    assert!(new < 64, "{answer}");
}

#[test]
fn a_client_with_a_prompt_of_10000_tokens_is_warm_after_a_restart() {
    let system = RULES.repeat(10_000 / RULES.len() + 1);
    a_client_without_a_profile_is_warm_after_a_restart(
        &["--model", "fake", "--ctx", "32768"],
        &system,
    );
}

#[cfg(feature = "llama")]
#[test]
fn a_client_is_warm_after_a_restart_on_llama_cpp() {
    a_client_without_a_profile_is_warm_after_a_restart(&["--model", "bundled"], &rules());
}
