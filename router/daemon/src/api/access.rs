//! Who may do what: the kernel says who is at the other end of the unix socket.

use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bora_linux::lock;
use nix::errno::Errno;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use std::ffi::CString;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::unix::UCred;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::connections::Admitted;
use crate::process::fair::Place;

/// The group that may look.
pub(super) const READERS: &str = "bora";
/// The group that may change things, too.
const ADMINS: &str = "bora-admin";

/// With this header of the value `reader`, somebody who may do more is treated as a reader: `bora web` passes on what others ask.
const ROLE: &str = "bora-role";
/// Longest time for a look at users and groups, which other machines may know (LDAP, say).
const LOOK_UP: Duration = Duration::from_secs(5);

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Ask for reports.
    Reader,
    /// Order, too.
    Admin,
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// The user, or the address.
    user: String,
    process: Option<i32>,
    role: Role,
}

impl Peer {
    /// A process of this machine. Users and groups are asked for in another thread, because that may take long; root is known.
    pub(super) async fn local(credentials: &UCred) -> Self {
        let (uid, gid) = (Uid::from_raw(credentials.uid()), credentials.gid());
        let (user, role) = if uid.is_root() {
            ("root".into(), Role::Admin)
        } else {
            match timeout(LOOK_UP, spawn_blocking(move || look_up(uid, gid))).await {
                Ok(Ok(found)) => found,
                // the time is over, or the process ends
                Ok(Err(_)) | Err(_) => {
                    log::warn!("who uid {uid} is takes too long to find out: it may look only");
                    (format!("uid {uid}"), Role::Reader)
                }
            }
        };
        Self {
            user,
            process: credentials.pid(),
            role,
        }
    }

    /// Somebody on the network, who may only look.
    pub(super) fn remote(address: SocketAddr) -> Self {
        Self {
            user: address.to_string(),
            process: None,
            role: Role::Reader,
        }
    }

    pub(super) fn is_admin(&self) -> bool {
        self.role == Role::Admin
    }

    /// The answer to somebody who may not do what is asked.
    pub(super) fn refused(&self, what: &str) -> Response {
        let text = format!(
            "{} may look, but not {what}: be root or in the group `{ADMINS}`",
            self.name()
        );
        (StatusCode::FORBIDDEN, text).into_response()
    }

    /// For the log.
    pub(super) fn name(&self) -> String {
        match self.process {
            Some(pid) => format!("{} (process {pid})", self.user),
            None => self.user.clone(),
        }
    }
}

/// The number of a group; `None` if there is none of this name.
///
/// # Errors
/// The service that knows the groups of this machine does not answer.
pub(super) fn group_id(name: &str) -> nix::Result<Option<u32>> {
    match Group::from_name(name) {
        Ok(group) => Ok(group.map(|group| group.gid.as_raw())),
        // a machine without a file of groups; getgrnam(3)
        Err(Errno::ENOENT | Errno::ESRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A user's name and what it may do. It may take as long as the network does.
fn look_up(uid: Uid, gid: u32) -> (String, Role) {
    let user = match User::from_uid(uid) {
        Ok(user) => user,
        Err(error) => {
            log::warn!("who uid {uid} is cannot be found out: {error}");
            None
        }
    };
    let role = match is_admin(uid, gid, user.as_ref()) {
        Ok(true) => Role::Admin,
        Ok(false) => Role::Reader,
        Err(error) => {
            log::warn!(
                "whether uid {uid} is in the group `{ADMINS}` cannot be found out ({error}): it may look only"
            );
            Role::Reader
        }
    };
    let name = user.map_or_else(|| format!("uid {uid}"), |user| user.name);
    (name, role)
}

fn is_admin(uid: Uid, gid: u32, user: Option<&User>) -> anyhow::Result<bool> {
    if uid == Uid::effective() {
        return Ok(true);
    }
    let Some(admins) = group_id(ADMINS)? else {
        return Ok(false);
    };
    let groups = match user {
        Some(user) => getgrouplist(&CString::new(user.name.clone())?, user.gid)?,
        None => Vec::new(),
    };
    Ok(gid == admins || groups.contains(&Gid::from_raw(admins)))
}

/// The text of a header.
#[expect(
    clippy::disallowed_methods,
    reason = "a value that is no text is none of those that are asked for, as if the header were missing"
)]
pub(super) fn text_of(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

/// Lets only admins order something, and logs each order with who gave it and how it ended.
pub(super) async fn check(
    mut peer: Peer,
    place: Place,
    mut request: Request,
    next: Next,
) -> Response {
    if request
        .headers()
        .get(ROLE)
        .is_some_and(|role| role == "reader")
    {
        peer.role = Role::Reader;
    }
    request.extensions_mut().insert(peer.clone());
    request.extensions_mut().insert(place);
    if request.method() == Method::GET || request.method() == Method::HEAD {
        return next.run(request).await;
    }
    let what = format!("{} {}", request.method(), request.uri());
    let (who, name) = (peer.user.as_str(), peer.name());
    if !peer.is_admin() {
        log::warn!(who, what:%; "refused: {name} may not order {what}");
        return peer.refused("change anything");
    }
    let answer = next.run(request).await;
    let status = answer.status().as_u16();
    log::info!(who, what:%, status; "{name}: {what}: {status}");
    answer
}

/// What somebody on the network has to show.
#[derive(Debug)]
pub(super) enum Password {
    /// Nothing, because only this machine can connect.
    None,
    /// This word, as a bearer token or as the password of any user.
    Token(String),
}

impl Password {
    fn is_in(&self, request: &Request) -> bool {
        let Self::Token(token) = self else {
            return true;
        };
        let header = request.headers().get(header::AUTHORIZATION);
        let Some(given) = header.and_then(text_of) else {
            return false;
        };
        match given.split_once(' ') {
            Some(("Bearer", given)) => are_equal(given, token),
            Some(("Basic", coded)) => {
                password_of(coded).is_some_and(|given| are_equal(&given, token))
            }
            _ => false,
        }
    }
}

/// The password of `user:password` in base64 (RFC 7617).
#[expect(
    clippy::disallowed_methods,
    reason = "what is no text in base64 is no password, and the client is told that one is needed"
)]
fn password_of(coded: &str) -> Option<String> {
    use base64::Engine;
    let decoded = base64::engine::general_purpose::STANDARD
        .decode(coded)
        .ok()?;
    let text = String::from_utf8(decoded).ok()?;
    text.split_once(':')
        .map(|(_, password)| password.to_owned())
}

