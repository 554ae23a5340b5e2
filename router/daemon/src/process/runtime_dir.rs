//! The runtime directory: socket, lock and pins of the Bora of one network namespace.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow, bail};
use bora_linux::interface::netns_cookie;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, open, statfs, unlinkat};
use rustix::io::Errno;

use crate::process::private;

const RUN: &str = "/run/bora";
const LOCK: &str = "lock";
/// Says whose the directory is: inodes of namespaces that are gone are used again.
const IDENTITY: &str = "namespace";
/// Only root may open the lock.
const LOCK_MODE: u32 = 0o600;
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

fn failed(what: &str, path: &Path, error: &io::Error) -> anyhow::Error {
    let advice = bora_linux::advice(error, "");
    anyhow!("cannot {what} {}: {error}{advice}", path.display())
}

/// The runtime directory of one network namespace, `/run/bora/INODE`.
#[derive(Clone, Debug)]
pub struct RuntimeDir {
    /// Inode of the network namespace.
    pub netns: u32,
    path: PathBuf,
}

impl RuntimeDir {
    /// The runtime directory of this process's network namespace.
    pub fn here() -> anyhow::Result<Self> {
        let netns = fs::metadata("/proc/thread-self/ns/net")
            .context("no /proc")?
            .ino();
        let netns = u32::try_from(netns).context("network namespace inode")?;
        Ok(Self {
            netns,
            path: Path::new(RUN).join(netns.to_string()),
        })
    }

    /// The API's socket.
    pub fn socket(&self) -> PathBuf {
        self.path.join("api.sock")
    }

