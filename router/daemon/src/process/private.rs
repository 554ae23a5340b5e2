//! Files that only their owner can read, because configurations have secrets.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Its owner reads and writes it.
const MODE: u32 = 0o600;

/// Makes a folder, unless it is there, and keeps others out.
///
/// # Errors
/// The file system refuses it.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

/// Writes a file that is there as a whole, or not at all, whenever the machine stops.
///
/// # Errors
/// The file system refuses it; what was there before is still there then.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let part = PathBuf::from(name);
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {} // its mode may have been another
    }
    let mut file = create(&part)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&part, path)?;
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}

/// A new file, which must not be there.
///
/// # Errors
/// The file system refuses it.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(MODE).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_reads_what_is_written() {
        let folder = std::env::temp_dir().join(format!("bora-private-{}", std::process::id()));
        make_folder(&folder).unwrap();
        let path = folder.join("file");
        fs::write(&path, "old, for all").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        write(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        for (path, mode) in [(&path, 0o600), (&folder, 0o700)] {
            assert_eq!(
                fs::metadata(path).unwrap().permissions().mode() & 0o777,
                mode
            );
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }
}
