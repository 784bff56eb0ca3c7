//! `request` and `cancel`: any HTTP-shaped request of the page, answered over a channel.
//!
//! - The body arrives as bytes, everything else in the header `hob-request`: in JSON, each byte would be
//!   written as a number.
//! - The channel carries `{status, headers}`, then the body's chunks as raw bytes, then `{end: true}`; or
//!   `{error}` at any time, and nothing after it.
//! - A request waits until a daemon runs.
//! - A request that the page cancels, or abandons by reloading, is dropped with its work.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use tauri::async_runtime::JoinHandle;
use tauri::ipc::{InvokeBody, JavaScriptChannelId, Request};
use tauri::{State, Webview};

use super::backend::{Backend, PageRequest, ResponseChannel};

/// The header `hob-request`.
#[derive(Deserialize)]
struct Head {
    id: u64,
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
    channel: JavaScriptChannelId,
}

/// The tasks that run for the page.
#[derive(Clone, Default)]
pub struct Requests {
    inner: Arc<Mutex<Running>>,
}

#[derive(Default)]
struct Running {
    requests: HashMap<u64, JoinHandle<()>>,
    listeners: Vec<JoinHandle<()>>,
}

impl Requests {
    /// Drops everything: the page was reloaded, and its ids restart.
    pub fn drop_all(&self) {
        let running = std::mem::take(&mut *self.lock());
        running.requests.into_values().chain(running.listeners).for_each(|task| task.abort());
    }

    /// Keeps a task until the page is reloaded.
    pub fn listen(&self, task: JoinHandle<()>) {
        self.lock().listeners.push(task);
    }

    fn drop_one(&self, id: u64) {
        if let Some(task) = self.lock().requests.remove(&id) {
            task.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.inner.lock()
    }
}

/// Sends a request to the daemon; the response arrives over its channel.
#[tauri::command]
pub fn request(
    webview: Webview,
    backend: State<'_, Backend>,
    requests: State<'_, Requests>,
    request: Request<'_>,
) -> Result<(), String> {
    let header = request.headers().get("hob-request").ok_or("there is no header hob-request")?;
    let head: Result<Head, _> = serde_json::from_slice(header.as_bytes());
    let Head { id, method, path, headers, channel } =
        head.map_err(|error| format!("hob-request: {error}"))?;
    let channel = channel.channel_on(webview);
    let request = PageRequest { method, path, headers, body: bytes(request.body())? };
    let (transport, all) = (backend.transport(), requests.inner().clone());
    let mut running = requests.lock(); // Until the task is listed, it cannot remove itself.
    let task = tauri::async_runtime::spawn(async move {
        let response = ResponseChannel::new(channel);
        match transport.ready(&request).await {
            Ok(transport) => transport.send(request, response).await,
            Err(message) => response.fail(&message),
        }
        all.lock().requests.remove(&id);
    });
    if let Some(before) = running.requests.insert(id, task) {
        before.abort();
    }
    Ok(())
}

/// A web view that cannot send bytes sends a list of numbers.
fn bytes(body: &InvokeBody) -> Result<Vec<u8>, String> {
    match body {
        InvokeBody::Raw(bytes) => Ok(bytes.clone()),
        InvokeBody::Json(numbers) => Vec::deserialize(numbers).map_err(|e| format!("body: {e}")),
    }
}

#[tauri::command]
pub fn cancel(requests: State<'_, Requests>, id: u64) {
    requests.drop_one(id);
}