    /// Makes the directory and locks it for this process; fails if another Bora has the lock.
    pub fn lock(&self) -> anyhow::Result<File> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&self.path)
            .map_err(|error| failed("create", &self.path, &error))?;
        let path = self.path.join(LOCK);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(LOCK_MODE)
            .open(&path)
            .map_err(|error| failed("open", &path, &error))?;
        // older versions made it readable for all, and whoever can open it can take the lock
        file.set_permissions(Permissions::from_mode(LOCK_MODE))
            .with_context(|| format!("cannot make {} root's alone", path.display()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => bail!(
                "a Bora already runs in this network namespace ({}); stop it with `bora stop`",
                holder(&mut file)
            ),
            Err(error) => return Err(failed("lock", &path, &error.into())),
        }
        file.set_len(0)?;
        file.rewind()?;
        write!(file, "{}", std::process::id())?;
        self.belongs_here()?;
        Ok(file)
    }

    /// Empties the directory if what is in it is of another namespace that had this inode before, and notes whose it is.
    fn belongs_here(&self) -> anyhow::Result<()> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").context("no boot_id")?;
        let cookie = netns_cookie().context("the kernel does not tell network namespaces apart")?;
        let own = format!("{} {cookie}\n", boot.trim());
        let path = self.path.join(IDENTITY);
        match fs::read_to_string(&path) {
            Ok(known) if known == own => return Ok(()),
            Ok(_) => self.forget_another().context("of another namespace")?,
            // older versions did not write it
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        }
        private::write(&path, &own).with_context(|| path.display().to_string())
    }

    /// Removes all but the lock: notes and pins that mean interfaces which this namespace does not have.
    fn forget_another(&self) -> anyhow::Result<()> {
        log::info!(
            "{} was another network namespace's; what is in it is removed",
            self.path.display()
        );
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else if entry.file_name() != LOCK {
                fs::remove_file(entry.path())?;
            }
        }
        let pins = self.pins()?;
        for pin in pins.links()? {
            fs::remove_file(pins.link(pin))?;
        }
        Ok(())
    }

    /// Whether somebody listens on the socket, or is about to.
    ///
    /// # Errors
    /// This user may not know.
    pub fn is_in_use(&self) -> anyhow::Result<bool> {
        let path = self.socket();
        match UnixStream::connect(&path) {
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(false),
                io::ErrorKind::WouldBlock => Ok(true), // too many wait there
                io::ErrorKind::PermissionDenied => {
                    bail!("no permission to talk to Bora: be root or in the group `bora`")
                }
                _ => Err(error).with_context(|| path.display().to_string()),
            },
        }
    }

    /// The folder of pinned links, in a bpffs that stays when this process ends.
    ///
    /// Under `ip netns exec` /sys has no bpffs, and a mount made there ends with the process; so
    /// the file system is mounted in the outermost mount namespace that can be entered.
    pub fn pins(&self) -> anyhow::Result<Pins> {
        let root = outer_root()?;
        let mount_point = Path::new(RUN).join("bpf");
        let seen = format!("{}{}", root.as_deref().unwrap_or(""), mount_point.display());
        if !is_bpffs(&seen) {
            mount_bpffs(root.as_deref(), &mount_point)?;
        }
        let name = self.netns.to_string();
        let folder = Path::new(&seen).join(&name);
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("cannot create {}", folder.display()));
            }
            _ => {}
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |path: &Path| {
            let fd = open(path, flags, Mode::empty());
            fd.with_context(|| format!("cannot open {}", path.display()))
        };
        Ok(Pins {
            folder: open(&folder)?,
            parent: open(Path::new(&seen))?,
            name,
        })
    }

    /// Where to keep what a restart of Bora is to find, if nothing else is said.
    pub(crate) fn state(&self) -> PathBuf {
        self.path.clone()
    }

    /// The file that keeps an unconfirmed apply.
    pub(crate) fn unconfirmed(&self) -> PathBuf {
        self.path.join("unconfirmed.toml")
    }

    /// Notes that Bora made this TAP twin and is to remove it.
    pub(crate) fn add_twin(&self, name: &str) {
        if let Err(error) = fs::write(self.twin(name), "") {
            log::warn!("{name} will stay when Bora is stopped: {error}");
        }
    }

    /// Whether there is such a note.
    pub(crate) fn made_twin(&self, name: &str) -> io::Result<bool> {
        self.twin(name).try_exists()
    }

    /// Removes that note.
    pub(crate) fn forget_twin(&self, name: &str) -> io::Result<bool> {
        remove_if_there(&self.twin(name))
    }

    /// Notes offloads of an interface that Bora has turned off and is to turn on again, besides those
    /// noted before.
    pub(crate) fn note_offloads(&self, ifindex: u32, names: &[&str]) {
        if let Err(error) = self.add_offloads(ifindex, names) {
            log::warn!(
                "{} will stay off when Bora is stopped: {error:#}",
                names.join(", ")
            );
        }
    }

    fn add_offloads(&self, ifindex: u32, names: &[&str]) -> anyhow::Result<()> {
        let noted = self.noted_offloads(ifindex)?;
        let new = names
            .iter()
            .filter(|new| !noted.lines().any(|old| old == **new));
        let text: String = new.map(|new| format!("{new}\n")).collect();
        let path = self.offloads(ifindex);
        fs::write(&path, noted + &text).with_context(|| path.display().to_string())
    }

    /// These notes, one name a line; none if there are none.
    pub(crate) fn noted_offloads(&self, ifindex: u32) -> anyhow::Result<String> {
        let path = self.offloads(ifindex);
        read_if_there(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Removes these notes.
    pub(crate) fn forget_offloads(&self, ifindex: u32) -> anyhow::Result<()> {
        let path = self.offloads(ifindex);
        let removed = remove_if_there(&path);
        removed.with_context(|| format!("cannot remove {}", path.display()))?;
        Ok(())
    }

    fn offloads(&self, ifindex: u32) -> PathBuf {
        self.path.join(format!("offloads-{ifindex}"))
    }

    /// All TAP twins that Bora made and is to remove.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(crate) fn twins(&self) -> anyhow::Result<Vec<String>> {
        let names = names_in(&self.path)?.into_iter();
        let twins = names.filter_map(|name| Some(name.strip_prefix("twin-")?.to_owned()));
        Ok(twins.collect())
    }

    fn twin(&self, name: &str) -> PathBuf {
        self.path.join(format!("twin-{name}"))
    }
}

