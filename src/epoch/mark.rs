//! The mark on disk. It is replaced as a whole by a rename, and not synced: a second of age does no harm.

use std::fs;
use std::fs::OpenOptions;
use std::io;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::store::Mark;

/// Reads the mark; none where there is no file, or none that can be read.
pub fn read(file: &Path) -> Option<Mark> {
    let bytes = fs::read(file).ok()?;
    let mark = serde_json::from_slice(&bytes);
    mark.inspect_err(|error| {
        tracing::warn!(file = %file.display(), %error, "the mark cannot be read: a rewind before this start is not noticed");
    })
    .ok()
}

/// Writes the mark.
pub fn write(file: &Path, mark: &Mark) -> io::Result<()> {
    let aside = file.with_added_extension("new");
    let mut written = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&aside)?;
    written.write_all(&serde_json::to_vec(mark)?)?;
    fs::rename(&aside, file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use chrono::DateTime;

    use super::*;
    use crate::store::EpochId;

    #[test]
    fn a_mark_is_read_back_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("carillon.db.mark");
        assert_eq!(read(&file), None);
        let mark = Mark {
            epoch: EpochId {
                number: 4,
                random: -1,
            },
            watermark: 17,
            at: DateTime::UNIX_EPOCH,
        };
        write(&file, &mark).unwrap();
        assert_eq!(read(&file), Some(mark));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&file, "{").unwrap();
        assert_eq!(read(&file), None, "damage is no rewind");
    }
}
