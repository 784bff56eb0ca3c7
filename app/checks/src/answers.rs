//! Scripts that change what the page gets of a daemon that answers.

use serde_json::Value;

use crate::page::quoted;

/// Holds each request whose address has `part` in it back until `release()`.
pub fn held(part: &str) -> String {
    let part = quoted(part);
    format!(
        "const answer = window.fetch;
         const released = new Promise((release) => {{ window.release = release; }});
         window.fetch = async (path, ...rest) => {{
             if (String(path).includes({part})) await released;
             return answer(path, ...rest);
         }};"
    )
}

/// The status has these `fields` in place of its own.
pub fn status_with(fields: &Value) -> String {
    format!(
        "const answer = window.fetch;
         window.fetch = async (path, ...rest) => {{
             const response = await answer(path, ...rest);
             if (path !== '/v1/status') return response;
             return Response.json({{ ...(await response.json()), ...{fields} }});
         }};"
    )
}
