//! Schemas and grammars made to take gigabytes or a deep stack, given to the built hobd: each is followed or
//! refused, without much memory, and hobd goes on. `grammar::tests::refusals` counts the steps that they take;
//! the processor's time for each is printed here.
//!
//! - `HOB_TEST_ALL=1`, on a quiet machine: 5,000 random schemas instead of 150, each in 2 s of the processor.
//! - `HOB_BENCH_MODEL=PATH`: over the vocabulary of this model, instead of the fake's 256 bytes. What a request
//!   without a form takes does not count.

use std::fs;
use std::path::Path;
use std::time::Duration;

use hob_testkit::{Answer, Hobd, Launch, Memory};
use serde_json::{Value, json};

use crate::common::chance::Chance;
use crate::common::merged;

/// Of the processor's time for one request, with `HOB_TEST_ALL`: how long the same steps take is up to the machine.
/// A debug build takes about 20 times as long.
const CPU: Duration = Duration::from_secs(if cfg!(debug_assertions) { 40 } else { 2 });

/// For one request, beyond what the daemon has had before.
const MEMORY_BYTES: u64 = 256 << 20;

fn is_whole() -> bool {
    std::env::var_os("HOB_TEST_ALL").is_some()
}

/// The file of a real model.
fn model() -> Option<String> {
    std::env::var("HOB_BENCH_MODEL").ok()
}

struct MeasuredHobd {
    hobd: Hobd,
    peak_bytes: u64,
    /// What the processor takes for a request without a form.
    formless: Duration,
    slowest: (Duration, String),
    largest: (u64, String),
}

impl MeasuredHobd {
    fn start(directory: &Path) -> Self {
        let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
        let model = model().unwrap_or_else(|| "fake".to_owned());
        let hobd = launch.args(["--model", &model]).start();
        let none = String::new();
        let (slowest, largest) = ((Duration::ZERO, none.clone()), (0, none));
        let formless = Duration::ZERO;
        let mut tried = Self { hobd, peak_bytes: 0, formless, slowest, largest };
        assert_eq!(tried.ask(&json!({"response_format": {"type": "json_object"}})).status, 200);
        let computed = tried.cpu();
        (0..4).for_each(|_| assert_eq!(tried.ask(&json!({})).status, 200));
        tried.formless = (tried.cpu() - computed) / 4;
        tried.peak_bytes = tried.peak_bytes();
        tried
    }

    fn ask(&self, fields: &Value) -> Answer {
        let body = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4});
        let body = merged(body, fields);
        self.hobd.client.call("POST", "/v1/chat/completions").json(&body).send()
    }

    fn expect_an_answer(&mut self, what: &str, fields: &Value) {
        let computed = self.cpu();
        let answer = self.ask(fields);
        assert!([200, 400].contains(&answer.status), "{what}: {}", answer.text());
        assert!(answer.text().len() < 4_096, "{what}: {} bytes", answer.text().len());
        let took = (self.cpu() - computed).saturating_sub(self.formless);
        assert!(took <= CPU || !is_whole(), "{what}: {took:?}");
        if took > self.slowest.0 {
            self.slowest = (took, what.chars().take(120).collect());
        }
        let peak = self.peak_bytes();
        let taken = peak.saturating_sub(self.peak_bytes); // The kernel counts roughly.
        assert!(taken < MEMORY_BYTES, "{what}: {} MiB", taken >> 20);
        self.peak_bytes = self.peak_bytes.max(peak);
        if taken > self.largest.0 {
            self.largest = (taken, what.chars().take(120).collect());
        }
    }

    fn print(&self) {
        let (took, slowest) = &self.slowest;
        println!("{} ms of the processor: {slowest}", took.as_millis());
        let (bytes, largest) = &self.largest;
        println!("{} MiB: {largest}", bytes >> 20);
    }

    /// What all threads of the process have computed, in steps of 10 ms.
    fn cpu(&self) -> Duration {
        const TICKS_PER_SEC: u64 = 100;
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.hobd.ready["pid"])).unwrap();
        let (_, fields) = stat.rsplit_once(") ").expect("the name is in brackets");
        let times = fields.split(' ').skip(11).take(2); // In user mode and in the kernel.
        let ticks: u64 = times.map(|time| time.parse::<u64>().expect("a number")).sum();
        Duration::from_millis(ticks * 1_000 / TICKS_PER_SEC)
    }

    /// The most memory that the process has had so far.
    fn peak_bytes(&self) -> u64 {
        Memory::of(&self.hobd.ready["pid"]).peak_bytes
    }
}

fn of_schema(schema: &Value) -> Value {
    let schema = json!({"name": "s", "schema": schema});
    json!({"response_format": {"type": "json_schema", "json_schema": schema}})
}

fn of_tool(schema: &Value) -> Value {
    let function = json!({"name": "f", "parameters": schema});
    json!({"tool_choice": "required", "tools": [{"type": "function", "function": function}]})
}

/// Alternatives that `allOf` multiplies: 2^`count` objects.
fn multiplied(count: usize) -> Value {
    let one =
        |name: String, of: &str| json!({"type": "object", "properties": {name: {"type": of}}});
    let both = |at: usize| [one(format!("p{at}"), "string"), one(format!("q{at}"), "number")];
    json!({"allOf": (0..count).map(|at| json!({"anyOf": both(at)})).collect::<Vec<_>>()})
}