/// In a time that does not tell how much of it is right.
fn are_equal(given: &str, token: &str) -> bool {
    let pairs = given.bytes().zip(token.bytes());
    given.len() == token.len() && pairs.fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
}

/// Tells in the log who shows a wrong token, but not each time.
#[derive(Debug, Default)]
pub(super) struct WrongTokens(Mutex<(Option<Instant>, u64)>);

/// Time between two lines in the log.
const PAUSE: Duration = Duration::from_secs(10);

impl WrongTokens {
    fn note(&self, address: SocketAddr) {
        let mut guard = lock(&self.0);
        let (last, more) = &mut *guard;
        if last.is_some_and(|last| last.elapsed() < PAUSE) {
            *more += 1;
            return;
        }
        log::warn!("[api] {address} shows a wrong token ({more} more since the last such line)");
        (*last, *more) = (Some(Instant::now()), 0);
    }
}

/// Somebody on the network who has just connected.
#[derive(Clone)]
pub(super) struct Stranger {
    pub(super) address: SocketAddr,
    pub(super) password: Arc<Password>,
    pub(super) wrong: Arc<WrongTokens>,
    pub(super) admitted: Admitted,
}

/// Lets only those in who know the password, and no page of another site (DNS rebinding).
pub(super) async fn check_remote(stranger: Stranger, request: Request, next: Next) -> Response {
    let password = &stranger.password;
    if !password.is_in(&request) {
        if request.headers().contains_key(header::AUTHORIZATION) {
            stranger.wrong.note(stranger.address);
        }
        let ask = [(
            header::WWW_AUTHENTICATE,
            "Basic realm=\"Bora\", charset=\"UTF-8\"",
        )];
        return (
            StatusCode::UNAUTHORIZED,
            ask,
            "the token of [api] is needed",
        )
            .into_response();
    }
    let host = request.headers().get(header::HOST);
    let host = host.and_then(text_of).unwrap_or_default();
    if matches!(**password, Password::None) && !is_this_machine(host, &[]) {
        let text = "without a token, ask for localhost or for an address";
        return (StatusCode::MISDIRECTED_REQUEST, text).into_response();
    }
    stranger.admitted.admit();
    next.run(request).await
}

/// Whether a browser was told to come to this machine: the host, with or without a port, is an address, `localhost` or one of
/// the names. A site whose own name leads here (DNS rebinding) has another one.
#[expect(
    clippy::disallowed_methods,
    reason = "what is no port or no address is a part of a name"
)]
pub fn is_this_machine(host: &str, names: &[String]) -> bool {
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) && !name.ends_with(':') => name,
        _ => host,
    };
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let mut known = names.iter().map(String::as_str).chain(["localhost"]);
    bare.unwrap_or(name).parse::<IpAddr>().is_ok()
        || known.any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords() {
        let token = Password::Token("secret".into());
        let with = |value: Option<&str>| {
            let mut request = Request::new(axum::body::Body::empty());
            if let Some(value) = value {
                let value = value.parse().unwrap();
                request.headers_mut().insert(header::AUTHORIZATION, value);
            }
            request
        };
        assert!(Password::None.is_in(&with(None)));
        // "anybody:secret" and "secret" without a user
        for good in ["Bearer secret", "Basic YW55Ym9keTpzZWNyZXQ="] {
            assert!(token.is_in(&with(Some(good))), "{good}");
        }
        for bad in [
            "",
            "Bearer",
            "Bearer secre",
            "Bearer secret ",
            "Basic c2VjcmV0",
            "Basic ?",
            "Digest secret",
        ] {
            assert!(!token.is_in(&with(Some(bad))), "{bad}");
        }
        assert!(!token.is_in(&with(None)));
    }

    #[test]
    fn hosts() {
        let names = ["router.example".to_owned()];
        for good in [
            "LocalHost",
            "router.example:1",
            "localhost:80",
            "127.0.0.1:9179",
            "[::1]:9179",
            "192.0.2.1",
        ] {
            assert!(is_this_machine(good, &names), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "evil.example:80",
            "localhost.evil.example",
            "[::1].evil.example:1",
        ] {
            assert!(!is_this_machine(bad, &names), "{bad}");
        }
    }
}
