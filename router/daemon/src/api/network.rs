//! The address of `[api]`: reports for other machines, behind a token, with TLS or without.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context, bail};
use axum::Router as Routes;
use axum::middleware::from_fn;
use bora_linux::lock;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::access::{self, Password, Peer, Stranger, WrongTokens};
use super::connections::{Accepting, Admitted, Connections};
use super::with_check;
use crate::config::ApiSection;
use crate::process::fair::Clients;

/// What answers on the address of `[api]`.
pub(super) struct Network {
    listener: TcpListener,
    secrets: Arc<Secrets>,
}

/// Token and certificate, which may be read again while Bora runs.
pub(super) struct Secrets {
    section: ApiSection,
    read: Mutex<Arc<Loaded>>,
}

/// What the files say.
struct Loaded {
    tls: Option<TlsAcceptor>,
    password: Arc<Password>,
    /// What they consist of, to tell whether they have changed.
    octets: Vec<Vec<u8>>,
}

impl Network {
    /// Listens as a section says; `None` if it does not want that.
    ///
    /// # Errors
    /// The address is taken or not this machine's, or a file cannot be read.
    pub(super) async fn listen(section: &ApiSection) -> anyhow::Result<Option<Self>> {
        let Some(address) = section.listen else {
            return Ok(None);
        };
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("[api] cannot listen on {address}"))?;
        let secrets = Secrets {
            section: section.clone(),
            read: Mutex::new(Arc::new(Loaded::new(section)?)),
        };
        Ok(Some(Self {
            listener,
            secrets: Arc::new(secrets),
        }))
    }

    pub(super) fn secrets(&self) -> Arc<Secrets> {
        self.secrets.clone()
    }

    /// Answers until the process ends.
    pub(super) async fn serve(self, routes: Routes, clients: Arc<Clients>) {
        let connections = Connections::default();
        let wrong = Arc::new(WrongTokens::default());
        let mut accepting = Accepting::default();
        loop {
            let accepted = self.listener.accept().await;
            let Some((stream, address)) = accepting.or_pause(accepted).await else {
                continue;
            };
            if !connections.have_room_for(&stream) {
                continue;
            }
            let client = address.ip().to_string();
            let place = clients.place(&client);
            let loaded = self.secrets.now();
            let admitted = Admitted::default();
            let stranger = Stranger {
                address,
                password: loaded.password.clone(),
                wrong: wrong.clone(),
                admitted: admitted.clone(),
            };
            let routes = with_check(routes.clone(), Peer::remote(address), place);
            let check = move |request, next| access::check_remote(stranger.clone(), request, next);
            let routes = routes.layer(from_fn(check));
            match loaded.tls.clone() {
                None => connections.add(client, admitted, async { Some((stream, routes)) }),
                Some(tls) => connections.add(client, admitted, async move {
                    match tls.accept(stream).await {
                        Ok(stream) => Some((stream, routes)),
                        Err(error) => {
                            // strangers can cause as many as they like
                            log::debug!("no TLS with {address}: {error}");
                            None
                        }
                    }
                }),
            }
        }
    }
}

impl Secrets {
    /// Reads the files again; returns whether they say something else. New connections are asked for what they say now. On an
    /// error all stays as it was.
    ///
    /// # Errors
    /// A file cannot be read, or makes no sense.
    pub(super) fn reread(&self) -> anyhow::Result<bool> {
        let new = Loaded::new(&self.section)?;
        let mut read = lock(&self.read);
        let has_changed = read.octets != new.octets;
        *read = Arc::new(new);
        Ok(has_changed)
    }

    fn now(&self) -> Arc<Loaded> {
        lock(&self.read).clone()
    }
}

impl Loaded {
    fn new(section: &ApiSection) -> anyhow::Result<Self> {
        let files = [
            (&section.token_file, "token_file"),
            (&section.certificate, "certificate"),
            (&section.key, "key"),
        ];
        let named = files
            .iter()
            .filter_map(|(path, key)| Some((path.as_ref()?, key)));
        let octets = named.map(|(path, key)| read(path, key));
        Ok(Self {
            octets: octets.collect::<anyhow::Result<_>>()?,
            tls: acceptor(section)?,
            password: Arc::new(password(section)?),
        })
    }
}

/// Checks what the section names: its files can be read, and the address is this machine's.
///
/// # Errors
/// What is missing.
pub(crate) fn check(section: &ApiSection) -> anyhow::Result<()> {
    let Some(address) = section.listen else {
        return Ok(());
    };
    Loaded::new(section)?;
    match std::net::TcpListener::bind(address) {
        // perhaps by the Bora that this configuration is for
        Err(error) if error.kind() != ErrorKind::AddrInUse => {
            Err(error).with_context(|| format!("[api] cannot listen on {address}"))
        }
        _ => Ok(()),
    }
}

fn password(section: &ApiSection) -> anyhow::Result<Password> {
    let Some(path) = &section.token_file else {
        return Ok(Password::None);
    };
    let token = read(path, "token_file")?;
    let token = String::from_utf8_lossy(&token).trim().to_owned();
    if token.is_empty() {
        bail!("[api] token_file: {} is empty", path.display());
    }
    Ok(Password::Token(token))
}

fn acceptor(section: &ApiSection) -> anyhow::Result<Option<TlsAcceptor>> {
    let (Some(certificate), Some(key)) = (&section.certificate, &section.key) else {
        return Ok(None);
    };
    let chain = read(certificate, "certificate")?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
    let chain = chain.with_context(|| format!("[api] certificate: {}", certificate.display()))?;
    let secret = PrivateKeyDer::from_pem_slice(&read(key, "key")?)
        .with_context(|| format!("[api] key: {}", key.display()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(
        tokio_rustls::rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()?
    .with_no_client_auth()
    .with_single_cert(chain, secret)
    .context("[api] certificate and key")?;
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn read(path: &Path, key: &str) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("[api] {key}: cannot read {}", path.display()))
}
