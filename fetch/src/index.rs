//! The package index: which one, and where it has a wheel.
//!
//! - pip's settings choose the index and its certificates, as for any other package of the user.
//! - Reads both forms of the index API: JSON, and the HTML of simple mirrors.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use url::Url;

use crate::download::curl;
use crate::error::FetchError;

/// The public index, which pip uses too where nothing is configured.
const PUBLIC: &str = "https://pypi.org/simple";
const ACCEPT: &str = "Accept: application/vnd.pypi.simple.v1+json, text/html;q=0.5";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Ends with a slash.
    address: Url,
    /// Certificates to trust, where pip has its own.
    pub certificates: Option<PathBuf>,
}

impl Index {
    /// The index that pip uses. `lookup` returns environment variables.
    ///
    /// # Errors
    /// When the configured address is not one.
    pub fn of_pip(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, FetchError> {
        // Without pip, its variables still count.
        let pip = Command::new("python3").args(["-m", "pip", "config", "list"]).output();
        let list = pip.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        Self::of_settings(&list.unwrap_or_default(), lookup)
    }

    /// `list`: the output of `pip config list`, one `section.name='value'` a line.
    fn of_settings(
        list: &str,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, FetchError> {
        let pairs = list.lines().filter_map(|line| line.split_once('='));
        let settings: BTreeMap<&str, &str> =
            pairs.map(|(name, value)| (name, value.trim_matches(['\'', '"']))).collect();
        let setting = |name: &str| {
            let variable = format!("PIP_{}", name.replace('-', "_").to_uppercase());
            let given = lookup(&variable).filter(|value| !value.is_empty());
            let mut sections = ["download", "global"].iter();
            given.or_else(|| {
                let value =
                    sections.find_map(|section| settings.get(&*format!("{section}.{name}")))?;
                Some((*value).to_owned())
            })
        };
        let text = setting("index-url").unwrap_or_else(|| PUBLIC.to_owned());
        let address = Url::parse(&format!("{}/", text.trim_end_matches('/')))
            .ok()
            .filter(|address| ["http", "https"].contains(&address.scheme()))
            .ok_or(FetchError::IndexAddress(text))?;
        Ok(Self { address, certificates: setting("cert").map(PathBuf::from) })
    }

    /// Where the index has this file of a package.
    ///
    /// # Errors
    /// When the index cannot be reached, or does not list the file.
    pub fn find(&self, package: &str, file: &'static str) -> Result<Url, FetchError> {
        let failed = |detail: String| FetchError::Index { index: self.shown(), detail };
        let page = self.address.join(&format!("{package}/"));
        let page = page.map_err(|error| failed(error.to_string()))?;
        let mut command = curl(self.certificates.as_deref());
        command.args(["--silent", "--show-error", "--max-time", "60", "--header", ACCEPT]);
        let output = command.arg(page.as_str()).output().map_err(FetchError::NoCurl)?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let link = link_to(file, &String::from_utf8_lossy(&output.stdout));
        let link = link.and_then(|link| page.join(&link).ok());
        link.ok_or_else(|| FetchError::NotListed { index: self.shown(), wheel: file })
    }

    /// Without a password.
    pub fn shown(&self) -> String {
        without_password(&self.address)
    }
}

/// The address as it is shown to people.
pub(crate) fn without_password(address: &Url) -> String {
    let mut address = address.clone();
    // An error: this kind of address has neither.
    let _ = address.set_password(None);
    let _ = address.set_username("");
    address.to_string()
}

/// The link to this file on a page of the index, relative to the page.
fn link_to(wheel: &str, page: &str) -> Option<String> {
    if let Ok(page) = serde_json::from_str::<Value>(page) {
        let files = page["files"].as_array()?;
        let file = files.iter().find(|file| file["filename"] == wheel)?;
        return file["url"].as_str().map(str::to_owned);
    }
    let links = page.split("href=").skip(1).filter_map(|rest| {
        let quote = rest.chars().next().filter(|c| ['"', '\''].contains(c))?;
        rest[1..].split(quote).next()
    });
    let path = |link: &str| link.split(['#', '?']).next().unwrap_or_default().to_owned();
    let mut found = links.filter(|link| path(link).rsplit('/').next() == Some(wheel));
    found.next().map(|link| link.replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(list: &str, variables: &[(&str, &str)]) -> Result<Index, FetchError> {
        let lookup = |name: &str| {
            let known = variables.iter().find(|(known, _)| *known == name);
            known.map(|(_, value)| (*value).to_owned())
        };
        Index::of_settings(list, lookup)
    }

    #[test]
    fn the_index_is_pip_s_own() {
        assert_eq!(of("", &[]).unwrap().shown(), "https://pypi.org/simple/");
        let list = "global.cert='/ca.pem'\nglobal.index-url='https://me:pw@mirror.example/py'\n";
        let configured = of(list, &[]).unwrap();
        assert_eq!(configured.shown(), "https://mirror.example/py/", "without the password");
        assert_eq!(configured.certificates, Some("/ca.pem".into()));
        let download = format!("{list}download.index-url='http://other.example/simple/'\n");
        assert_eq!(of(&download, &[]).unwrap().shown(), "http://other.example/simple/");
        let variable = ("PIP_INDEX_URL", "http://127.0.0.1:3141/root");
        assert_eq!(of(&download, &[variable]).unwrap().shown(), "http://127.0.0.1:3141/root/");
        assert!(of("", &[("PIP_INDEX_URL", "no address")]).is_err());
    }

    #[test]
    fn a_wheel_is_found_in_both_forms_of_a_page() {
        let json = r#"{"files": [{"filename": "a-0.1.whl", "url": "/x/a-0.1.whl"},
                                 {"filename": "a-0.2.whl", "url": "/x/a-0.2.whl"}]}"#;
        assert_eq!(link_to("a-0.2.whl", json).as_deref(), Some("/x/a-0.2.whl"));
        assert_eq!(link_to("a-0.3.whl", json), None);
        let html = "<a href='../../p/aa-0.2.whl'>aa-0.2.whl</a>\n\
                    <a href=\"../../p/a-0.2.whl?x=1&amp;y=2#sha256=12\">a-0.2.whl</a>";
        let link = link_to("a-0.2.whl", html);
        assert_eq!(link.as_deref(), Some("../../p/a-0.2.whl?x=1&y=2#sha256=12"));
        assert_eq!(link_to("a-0.3.whl", html), None);
    }
}
