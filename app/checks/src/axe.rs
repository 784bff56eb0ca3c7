//! Accessibility findings of axe-core.

use serde_json::Value;

use crate::Page;

/// See `vendor/README.md`.
const AXE: &str = include_str!("../vendor/axe.min.js");

/// What axe finds, whatever its impact.
pub fn findings(page: &Page) -> Vec<String> {
    violations(page).iter().map(description).collect()
}

/// What axe rates serious or critical.
pub fn serious_findings(page: &Page) -> Vec<String> {
    let found = violations(page);
    let is_serious = |one: &&Value| matches!(one["impact"].as_str(), Some("serious" | "critical"));
    found.iter().filter(is_serious).map(description).collect()
}

fn violations(page: &Page) -> Vec<Value> {
    // Reloading the page removes axe.
    if page.script("return typeof axe") == "undefined" {
        page.script(AXE);
    }
    // Its copies of imported styles would violate the security policy.
    let found = page.run_async(
        "const done = arguments[arguments.length - 1];
         axe.run(document, {resultTypes: ['violations'], preload: false})
             .then(result => done(result.violations), error => done(String(error)));",
        &[],
    );
    let found = found.expect("axe runs");
    let Value::Array(violations) = found else { panic!("axe failed: {found}") };
    violations
}

fn description(violation: &Value) -> String {
    let nodes = violation["nodes"].as_array().into_iter().flatten().map(|node| {
        format!("\n    {} {}", node["html"], node["failureSummary"].as_str().unwrap_or_default())
    });
    format!("{} ({}): {}{}", violation["id"], violation["impact"], violation["help"], {
        nodes.collect::<String>()
    })
}
