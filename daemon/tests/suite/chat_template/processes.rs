//! The process that renders templates: what it may take, and its end. A template that takes all that it can get is an
//! error of the one request.

use std::fs;

#[cfg(target_os = "linux")]
use hob_testkit::{Hobd, Process, Signal, wait};
use serde_json::{Value, json};

#[cfg(target_os = "linux")]
use super::TEMPLATE;
use super::{ANY_PORT, launch};

/// Templates that render a greeting, and take all memory for another word.
fn hostile() -> [(&'static str, String); 3] {
    let on =
        |word: &str| format!("{{% if messages[-1].content == 'Attack' %}}{word}{{% endif %}}fine");
    let doubled = "{% set ns = namespace(x='x' * 1000) %}{% for i in range(60) %}{% set ns.x = ns.x ~ \
                   ns.x %}{% endfor %}";
    let lists = "{% set ns = namespace(x=[1, 2]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x \
                 %}{% endfor %}{{ ns.x | length }}";
    let replaced = "{% set ns = namespace(x='x' * 1000) %}{% for i in range(9) %}{% set ns.x = \
                    ns.x.replace('x', 'x' * 1000) %}{% endfor %}";
    [("doubled", doubled), ("lists", lists), ("replaced", replaced)]
        .map(|(name, text)| (name, on(text)))
}

#[test]
fn a_template_that_takes_all_memory_is_an_error_of_the_one_request() {
    for (name, source) in hostile() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.jinja");
        fs::write(&path, source).unwrap();
        let hobd = launch(directory.path(), "fake", &path).start();
        let say = |text: &str| {
            let body = json!({"messages": [{"role": "user", "content": text}], "max_tokens": 4});
            hobd.client.call("POST", "/v1/chat/completions").json(&body).send()
        };
        for _ in 0..2 {
            assert_eq!(say("Hello").status, 200, "{name}");
            let refused = say("Attack");
            let text = refused.text();
            assert_eq!(refused.status, 400, "{name}: {text}");
            assert!(text.contains("1024 MiB of memory"), "{name}: {text}");
        }
        assert_eq!(say("Hello").status, 200, "{name}");
    }
}

/// Each of the 90,000 rounds reads 8 MB, so no processor is done after 10 s; it has far fewer steps than it may.
const SLOW: &str = "{% set ns = namespace(x='x' * 1000) %}{% for i in range(13) %}{% set ns.x = ns.x ~ ns.x %}\
                    {% endfor %}{% for i in range(90000) %}{% set y = ns.x.replace('y', 'z') %}{% endfor %}";

#[test]
fn a_template_that_takes_too_long_is_ended_and_not_tried_with_another_form() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    let source = format!(
        "{{% if messages | length > 1 and messages[0].content == 'Attack' %}}{SLOW}{{% endif %}}fine"
    );
    fs::write(&path, source).unwrap();
    let hobd = launch(directory.path(), "fake", &path).start();
    let say = |texts: &[&str]| {
        let said = |text: &&str| json!({"role": "user", "content": text});
        let messages: Vec<Value> = texts.iter().map(said).collect();
        let body = json!({"messages": messages, "max_tokens": 4});
        hobd.client.call("POST", "/v1/chat/completions").json(&body).send()
    };
    // In the form in which the user speaks once, these words take no time.
    assert_eq!(say(&["Attack\n\nAttack"]).status, 200);
    let refused = say(&["Attack", "Attack"]);
    let text = refused.text();
    assert_eq!(refused.status, 400, "{text}");
    assert!(text.contains("not rendered after 10 s"), "{text}");
    assert_eq!(say(&["Hello", "Hello"]).status, 200);
}

/// The states and ids of hobd's children whose command line contains `word`. That of a zombie is empty.
#[cfg(target_os = "linux")]
fn children(hobd: &Hobd, word: &str) -> Vec<(char, u32)> {
    let parent = hobd.process.id().to_string();
    let child = |pid: u32| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
        let stat = read("stat")?;
        let mut behind_name = stat.rsplit(')').next()?.split_whitespace();
        let state = behind_name.next()?.chars().next()?;
        let is_child = behind_name.next()? == parent && read("cmdline")?.contains(word);
        is_child.then_some((state, pid))
    };
    let entries = fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(child).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn no_dead_process_of_a_template_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    fs::write(&path, TEMPLATE).unwrap();
    // One process has tried the template, and one renders.
    let hobd = launch(directory.path(), "fake", &path).start();
    wait::until("no child of hobd is dead", || {
        children(&hobd, "").iter().all(|(state, _)| *state != 'Z').then_some(())
    });
}

#[cfg(target_os = "linux")]
#[test]
fn the_process_that_renders_outlives_the_thread_that_started_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    fs::write(&path, TEMPLATE).unwrap();
    let hobd = launch(directory.path(), "fake", &path).start();
    let render = || {
        let body = json!({"messages": [{"role": "user", "content": "Hi"}]});
        assert_eq!(hobd.client.call("POST", "/apply-template").json(&body).send().status, 200);
        children(&hobd, "--render-templates")[0].1
    };
    let first = render();
    Process::signal(first, Signal::KILL);
    let second = render();
    assert_ne!(first, second, "a thread of a pool has started another");
    wait::until("the threads of the pool have ended, 10 s later", || {
        let threads = fs::read_dir(format!("/proc/{}/task", hobd.process.id())).unwrap();
        let names = threads.map(|it| fs::read_to_string(it.unwrap().path().join("comm")));
        names.flatten().all(|name| name.trim() != "hob-compute").then_some(())
    });
    assert_eq!(render(), second);
}

#[cfg(target_os = "linux")]
#[test]
fn a_prompt_whose_process_the_system_ends_twice_may_be_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    let source = format!("{{% if messages[0].content == 'Attack' %}}{SLOW}{{% endif %}}fine");
    fs::write(&path, source).unwrap();
    let hobd = launch(directory.path(), "fake", &path).start();
    let say = |text: &str| {
        let body = json!({"messages": [{"role": "user", "content": text}], "max_tokens": 4});
        hobd.client.call("POST", "/v1/chat/completions").json(&body).send()
    };
    assert_eq!(say("Hello").status, 200);
    let first = children(&hobd, "--render-templates")[0].1;
    let refused = std::thread::scope(|scope| {
        let asked = scope.spawn(|| say("Attack"));
        Process::signal(first, Signal::KILL);
        let second = wait::until("another process renders", || {
            let mut renders = children(&hobd, "--render-templates").into_iter().map(|(_, pid)| pid);
            renders.find(|pid| *pid != first)
        });
        Process::signal(second, Signal::KILL);
        asked.join().unwrap()
    });
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(refused.error()["code"], "template_process");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(say("Hello").status, 200);
}

#[test]
fn a_template_that_is_nested_too_deep_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    fs::write(&path, format!("{{{{ {}1 }}}}", "not ".repeat(200_000))).unwrap();
    let output = launch(directory.path(), "fake", &path).command().args(ANY_PORT).output().unwrap();
    let refused = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{refused}");
    assert!(refused.contains("64 MiB of stack"), "{refused}");
}