/// A runtime directory that this process has locked, until it ends; or another Bora's.
#[derive(Debug)]
pub(crate) struct RuntimeLock {
    pub(crate) dir: RuntimeDir,
    /// The folder of the attachments' pins.
    pub(crate) pins: Pins,
    _lock: Option<File>,
}

impl RuntimeLock {
    /// Locks a directory.
    ///
    /// # Errors
    /// Another Bora has the lock, or the directory cannot be made.
    pub(crate) fn take(dir: RuntimeDir) -> anyhow::Result<Self> {
        let lock = dir.lock()?;
        Ok(Self {
            pins: dir.pins()?,
            dir,
            _lock: Some(lock),
        })
    }

    /// A directory that another Bora has locked: nothing may be changed in it.
    ///
    /// # Errors
    /// The folder of pins cannot be opened.
    pub(crate) fn of_another(dir: RuntimeDir) -> anyhow::Result<Self> {
        Ok(Self {
            pins: dir.pins()?,
            dir,
            _lock: None,
        })
    }

    /// Removes the socket, and the folder of pins if it is empty; lock and history stay for the next.
    pub(crate) fn clean(&self) {
        let socket = self.dir.socket();
        if let Err(error) = remove_if_there(&socket) {
            log::warn!("cannot remove {}: {error}", socket.display());
        }
        let Pins { parent, name, .. } = &self.pins;
        match unlinkat(parent, name.as_str(), AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => {} // what is pinned stays
            Err(error) => log::warn!("cannot remove the folder {name} of pins: {error}"),
        }
    }
}

/// An open folder of pins. It stays valid when the process whose mount namespace it is in ends.
#[derive(Debug)]
pub struct Pins {
    folder: OwnedFd,
    parent: OwnedFd,
    name: String,
}

impl Pins {
    /// Where the link of an interface is pinned.
    pub fn link(&self, ifindex: u32) -> PathBuf {
        self.folder().join(format!("link-{ifindex}"))
    }

    /// All interfaces with a pin.
    ///
    /// # Errors
    /// The folder of pins cannot be read.
    pub fn links(&self) -> anyhow::Result<Vec<u32>> {
        let names = names_in(&self.folder()).context("the folder of pins")?;
        let numbers = names.iter().filter_map(|name| name.strip_prefix("link-"));
        Ok(numbers.filter_map(number).collect())
    }

    fn folder(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.folder.as_raw_fd()).into()
    }
}

/// The network namespaces, by inode, that have the socket of a Bora.
///
/// # Errors
/// This user may not look.
pub fn other_namespaces() -> anyhow::Result<Vec<u32>> {
    let run = Path::new(RUN);
    if !run.try_exists().context(RUN)? {
        return Ok(Vec::new());
    }
    let names = names_in(run)?.into_iter();
    let names = names.filter(|name| run.join(name).join("api.sock").exists());
    Ok(names.filter_map(|name| number(&name)).collect())
}

/// The names of what is in a folder.
fn names_in(folder: &Path) -> anyhow::Result<Vec<String>> {
    let read = || {
        fs::read_dir(folder)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<io::Result<_>>()
    };
    read().with_context(|| format!("cannot read {}", folder.display()))
}

/// The number that a name is.
#[expect(
    clippy::disallowed_methods,
    reason = "what is no number was not named by Bora, and means nothing to it"
)]
fn number(name: &str) -> Option<u32> {
    name.parse().ok()
}

