//! Accessibility findings of axe-core.

use serde_json::Value;

use crate::Page;

/// See `vendor/README.md`.
const AXE: &str = include_str!("../vendor/axe.min.js");

/// The findings that axe rates serious or critical.
pub fn serious_findings(page: &Page) -> Vec<String> {
    // Reloading the page removes axe.
    if page.script("return typeof axe") == "undefined" {
        page.script(AXE);
    }
    let found = page.run_async(
        "const done = arguments[arguments.length - 1];
         axe.run(document, {resultTypes: ['violations']})
             .then(result => done(result.violations), error => done(String(error)));",
        &[],
    );
    let found = found.expect("axe runs");
    let Value::Array(violations) = found else { panic!("axe failed: {found}") };
    let serious = violations
        .iter()
        .filter(|violation| matches!(violation["impact"].as_str(), Some("serious" | "critical")));
    serious.map(description).collect()
}

fn description(violation: &Value) -> String {
    let nodes = violation["nodes"].as_array().into_iter().flatten().map(|node| {
        format!("\n    {} {}", node["html"], node["failureSummary"].as_str().unwrap_or_default())
    });
    format!("{} ({}): {}{}", violation["id"], violation["impact"], violation["help"], {
        nodes.collect::<String>()
    })
}
