//! Whether the file is still the one that was opened, and whole. A process that goes on with a file that was unlinked or
//! replaced takes changes that no later start finds, and one that starts on an empty file forgets everything in silence.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sqlx::SqliteConnection;

use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::store::StoreError;
use crate::store::failure;

/// How long a check of all pages may take; a larger database is not checked to its end.
const CHECK_WITHIN: Duration = Duration::from_secs(10);

/// Steps of SQLite's virtual machine between two looks at the clock.
const STEPS: i32 = 100_000;

const CURE: &str = "restore it from a backup";

/// The database file as it was opened.
#[derive(Debug)]
pub struct DatabaseFile {
    path: PathBuf,
    device: u64,
    inode: u64,
    /// Its length when it was last looked at: it never shrinks, since nothing vacuums it.
    length: AtomicU64,
    /// How many corruptions were reported when it was last checked.
    checked: AtomicU64,
}

impl DatabaseFile {
    /// The file at `path`, which is open.
    pub fn opened(path: &Path) -> Result<Self, StoreError> {
        let found = fs::metadata(path).map_err(|error| gone(path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            device: found.dev(),
            inode: found.ino(),
            length: AtomicU64::new(found.len()),
            checked: AtomicU64::new(failure::corruptions()),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether `path` still names the file that is open, and nothing was cut off.
    pub fn check(&self) -> Result<(), StoreError> {
        let found = fs::metadata(&self.path).map_err(|error| gone(&self.path, &error))?;
        let file = self.path.display();
        if (found.dev(), found.ino()) != (self.device, self.inode) {
            return Err(StoreError::Damaged(format!(
                "`{file}` was replaced while this process used it: stop the process before a backup is restored"
            )));
        }
        let before = self.length.fetch_max(found.len(), Ordering::Relaxed);
        if found.len() < before {
            return Err(StoreError::Damaged(format!(
                "`{file}` was cut from {before} to {} bytes while this process used it: {CURE}",
                found.len()
            )));
        }
        Ok(())
    }

    /// Whether a corruption was reported since the last time this was asked.
    pub fn is_suspect(&self) -> bool {
        let reported = failure::corruptions();
        self.checked.swap(reported, Ordering::Relaxed) != reported
    }
}

/// The file beside the database that says how far it was last seen.
pub fn mark_file(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".mark");
    PathBuf::from(name)
}

/// Refuses to begin anew where a mark says that there was a database.
pub fn refuse_lost(path: &Path) -> Result<(), StoreError> {
    let mark = mark_file(path);
    let is_empty = fs::metadata(path).map_or(true, |found| found.len() == 0);
    if !is_empty || !mark.exists() {
        return Ok(());
    }
    Err(StoreError::Damaged(format!(
        "`{}` is missing or empty, and `{}` says that there was a database: {CURE}, or delete the mark to begin anew",
        path.display(),
        mark.display()
    )))
}

/// Looks at the pages of the database, for a bounded time.
pub async fn quick_check(conn: &mut SqliteConnection, path: &Path) -> Result<(), StoreError> {
    let until = SystemClock.elapsed() + CHECK_WITHIN;
    let mut handle = conn.lock_handle().await?;
    handle.set_progress_handler(STEPS, move || SystemClock.elapsed() < until);
    drop(handle);
    let found: Result<String, sqlx::Error> = sqlx::query_scalar("PRAGMA quick_check(1)")
        .fetch_one(&mut *conn)
        .await;
    conn.lock_handle().await?.remove_progress_handler();
    match found {
        Ok(found) if found == "ok" => Ok(()),
        Ok(found) => Err(StoreError::Damaged(damaged(path, &found))),
        Err(sqlx::Error::Database(cause)) if failure::is_stopped(cause.as_ref()) => {
            tracing::info!(within = ?CHECK_WITHIN, "the database is too large to be checked to its end");
            Ok(())
        }
        Err(error) => match StoreError::from(error) {
            StoreError::Damaged(cause) => Err(StoreError::Damaged(damaged(path, &cause))),
            other => Err(other),
        },
    }
}

/// What is said of a damaged file.
pub fn damaged(path: &Path, cause: &str) -> String {
    format!("`{}` is damaged ({cause}): {CURE}; see store.url", path.display())
}

fn gone(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Damaged(format!(
        "`{}` is gone ({error}) while this process used it: {CURE}",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_cut_replaced_or_unlinked_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        fs::write(&path, "1234").unwrap();
        let file = DatabaseFile::opened(&path).unwrap();
        file.check().unwrap();
        fs::write(&path, "123").unwrap();
        let cut = file.check().unwrap_err().to_string();
        assert!(cut.contains("cut from 4 to 3 bytes"), "{cut}");
        fs::write(folder.path().join("b.db"), "12345").unwrap();
        fs::rename(folder.path().join("b.db"), &path).unwrap();
        let replaced = file.check().unwrap_err().to_string();
        assert!(replaced.contains("was replaced"), "{replaced}");
        fs::remove_file(&path).unwrap();
        let unlinked = file.check().unwrap_err().to_string();
        assert!(unlinked.contains("is gone"), "{unlinked}");
    }

    #[test]
    fn nothing_begins_anew_beside_a_mark() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        refuse_lost(&path).unwrap();
        fs::write(mark_file(&path), "{}").unwrap();
        let missing = refuse_lost(&path).unwrap_err().to_string();
        assert!(missing.contains("delete the mark to begin anew"), "{missing}");
        fs::write(&path, "").unwrap();
        refuse_lost(&path).unwrap_err();
        fs::write(&path, "SQLite format 3").unwrap();
        refuse_lost(&path).unwrap();
    }
}
