//! `request` and `cancel`: any HTTP-shaped request of the page, answered over a channel.
//!
//! - The body comes as bytes, and everything else in the header `hob-request`: within JSON, a byte would
//!   take the room of a number.
//! - The channel carries `{status, headers}`, then the body's chunks as raw bytes, then `{end: true}`; or
//!   `{error}`, at any time, and nothing after it.
//! - A request waits until there is a daemon to ask.
//! - What the page gave up, or has left by loading anew, is dropped, and the work for it with it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use tauri::async_runtime::JoinHandle;
use tauri::ipc::{InvokeBody, JavaScriptChannelId, Request};
use tauri::{State, Webview};

use super::backend::{Ask, Backend, Outlet};

/// What the page asks.
#[derive(Deserialize)]
struct Head {
    id: u64,
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
    channel: JavaScriptChannelId,
}

/// What runs for the page.
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
    /// Drops everything: there is another page now, whose numbers begin anew.
    pub fn drop_all(&self) {
        let running = std::mem::take(&mut *self.lock());
        running.requests.into_values().chain(running.listeners).for_each(|task| task.abort());
    }

    /// Keeps a task for as long as the page is the same.
    pub fn listen(&self, task: JoinHandle<()>) {
        self.lock().listeners.push(task);
    }

    fn drop_one(&self, id: u64) {
        if let Some(task) = self.lock().requests.remove(&id) {
            task.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries a request to the daemon; the answer comes over its channel.
#[tauri::command]
pub fn request(
    webview: Webview,
    backend: State<'_, Backend>,
    requests: State<'_, Requests>,
    request: Request<'_>,
) -> Result<(), String> {
    let head = request.headers().get("hob-request").ok_or("there is no header hob-request")?;
    let head: Result<Head, _> = serde_json::from_slice(head.as_bytes());
    let head = head.map_err(|error| format!("hob-request: {error}"))?;
    let Head { id, method, path, headers, channel } = head;
    let channel = channel.channel_on(webview);
    let ask = Ask { method, path, headers, body: bytes(request.body())? };
    let (carriers, all) = (backend.carriers(), requests.inner().clone());
    let mut running = requests.lock(); // Until the task is listed, it cannot take itself off the list.
    let task = tauri::async_runtime::spawn(async move {
        let outlet = Outlet::new(channel);
        match carriers.ready(&ask).await {
            Ok(carrier) => carrier.carry(ask, outlet).await,
            Err(why) => outlet.fail(&why),
        }
        all.lock().requests.remove(&id);
    });
    if let Some(before) = running.requests.insert(id, task) {
        before.abort();
    }
    Ok(())
}

/// A web view that cannot send bytes sends numbers.
fn bytes(body: &InvokeBody) -> Result<Vec<u8>, String> {
    match body {
        InvokeBody::Raw(bytes) => Ok(bytes.clone()),
        InvokeBody::Json(numbers) => Vec::deserialize(numbers).map_err(|e| format!("body: {e}")),
    }
}

/// Drops a request.
#[tauri::command]
pub fn cancel(requests: State<'_, Requests>, id: u64) {
    requests.drop_one(id);
}
