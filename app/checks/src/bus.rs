//! A session bus with the services of a desktop: notifications and a tray.
//!
//! - Each check has a bus of its own. The services record what the app sends.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use zbus::blocking::{Connection, Proxy, connection};
use zbus::interface;
use zbus::message::Header;
use zbus::zvariant::{OwnedObjectPath, OwnedValue, Structure, Value};

use crate::tools::Tool;
use hob_testkit::Process;
use hob_testkit::wait;

const DAEMON: Tool = Tool { names: &["dbus-daemon"], package: "dbus" };

/// A bus and its services. Dropping it ends them.
#[derive(Debug)]
pub struct Bus {
    _daemon: Process,
    address: String,
    connection: Connection,
    notices: Recorded<Notice>,
    items: Recorded<Item>,
}

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub title: String,
    pub body: String,
}

/// An icon in the tray.
#[derive(Clone, Debug)]
struct Item {
    owner: String,
    path: String,
}

impl Bus {
    /// `scratch`: a directory for files of dbus-daemon.
    pub fn start(scratch: &Path) -> Self {
        let address_file = scratch.join("bus");
        let mut daemon = Process::start(
            Command::new(DAEMON.find())
                .args(["--session", "--nofork", "--nopidfile", "--nosyslog", "--print-address"])
                .env("HOME", scratch)
                .env("XDG_RUNTIME_DIR", scratch)
                .stdin(Stdio::null())
                .stdout(File::create(&address_file).expect("the directory can be written"))
                .stderr(Stdio::null()),
        );
        let address = wait::until("the bus is there", || {
            assert!(daemon.is_running(), "dbus-daemon ended at once");
            let address = fs::read_to_string(&address_file).ok()?;
            address.strip_suffix('\n').map(str::to_owned)
        });
        let (notices, items) = (Recorded::default(), Recorded::default());
        let connection = desktop(&address, notices.clone(), items.clone());
        let connection = connection.expect("the bus is ours");
        Self { _daemon: daemon, address, connection, notices, items }
    }

    /// `DBUS_SESSION_BUS_ADDRESS`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Every notification so far.
    pub fn notices(&self) -> Vec<Notice> {
        self.notices.all()
    }

    /// The labels of the tray's menu, once there is one.
    pub fn menu(&self) -> Vec<String> {
        wait::until("there is an icon with a menu", || {
            let menu = self.rows().ok()?.into_iter().map(|(_, label)| label).collect::<Vec<_>>();
            (!menu.is_empty()).then_some(menu)
        })
    }

    /// Chooses an item of that menu.
    pub fn choose(&self, label: &str) {
        let known = self.menu();
        let rows = self.rows().expect("the menu is there");
        let (id, _) = rows
            .into_iter()
            .find(|(_, it)| it == label)
            .unwrap_or_else(|| panic!("the menu has no {label:?}: {known:?}"));
        let chosen = (id, "clicked", Value::from(0), 0u32);
        let menu = self.menu_of_the_icon().expect("the menu is there");
        menu.call_method("Event", &chosen).expect("it can be chosen");
    }

    /// Number and label of each row.
    fn rows(&self) -> zbus::Result<Vec<(i32, String)>> {
        type Row = (i32, HashMap<String, OwnedValue>, Vec<OwnedValue>);
        let wanted = (0, 1, ["label"].as_slice());
        let (_, (_, _, rows)): (u32, Row) = self.menu_of_the_icon()?.call("GetLayout", &wanted)?;
        let row = |row: OwnedValue| {
            let row = Structure::try_from(row).ok()?;
            let (id, texts, _) = Row::try_from(row).ok()?;
            let label: &str = texts.get("label")?.downcast_ref().ok()?;
            Some((id, label.replace('_', "")))
        };
        Ok(rows.into_iter().filter_map(row).collect())
    }

    fn menu_of_the_icon(&self) -> zbus::Result<Proxy<'static>> {
        let Some(Item { owner, path }) = self.items.all().pop() else {
            return Err(zbus::Error::InterfaceNotFound);
        };
        let icon = Proxy::new(&self.connection, owner.clone(), path, "org.kde.StatusNotifierItem")?;
        let menu: OwnedObjectPath = icon.get_property("Menu")?;
        Proxy::new(&self.connection, owner, menu, "com.canonical.dbusmenu")
    }
}

fn desktop(
    address: &str,
    notices: Recorded<Notice>,
    items: Recorded<Item>,
) -> zbus::Result<Connection> {
    connection::Builder::address(address)?
        .serve_at("/org/freedesktop/Notifications", Notices(notices))?
        .serve_at("/StatusNotifierWatcher", Tray(items))?
        .name("org.freedesktop.Notifications")?
        .name("org.kde.StatusNotifierWatcher")?
        .build()
}

struct Notices(Recorded<Notice>);

#[interface(name = "org.freedesktop.Notifications")]
impl Notices {
    #[expect(clippy::too_many_arguments, reason = "the interface of the desktop")]
    fn notify(
        &self,
        _app: &str,
        _replaces: u32,
        _icon: &str,
        title: String,
        body: String,
        _actions: Vec<String>,
        _hints: HashMap<String, OwnedValue>,
        _expires: i32,
    ) -> u32 {
        self.0.add(Notice { title, body })
    }

    fn get_capabilities(&self) -> Vec<String> {
        vec!["body".to_owned()]
    }

    fn get_server_information(&self) -> (&str, &str, &str, &str) {
        ("checks", "hob", "1", "1.2")
    }
}

struct Tray(Recorded<Item>);

#[interface(name = "org.kde.StatusNotifierWatcher")]
impl Tray {
    fn register_status_notifier_item(&self, path: String, #[zbus(header)] header: Header<'_>) {
        let owner = header.sender().expect("the bus names the sender").to_string();
        self.0.add(Item { owner, path });
    }

    #[zbus(property)]
    fn is_status_notifier_host_registered(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn protocol_version(&self) -> i32 {
        0
    }

    #[zbus(property)]
    fn registered_status_notifier_items(&self) -> Vec<String> {
        self.0.all().into_iter().map(|Item { owner, path }| owner + &path).collect()
    }
}

/// Records calls in order.
#[derive(Debug)]
struct Recorded<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone> Recorded<T> {
    fn all(&self) -> Vec<T> {
        self.0.lock().clone()
    }

    /// Returns the new number of calls.
    fn add(&self, one: T) -> u32 {
        let mut all = self.0.lock();
        all.push(one);
        u32::try_from(all.len()).expect("fewer than 2^32 calls")
    }
}

impl<T> Clone for Recorded<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Recorded<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}
