//! What axe-core finds on a page.

use serde_json::Value;

use crate::Page;

/// See `vendor/README.md`.
const AXE: &str = include_str!("../vendor/axe.min.js");

/// Findings that keep somebody from using the page: those that axe calls serious or critical.
pub fn serious_findings(page: &Page) -> Vec<String> {
    // A page that is loaded anew has lost it.
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
    serious.map(told).collect()
}

fn told(violation: &Value) -> String {
    let nodes = violation["nodes"].as_array().into_iter().flatten().map(|node| {
        format!("\n    {} {}", node["html"], node["failureSummary"].as_str().unwrap_or_default())
    });
    format!("{} ({}): {}{}", violation["id"], violation["impact"], violation["help"], {
        nodes.collect::<String>()
    })
}