/// The same of 3^`count` values of any type.
fn mixed(count: usize) -> Value {
    let any = |at: usize| {
        json!({"anyOf": [
            {"pattern": format!("a{at}")},
            {"minimum": at},
            {"properties": {(format!("p{at}")): {"type": "string"}}},
        ]})
    };
    json!({"allOf": (0..count).map(any).collect::<Vec<_>>()})
}

fn nested(depth: usize, around: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(json!({"type": "string"}), |inner, _| around(inner))
}

#[test]
fn schemas_and_grammars_of_a_few_kilobytes_take_no_gigabytes() {
    let directory = tempfile::tempdir().unwrap();
    let mut hobd = MeasuredHobd::start(directory.path());
    let string = |pattern: &str| of_schema(&json!({"type": "string", "pattern": pattern}));
    let grammar = |source: String| json!({ "grammar": source });
    let around = |count: usize| format!("{}a{}", "(".repeat(count), ")".repeat(count));
    for (what, fields) in [
        ("1,024 objects", of_schema(&multiplied(10))),
        ("2^25 objects", of_schema(&multiplied(25))),
        ("3^25 values", of_schema(&mixed(25))),
        ("2^25 objects of a tool", of_tool(&json!({"properties": {"a": multiplied(25)}}))),
        (
            "50 optional values",
            of_schema(&nested(50, |it| json!({"anyOf": [it, {"type": "null"}]}))),
        ),
        (
            "50 lists of lists",
            of_schema(&nested(
                50,
                |it| json!({"type": "array", "items": it, "minItems": 40, "maxItems": 900}),
            )),
        ),
        (
            "2^14 places",
            of_schema(&nested(
                14,
                |it| json!({"type": "object", "properties": {"a": it, "b": it}, "required": ["a", "b"]}),
            )),
        ),
        ("repeated repetitions", string("^((a{1,900}){1,900}){1,900}$")),
        ("states of a search", string("^(.*a.{900}){30}$")),
        ("optional letters", string("^(?:a?){3000}a{3000}$")),
        ("a deep expression", string(&around(20_000))),
        ("a deep guided expression", json!({"guided_regex": around(20_000)})),
        ("a deep grammar", grammar(format!("root ::= {}", around(20_000)))),
        ("20,000 alternatives", grammar(format!("root ::= \"a\"{}", " | \"b\"".repeat(20_000)))),
        ("a rule of itself", grammar("root ::= root root | root | \"a\"".to_owned())),
        ("numbers", of_schema(&json!({"type": "number", "multipleOf": 1e-7, "maximum": 1e300}))),
        (
            "a name of itself",
            of_schema(&json!({
                "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"
            })),
        ),
    ] {
        // A model computes the tools' definitions in its prompt.
        if fields["tools"].is_null() || model().is_none() {
            hobd.expect_an_answer(what, &fields);
        }
    }
    assert_eq!(hobd.ask(&of_schema(&json!({"type": "object"}))).status, 200);
    hobd.print();
}

#[test]
fn random_schemas_take_no_gigabytes() {
    let count = if is_whole() { 5_000 } else { 150 };
    let directory = tempfile::tempdir().unwrap();
    let mut hobd = MeasuredHobd::start(directory.path());
    for seed in 0..count {
        let mut random = Random(Chance(seed));
        let schema = random.schema(7);
        let is_of_tool = seed % 4 == 0 && model().is_none();
        let fields = if is_of_tool { of_tool(&schema) } else { of_schema(&schema) };
        hobd.expect_an_answer(&format!("seed {seed}: {schema}"), &fields);
    }
    hobd.print();
}

struct Random(Chance);

impl Random {
    fn schemas(&mut self, depth: u32) -> Vec<Value> {
        (0..1 + self.0.below(5)).map(|_| self.schema(depth - 1)).collect()
    }

    fn schema(&mut self, depth: u32) -> Value {
        let (low, high) = (self.0.below(40), 40 + self.0.below(2_000));
        match self.0.below(if depth == 0 { 5 } else { 11 }) {
            0 => json!({"type": "string", "minLength": low, "maxLength": high}),
            1 => {
                json!({"type": "string", "pattern": format!("^(a|b.{{{low},{high}}}|[c-z]*){{0,{low}}}")})
            }
            2 => json!({"type": "integer", "minimum": low, "maximum": high * high}),
            3 => json!({"enum": (0..low).map(|at| format!("word {at}")).collect::<Vec<_>>()}),
            4 => json!({}),
            5 => json!({"anyOf": self.schemas(depth)}),
            6 => json!({"oneOf": self.schemas(depth)}),
            7 => json!({"allOf": self.schemas(depth)}),
            8 => json!({
                "type": "array", "items": self.schema(depth - 1), "minItems": low, "maxItems": high
            }),
            _ => {
                let properties = self.schemas(depth).into_iter().enumerate();
                let properties: serde_json::Map<_, _> =
                    properties.map(|(at, schema)| (format!("{}{at}", low % 3), schema)).collect();
                let required: Vec<_> = properties.keys().take(low as usize % 4).cloned().collect();
                json!({"type": "object", "properties": properties, "required": required})
            }
        }
    }
}
