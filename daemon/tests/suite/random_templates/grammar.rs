//! Generated chat templates: Jinja as models' templates have it, and what takes all that it can get.

use crate::common::chance::Chance;

/// Most names are defined, so that most templates get further than their first term.
const START: &str = "{# tools #}{% set ns = namespace(x='ab', n=0, list=[1, 'two']) %}{% set m = messages[0] %}\
    {% set v = 'v' %}{% set a = 'a' %}";

/// Statements of a template, and how deep they nest.
const STATEMENTS: usize = 8;
const DEPTH: usize = 4;

/// Generates one template.
pub struct Grammar(pub Chance);

impl Grammar {
    pub fn template(&mut self) -> String {
        let mut template = String::from(START);
        for _ in 0..2 + self.below(STATEMENTS) {
            template += &self.statement(DEPTH);
        }
        if self.one_in(12) {
            template = self.nested();
        }
        if self.one_in(10) {
            self.break_off(&mut template);
        }
        template
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0.within(0..bound)
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn among(&mut self, texts: &[&'static str]) -> &'static str {
        self.0.one_of(texts)
    }

    fn body(&mut self, depth: usize) -> String {
        (0..1 + self.below(3)).map(|_| self.statement(depth)).collect()
    }

    fn statement(&mut self, depth: usize) -> String {
        if depth == 0 {
            return format!("{{{{ {} }}}}", self.term(0));
        }
        let inner = depth - 1;
        match self.below(14) {
            0 | 1 => self.among(&["<|im_start|>", "\n", "[INST] ", "é水 ", "{# a note #}"]).into(),
            2..=4 => format!("{{{{ {} }}}}", self.some_term()),
            5 => {
                let over = self.list();
                format!("{{% for m in {over} %}}{}{{% endfor %}}", self.body(inner))
            }
            6 => {
                let (test, body, other) = (self.some_term(), self.body(inner), self.body(inner));
                format!("{{% if {test} %}}{body}{{% else %}}{other}{{% endif %}}")
            }
            7 => format!("{{% set v = {} %}}", self.some_term()),
            8 => {
                format!("{{% set ns.{} = {} %}}", self.among(&["x", "n", "list"]), self.some_term())
            }
            // What doubles takes all memory after some thirty rounds.
            9 => {
                let grows = self.among(&[
                    "ns.x = ns.x ~ ns.x",
                    "ns.list = ns.list + ns.list",
                    "ns.list = [ns.list, ns.list]",
                    "ns.x = ns.x.replace('a', ns.x)",
                    "ns.x = ns.list | join(ns.x)",
                    "ns.n = ns.n * 10 + 9",
                    "ns.list = {'a': ns.list, 'b': ns.list}",
                    "ns.x = ns.list | tojson(indent=8)",
                ]);
                let rounds = self.among(&["3", "12", "70", "100000"]);
                format!("{{% for i in range({rounds}) %}}{{% set {grows} %}}{{% endfor %}}")
            }
            10 => {
                let (name, body) = (self.among(&["f", "g"]), self.body(inner));
                let call = self.among(&["{{ f(1) }}", "{{ g(a) }}", ""]);
                format!("{{% macro {name}(a) %}}{body}{call}{{% endmacro %}}{{{{ {name}(2) }}}}")
            }
            11 => format!("{{% set v %}}{}{{% endset %}}", self.body(inner)),
            12 => {
                let filter = self.among(&["upper", "trim", "indent(4)", "replace('a', 'aaaa')"]);
                format!("{{% filter {filter} %}}{}{{% endfilter %}}", self.body(inner))
            }
            _ => self
                .among(&[
                    "{% if v == 'none' %}{{ raise_exception('no') }}{% endif %}",
                    "{% generation %}a{% endgeneration %}",
                    "{% raw %}{{ x }}{% endraw %}",
                    "{% if v == 'break' %}{% include 'a' %}{% endif %}",
                    "{% for i in [1] %}{% break %}{% endfor %}",
                ])
                .into(),
        }
    }

    fn list(&mut self) -> String {
        let list = self.among(&[
            "messages",
            "messages",
            "tools or []",
            "range(9)",
            "range(100000)",
            "range(10 ** 18)",
            "ns.list",
            "messages[::-1]",
            "messages[0].items()",
            "(messages + messages) | batch(2)",
            "'abc' | list",
        ]);
        list.to_owned()
    }

    fn some_term(&mut self) -> String {
        let depth = self.0.one_of(&[0, 1, 1, 1, 2, 3]);
        self.term(depth)
    }

    fn term(&mut self, depth: usize) -> String {
        if depth == 0 {
            let term = self.among(&[
                "messages",
                "messages[0].content",
                "messages[-1]['role']",
                "m.content",
                "m",
                "tools",
                "bos_token",
                "ns.x",
                "ns.n",
                "ns.list",
                "ns",
                "v",
                "a",
                "loop",
                "'text'",
                "'%s' * 9",
                "0",
                "-1",
                "9223372036854775807",
                "1e308",
                "none",
                "true",
                "undefined_name",
                "{'a': [1, 2]}",
                "[[]]",
                "add_generation_prompt",
                "strftime_now('%Y-%m-%d')",
            ]);
            return term.to_owned();
        }
        let (one, other) = (self.term(depth - 1), self.term(depth - 1));
        match self.below(8) {
            0 | 1 => {
                let operator = if self.one_in(6) {
                    self.among(&["+", "*", "-", "/", "//", "%", "**", "<", "in"])
                } else {
                    self.among(&["~", "~", "==", "!=", "and", "or"])
                };
                format!("({one} {operator} {other})")
            }
            2 => {
                let filter = self.among(&[
                    "trim",
                    "length",
                    "tojson",
                    "tojson(indent=2)",
                    "join(', ')",
                    "list",
                    "upper",
                    "replace('a', 'bb')",
                    "indent(100000)",
                    "batch(3)",
                    "slice(2)",
                    "sort",
                    "unique",
                    "map(attribute='role')",
                    "selectattr('role', 'equalto', 'user')",
                    "reverse",
                    "first",
                    "last",
                    "default('none')",
                    "items",
                    "string",
                    "int",
                    "format",
                    "safe",
                    "center(100000000)",
                    "wordcount",
                    "abs",
                    "round(400)",
                    "dictsort",
                    "groupby('role')",
                    "sum",
                    "max",
                    "urlencode",
                    "pprint",
                ]);
                format!("({one} | {filter})")
            }
            3 => {
                let method = self.among(&[
                    "strip()",
                    "split('a')",
                    "startswith('<')",
                    "upper()",
                    "replace('a', 'b' * 1000)",
                    "rstrip('\\n')",
                    "split('</think>')[-1]",
                    "count('a')",
                    "join(['a', 'b'])",
                    "title()",
                ]);
                format!("({one} | string).{method}")
            }
            4 => format!("({one} or {other})"),
            5 => format!(
                "({one} | string)[{}]",
                self.among(&["1:", ":-1", "::2", "-1", "0:10 ** 12", "::-1"])
            ),
            6 => {
                let test = self.among(&["defined", "none", "string", "mapping", "iterable", "odd"]);
                format!("({one} if {other} is {test} else {other})")
            }
            _ => format!("{}{one}", self.among(&["not ", "-", "not not "])),
        }
    }

    /// One thing in itself, thousands deep.
    fn nested(&mut self) -> String {
        let deep = [20, 300, 3_000, 60_000][self.below(4)];
        let (open, inside, close) = self.0.one_of(&[
            ("(", "1", ")"),
            ("[", "1", "]"),
            ("{'a': ", "1", "}"),
            ("not ", "1", ""),
            ("-", "1", ""),
            ("a.", "b", ""),
            ("'a' ~ ", "'b'", ""),
            ("", "'a'", " | upper"),
            ("", "a", "[0]"),
            ("", "a", ".b()"),
            ("1 if 1 else ", "2", ""),
        ]);
        if self.one_in(3) {
            let (open, close) = self.0.one_of(&[
                ("{% if 1 %}", "{% endif %}"),
                ("{% for i in [1, 2] %}", "{% endfor %}"),
                ("{% set v %}", "{% endset %}"),
                ("{% filter upper %}", "{% endfilter %}"),
                ("{% macro f() %}", "{% endmacro %}"),
            ]);
            let deep = deep.min(20_000);
            return format!("{}a{}", open.repeat(deep), close.repeat(deep));
        }
        format!("{{{{ {}{inside}{} }}}}", open.repeat(deep), close.repeat(deep))
    }

    /// Cuts it, or changes one of its characters.
    fn break_off(&mut self, template: &mut String) {
        let at = self.below(template.len());
        let at = (0..=at).rev().find(|at| template.is_char_boundary(*at)).unwrap_or(0);
        if self.one_in(2) {
            template.truncate(at);
        } else {
            template
                .insert_str(at, self.among(&["{%", "}}", "'", "\u{0}", "%}", "{#", "\u{202e}"]));
        }
    }
}