/// A file's text; none if there is no such file.
fn read_if_there(path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

/// Removes a file; returns whether there was one.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The process that has the lock, which writes its number after it has it.
fn holder(lock: &mut File) -> String {
    let mut pid = String::new();
    match lock.read_to_string(&mut pid) {
        Ok(0) => "it is just starting".into(),
        Ok(_) => format!("pid {}", pid.trim()),
        Err(error) => format!("its pid cannot be read: {error}"),
    }
}

/// `/proc/PID/root` of the outermost ancestor in another mount namespace, if there is one.
fn outer_root() -> anyhow::Result<Option<String>> {
    let own = fs::read_link("/proc/self/ns/mnt").context("/proc/self/ns/mnt")?;
    Ok(root_outside(&own))
}

#[expect(
    clippy::disallowed_methods,
    reason = "an ancestor that has ended, or that this user may not enter, is none to mount in"
)]
fn root_outside(own: &Path) -> Option<String> {
    let mut ancestors = Vec::new();
    let mut pid = std::process::id();
    while let Some(parent) = parent_of(pid).filter(|&parent| parent > 0) {
        ancestors.push(parent);
        pid = parent;
    }
    let outermost = ancestors
        .into_iter()
        .rev()
        .find(|pid| fs::read_dir(format!("/proc/{pid}/root/run")).is_ok())?;
    let theirs = fs::read_link(format!("/proc/{outermost}/ns/mnt")).ok()?;
    (theirs != own).then(|| format!("/proc/{outermost}/root"))
}

fn parent_of(pid: u32) -> Option<u32> {
    // a process that has just ended has none
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        return None;
    };
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    number(parent.trim())
}

#[expect(
    clippy::disallowed_methods,
    reason = "whatever is wrong with the folder, mounting fails with it and says so"
)]
fn is_bpffs(path: &str) -> bool {
    statfs(path).is_ok_and(|found| found.f_type == BPF_FS_MAGIC)
}

fn mount_bpffs(root: Option<&str>, mount_point: &Path) -> anyhow::Result<()> {
    let script = format!(
        "mkdir -p {0} && mount -t bpf -o mode=0700 bpf {0}",
        mount_point.display()
    );
    let mut command = match root.and_then(|root| root.split('/').nth(2)) {
        Some(pid) => {
            let mut command = Command::new("nsenter");
            command.args(["-t", pid, "-m", "sh", "-c", &script]);
            command
        }
        None => {
            let mut command = Command::new("sh");
            command.args(["-c", &script]);
            command
        }
    };
    let output = command.output().context("cannot run mount")?;
    if !output.status.success() {
        bail!(
            "cannot mount a BPF file system at {}: {}",
            mount_point.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory in place of a file stands for whatever cannot be read.
    #[test]
    fn notes_that_cannot_be_read_are_not_missing_ones() {
        let path = std::env::temp_dir().join(format!("bora-notes-{}", std::process::id()));
        let dir = RuntimeDir {
            netns: 0,
            path: path.clone(),
        };
        assert!(dir.twins().is_err());
        fs::create_dir_all(path.join("offloads-2")).unwrap();
        assert!(dir.noted_offloads(2).is_err() && dir.forget_offloads(2).is_err());
        assert_eq!(dir.noted_offloads(1).unwrap(), "");
        dir.note_offloads(1, &["a", "b"]);
        dir.note_offloads(1, &["b", "c"]);
        assert_eq!(dir.noted_offloads(1).unwrap(), "a\nb\nc\n");
        dir.forget_offloads(1).unwrap();
        dir.forget_offloads(1).unwrap();
        assert_eq!(dir.noted_offloads(1).unwrap(), "");
        dir.add_twin("p0");
        assert_eq!(dir.twins().unwrap(), ["p0"]);
        assert!(dir.made_twin("p0").unwrap() && !dir.made_twin("p1").unwrap());
        assert!(dir.forget_twin("p0").unwrap() && !dir.forget_twin("p0").unwrap());
        fs::remove_dir_all(path).unwrap();
    }
}
