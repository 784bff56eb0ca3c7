//! The folder for models: a browser copies its path, the app opens it.

use hob_checks::{Browser, Hobd, Look, Model, Page};
use serde_json::{Value, json};

/// The app's shell as far as the page needs it here: requests go to hobd, other commands are recorded.
const SHELL: &str = "
    const channels = new Map();
    class Channel {
      id = channels.size;
      onmessage = () => {};
      constructor() { channels.set(this.id, this); }
      toJSON() { return this.id; }
    }
    window.invoked = [];
    async function request(bytes, { headers }) {
      const { method, path, headers: given, channel } = JSON.parse(headers['hob-request']);
      const all = { ...given, authorization: `Bearer ${TOKEN}` };
      const body = bytes.length ? bytes : undefined;
      const response = await fetch(path, { method, headers: all, body });
      const { onmessage } = channels.get(channel);
      onmessage({ status: response.status, headers: Object.fromEntries(response.headers) });
      onmessage(await response.arrayBuffer());
      onmessage({ end: true });
    }
    async function invoke(command, payload, options) {
      if (command === 'request') return request(payload, options);
      if (command === 'app_state') return { phase: 'ready' };
      invoked.push([command, payload]);
      if (window.refuses) throw new Error('another folder');
    }
    window.__TAURI__ = { core: { Channel, invoke } };";

#[test]
fn the_app_opens_the_folder_for_models_and_copies_the_path_of_another() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::of(Browser::chromium(Look::default()));
    let shell = format!("{{ const TOKEN = {:?}; {SHELL} }}", hobd.client.token);
    page.cdp("Page.addScriptToEvaluateOnNewDocument", &json!({"source": shell}));
    page.go(&hobd.origin());
    page.open_page("models");
    page.click("@open-folder");
    let directory = hobd.client.get("/v1/models/local")["directory"].clone();
    let opened = json!(["open_models_folder", {"path": directory}]);
    page.until("the shell is asked", "invoked.length > 0");
    assert_eq!(page.script("return invoked[0]"), opened);
    // Of a daemon with another folder the shell opens none.
    page.script("window.refuses = true; navigator.clipboard.writeText = async text => { window.copied = text; }");
    page.click("@open-folder");
    page.until("its path is copied", "window.copied");
    assert_eq!(page.script("return copied"), directory);
}

#[test]
fn a_browser_copies_the_path_of_the_folder_for_models() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.open_page("models");
    page.shows(".directory [aria-label='Copy the path']");
    assert_eq!(page.count("@open-folder"), 0);
    let labels = page.script("return all('.directory button').map(it => it.ariaLabel)");
    assert_eq!(labels, Value::from(vec!["Copy the path"]));
}
