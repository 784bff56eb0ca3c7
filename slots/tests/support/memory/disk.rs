//! A disk, and the images that a power cut may leave.
//!
//! - Each name in a directory may be as at any time since the directory was last synced,
//!   independently: a renamed file may have both names or neither. No real file system is worse.
//! - The bytes of an unsynced file may be the old ones, the new ones, truncated, torn or zero. A
//!   synced file has the bytes of the sync.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hob_slots::store::files::{Entry, Facts, Kind};

pub type NodeId = usize;

const ROOT: NodeId = 0;

/// Possible contents of an unsynced file.
const WAYS: usize = 6;

#[derive(Clone, Debug)]
pub struct Disk {
    nodes: Vec<Arc<Node>>,
}

#[derive(Clone, Debug)]
enum Node {
    File { durable: Data, live: Data },
    Dir(BTreeMap<OsString, States>),
}

#[derive(Clone, Debug, PartialEq)]
struct Data {
    bytes: Arc<Vec<u8>>,
    modified: SystemTime,
}

/// The history of a name: the first is durable, the last is visible.
type States = Vec<Option<NodeId>>;

/// A change that a power cut may undo.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Uncertain {
    Name(NodeId, OsString),
    Bytes(NodeId),
}

impl Default for Disk {
    fn default() -> Self {
        Self { nodes: vec![Arc::new(Node::Dir(BTreeMap::new()))] }
    }
}

impl Disk {
    pub fn find(&self, path: &Path) -> io::Result<NodeId> {
        path.components().try_fold(ROOT, |node, component| match component {
            Component::Normal(name) => {
                self.entry(node, name)?.ok_or(io::ErrorKind::NotFound.into())
            }
            _ => Ok(node),
        })
    }

    pub fn create(&mut self, path: &Path, now: SystemTime) -> io::Result<NodeId> {
        let data = Data { bytes: Arc::default(), modified: now };
        self.add(path, Node::File { durable: data.clone(), live: data })
    }

    pub fn make_dir(&mut self, path: &Path) -> io::Result<()> {
        self.add(path, Node::Dir(BTreeMap::new())).map(drop)
    }

    pub fn change(&mut self, node: NodeId, now: SystemTime, act: impl FnOnce(&mut Vec<u8>)) {
        let Node::File { live, .. } = Arc::make_mut(&mut self.nodes[node]) else { return };
        act(Arc::make_mut(&mut live.bytes));
        live.modified = now;
    }

