//! The address of `[api]`: reports for other machines, behind a token, with TLS or without.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use axum::Router as Routes;
use axum::middleware::{from_fn, from_fn_with_state};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::access::{self, Password, Peer};
use super::{RETRY, connections::Connections};
use crate::config::ApiSection;

/// What answers on the address of `[api]`.
pub(super) struct Network {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    password: &'static Password,
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
        Ok(Some(Self {
            listener,
            tls: acceptor(section)?,
            // one for the life of the process, which every connection needs
            password: Box::leak(Box::new(password(section)?)),
        }))
    }

    /// Answers until the process ends.
    pub(super) async fn serve(self, routes: Routes) {
        let connections = Arc::new(Connections::default());
        loop {
            let Ok((stream, address)) = self.listener.accept().await else {
                tokio::time::sleep(RETRY).await; // out of descriptors
                continue;
            };
            let peer = Peer::remote(address);
            let check = from_fn(move |request, next| access::check(peer.clone(), request, next));
            let remote = from_fn_with_state(self.password, access::check_remote);
            let routes = routes.clone().layer(check).layer(remote);
            match self.tls.clone() {
                None => connections.add(stream, routes),
                Some(tls) => {
                    let connections = connections.clone();
                    let handshake = tokio::time::timeout(super::HANDSHAKE, async move {
                        if let Ok(stream) = tls.accept(stream).await {
                            connections.add(stream, routes);
                        }
                    });
                    tokio::spawn(handshake);
                }
            }
        }
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
    acceptor(section)?;
    password(section)?;
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
