//! `[api]`: reports for other machines.

use std::net::SocketAddr;
use std::path::PathBuf;

use bora_config::{Problem, at, wrong};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the page, metrics and reports are, besides the unix socket. Nothing can be changed from there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApiSection {
    /// Address and TCP port, such as `127.0.0.1:9179` or `[2001:db8::1]:9179`; none without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// A file with a word that clients must know, as a bearer token or as the password of any user. Only
    /// loopback addresses do without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// A file with the certificate, and those above it, in PEM, for TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// A file with the certificate's private key, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

impl ApiSection {
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.certificate.is_some() != self.key.is_some() {
            let what = "`certificate` and `key` belong together".into();
            return wrong(at!["api"], what);
        }
        let others = [&self.token_file, &self.certificate];
        let Some(listen) = self.listen else {
            return match others.iter().any(|one| one.is_some()) {
                true => wrong(at!["api"], "without `listen` this has no effect".into()),
                false => Ok(()),
            };
        };
        if !listen.ip().is_loopback() && self.token_file.is_none() {
            let what = format!("other machines can reach {listen}: give a `token_file`");
            return wrong(at!["api", "listen"], what);
        }
        Ok(())
    }

    /// What is legal and foolish.
    pub(super) fn warnings(&self) -> Vec<String> {
        let clear = self
            .listen
            .filter(|listen| !listen.ip().is_loopback() && self.certificate.is_none());
        let text = |listen| {
            format!(
                "api.listen: the token crosses the network to {listen} in clear; give a `certificate` and a `key`"
            )
        };
        clear.map(text).into_iter().collect()
    }
}