    pub fn sync(&mut self, node: NodeId) {
        if let Node::File { durable, live } = Arc::make_mut(&mut self.nodes[node]) {
            *durable = live.clone();
        }
    }

    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = self.find(from)?;
        let (from, to) = (self.parent(from)?, self.parent(to)?);
        if self.entry(to.0, to.1)?.is_some_and(|there| self.facts(there).kind == Kind::Dir) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        self.set(to, Some(node));
        self.set(from, None);
        Ok(())
    }

    pub fn remove(&mut self, path: &Path) -> io::Result<()> {
        let node = self.find(path)?;
        if self.facts(node).kind == Kind::Dir {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let name = self.parent(path)?;
        self.set(name, None);
        Ok(())
    }

    pub fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let node = self.find(path)?;
        match Arc::make_mut(&mut self.nodes[node]) {
            Node::File { .. } => Err(io::ErrorKind::NotADirectory.into()),
            Node::Dir(names) => {
                names.values_mut().for_each(|states| drop(states.drain(..states.len() - 1)));
                names.retain(|_, states| states[0].is_some());
                Ok(())
            }
        }
    }

    pub fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let names = self.names(self.find(path)?)?;
        let entry = |(name, states): (&OsString, &States)| {
            let node = (*states.last()?)?;
            Some(Entry { name: name.clone(), kind: self.facts(node).kind })
        };
        Ok(names.iter().filter_map(entry).collect())
    }

    pub fn facts(&self, node: NodeId) -> Facts {
        match &*self.nodes[node] {
            Node::File { live, .. } => {
                let bytes = live.bytes.len() as u64;
                Facts { kind: Kind::File, bytes, modified: live.modified }
            }
            Node::Dir(_) => Facts { kind: Kind::Dir, bytes: 0, modified: UNIX_EPOCH },
        }
    }

    pub fn bytes_of(&self, node: NodeId) -> &Arc<Vec<u8>> {
        static NONE: std::sync::LazyLock<Arc<Vec<u8>>> = std::sync::LazyLock::new(Arc::default);
        match &*self.nodes[node] {
            Node::File { live, .. } => &live.bytes,
            Node::Dir(_) => &NONE,
        }
    }

    /// Every visible file.
    pub fn files(&self) -> Vec<(PathBuf, NodeId)> {
        let (mut files, mut dirs) = (Vec::new(), vec![(PathBuf::from("/"), ROOT)]);
        while let Some((path, dir)) = dirs.pop() {
            for (name, states) in self.names(dir).expect("only directories are kept here") {
                let Some(&Some(node)) = states.last() else { continue };
                match &*self.nodes[node] {
                    Node::File { .. } => files.push((path.join(name), node)),
                    Node::Dir(_) => dirs.push((path.join(name), node)),
                }
            }
        }
        files
    }

    /// Total length of all files.
    pub fn bytes(&self) -> u64 {
        self.files().iter().map(|&(_, node)| self.facts(node).bytes).sum()
    }

    /// The content without times, to compare disks.
    pub fn digest(&self) -> u64 {
        let mut files = self.files();
        files.sort();
        let mut hash = DefaultHasher::new();
        for (path, node) in files {
            (path, self.bytes_of(node)).hash(&mut hash);
        }
        hash.finish()
    }

    pub fn settle(&mut self) {
        let live: Vec<usize> = self.uncertain().iter().map(|(_, ways)| ways - 1).collect();
        *self = self.left(&live);
    }

    /// Possible outcomes of each uncertain change.
    pub fn ways(&self) -> Vec<usize> {
        self.uncertain().into_iter().map(|(_, ways)| ways).collect()
    }

    /// The image after a power cut with one outcome for each uncertain change; the last outcome
    /// keeps what is visible.
    pub fn left(&self, ways: &[usize]) -> Self {
        let uncertain = self.uncertain().into_iter().map(|(thing, _)| thing);
        let chosen: HashMap<Uncertain, usize> = uncertain.zip(ways.iter().copied()).collect();
        let mut left = Self { nodes: Vec::new() };
        self.copy(ROOT, &chosen, &mut left, &mut HashMap::new());
        left
    }

    fn copy(
        &self,
        node: NodeId,
        chosen: &HashMap<Uncertain, usize>,
        to: &mut Self,
        copied: &mut HashMap<NodeId, NodeId>,
    ) -> NodeId {
        if let Some(&there) = copied.get(&node) {
            return there;
        }
        let copy = to.nodes.len();
        copied.insert(node, copy);
        to.nodes.push(self.nodes[node].clone());
        match &*self.nodes[node] {
            Node::File { durable, live } => {
                let way = chosen.get(&Uncertain::Bytes(node));
                let data = way.map_or(live.clone(), |&way| left_bytes(durable, live, way));
                to.nodes[copy] = Arc::new(Node::File { durable: data.clone(), live: data });
            }
            Node::Dir(names) => {
                let mut left = BTreeMap::new();
                for (name, states) in names {
                    let way = chosen.get(&Uncertain::Name(node, name.clone()));
                    if let Some(state) = states[way.map_or(states.len() - 1, |&way| way)] {
                        left.insert(name.clone(), vec![Some(self.copy(state, chosen, to, copied))]);
                    }
                }
                to.nodes[copy] = Arc::new(Node::Dir(left));
            }
        }
        copy
    }

    fn uncertain(&self) -> Vec<(Uncertain, usize)> {
        let (mut found, mut seen, mut next) = (Vec::new(), BTreeSet::from([ROOT]), vec![ROOT]);
        while let Some(node) = next.pop() {
            match &*self.nodes[node] {
                Node::File { durable, live } if durable.bytes != live.bytes => {
                    found.push((Uncertain::Bytes(node), WAYS));
                }
                Node::File { durable, live } if durable != live => {
                    found.push((Uncertain::Bytes(node), 2));
                }
                Node::File { .. } => {}
                Node::Dir(names) => {
                    // In order of creation: temporary files have arbitrary numbers.
                    let mut names: Vec<_> = names.iter().collect();
                    names.sort_by_key(|(_, states)| states.iter().flatten().min());
                    for (name, states) in names {
                        if states.len() > 1 {
                            found.push((Uncertain::Name(node, name.clone()), states.len()));
                        }
                        next.extend(states.iter().flatten().filter(|&&state| seen.insert(state)));
                    }
                }
            }
        }
        found
    }

    fn add(&mut self, path: &Path, node: Node) -> io::Result<NodeId> {
        let name = self.parent(path)?;
        if self.entry(name.0, name.1)?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.nodes.push(Arc::new(node));
        let id = self.nodes.len() - 1;
        self.set(name, Some(id));
        Ok(id)
    }

    fn set(&mut self, (dir, name): (NodeId, &OsStr), state: Option<NodeId>) {
        let Node::Dir(names) = Arc::make_mut(&mut self.nodes[dir]) else { return };
        names.entry(name.to_owned()).or_insert_with(|| vec![None]).push(state);
    }

    fn parent<'p>(&self, path: &'p Path) -> io::Result<(NodeId, &'p OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.find(path.parent().unwrap_or(Path::new("/")))?, name))
    }

    fn entry(&self, dir: NodeId, name: &OsStr) -> io::Result<Option<NodeId>> {
        Ok(self.names(dir)?.get(name).and_then(|states| *states.last()?))
    }

    fn names(&self, dir: NodeId) -> io::Result<&BTreeMap<OsString, States>> {
        match &*self.nodes[dir] {
            Node::Dir(names) => Ok(names),
            Node::File { .. } => Err(io::ErrorKind::NotADirectory.into()),
        }
    }
}

/// One of the [`WAYS`]; the last keeps what is visible.
fn left_bytes(durable: &Data, live: &Data, way: usize) -> Data {
    let mut bytes = (*live.bytes).clone();
    let half = bytes.len() / 2;
    match way {
        0 => return durable.clone(),
        1 if durable.bytes == live.bytes => return live.clone(),
        1 => bytes.clear(),
        2 => bytes.truncate(half),
        3 => bytes[half..].fill(0),
        4 => bytes.fill(0),
        _ => return live.clone(),
    }
    Data { bytes: Arc::new(bytes), modified: live.modified }
}
