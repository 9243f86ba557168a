//! Raft's log, vote and snapshot: one small document that is replaced as a whole with every change.
//!
//! A vote and the entries that follow it must not change places on the disk, the log must have no hole, and nothing may
//! be forgotten once it was promised: replacing one document gives all three without any code for recovery. It is kept
//! small by snapshots, and it is written a few times for each election and never while nothing happens.

use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::Mutex;

use openraft::LogState;
use openraft::OptionalSend;
use openraft::RaftLogReader;
use openraft::storage::IOFlushed;
use openraft::storage::RaftLogStorage;
use openraft::type_config::alias::EntryOf;
use openraft::type_config::alias::LogIdOf;
use openraft::type_config::alias::SnapshotMetaOf;
use openraft::type_config::alias::VoteOf;
use serde::Deserialize;
use serde::Serialize;

use super::disk::Folder;
use super::state::Types;

/// The name of the document.
const NAME: &str = "raft.json";

/// The log of one node; clones share it.
#[derive(Debug, Clone)]
pub struct Log(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    folder: Arc<Folder>,
    /// What is on the disk.
    document: Mutex<Document>,
    /// Taken through a whole change, so that changes follow each other.
    writing: Mutex<Health>,
}

/// Whether the disk can be trusted. After a failed sync nobody knows what it holds, and trying again may report success
/// for data that were dropped; so the first failure is the last write.
#[derive(Debug)]
enum Health {
    Sound,
    Broken,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Document {
    vote: Option<VoteOf<Types>>,
    purged: Option<LogIdOf<Types>>,
    entries: Vec<EntryOf<Types>>,
    snapshot: Option<SnapshotMetaOf<Types>>,
}

impl Log {
    /// Reads the log; none if the folder holds none. Blocks on the disk.
    pub fn open(folder: &Arc<Folder>) -> io::Result<Option<Self>> {
        let document = folder.read(NAME)?;
        Ok(document.map(|document| Self::with(folder, document)))
    }

    /// Writes an empty log. Blocks on the disk.
    pub fn create(folder: &Arc<Folder>) -> io::Result<Self> {
        let document = Document::default();
        folder.replace(NAME, &document)?;
        Ok(Self::with(folder, document))
    }

    fn with(folder: &Arc<Folder>, document: Document) -> Self {
        Self(Arc::new(Shared {
            folder: Arc::clone(folder),
            document: Mutex::new(document),
            writing: Mutex::new(Health::Sound),
        }))
    }

    /// Whether nothing was ever promised or learnt here.
    pub fn is_pristine(&self) -> bool {
        self.look(|document| {
            document.vote.is_none() && document.entries.is_empty() && document.snapshot.is_none()
        })
    }

    /// The latest snapshot: up to where, and the members.
    pub(super) fn snapshot(&self) -> Option<SnapshotMetaOf<Types>> {
        self.look(|document| document.snapshot.clone())
    }

    /// Puts a snapshot in the place of the old one.
    pub(super) async fn keep_snapshot(&self, snapshot: SnapshotMetaOf<Types>) -> io::Result<()> {
        self.change(move |document| document.snapshot = Some(snapshot))
            .await
    }

    fn look<T>(&self, look: impl FnOnce(&Document) -> T) -> T {
        look(&self.0.document.lock().expect("no holder panics"))
    }

    /// Changes the document; on return it is on the disk.
    async fn change(&self, change: impl FnOnce(&mut Document) + Send + 'static) -> io::Result<()> {
        let log = self.clone();
        if !self.0.folder.blocks() {
            return log.change_now(change);
        }
        tokio::task::spawn_blocking(move || log.change_now(change))
            .await
            .map_err(io::Error::other)?
    }

    fn change_now(&self, change: impl FnOnce(&mut Document)) -> io::Result<()> {
        let mut health = self.0.writing.lock().expect("no holder panics");
        if matches!(*health, Health::Broken) {
            return Err(io::Error::other("an earlier write of the log failed"));
        }
        let mut document = self.look(Document::clone);
        change(&mut document);
        self.0
            .folder
            .replace(NAME, &document)
            .inspect_err(|_| *health = Health::Broken)?;
        *self.0.document.lock().expect("no holder panics") = document;
        Ok(())
    }
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<EntryOf<Types>>, io::Error> {
        Ok(self.look(|document| {
            let entries = document.entries.iter();
            entries
                .filter(|entry| range.contains(&entry.log_id.index))
                .cloned()
                .collect()
        }))
    }

    async fn read_vote(&mut self) -> Result<Option<VoteOf<Types>>, io::Error> {
        Ok(self.look(|document| document.vote))
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, io::Error> {
        Ok(self.look(|document| {
            let last = document.entries.last().map(|entry| entry.log_id);
            LogState {
                last_purged_log_id: document.purged,
                last_log_id: last.or(document.purged),
            }
        }))
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<Types>) -> Result<(), io::Error> {
        let vote = *vote;
        self.change(move |document| document.vote = Some(vote)).await
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = EntryOf<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<_> = entries.into_iter().collect();
        self.change(move |document| document.entries.extend(entries))
            .await?;
        callback.io_completed(Ok(()));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogIdOf<Types>>) -> Result<(), io::Error> {
        self.change(move |document| {
            document
                .entries
                .retain(|entry| last.is_some_and(|last| entry.log_id.index <= last.index));
        })
        .await
    }

    async fn purge(&mut self, upto: LogIdOf<Types>) -> Result<(), io::Error> {
        self.change(move |document| {
            document.purged = Some(upto);
            document.entries.retain(|entry| entry.log_id.index > upto.index);
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use openraft::AsyncRuntime;
    use openraft::StorageError;
    use openraft::testing::log::StoreBuilder;
    use openraft::testing::log::Suite;

    use super::super::state::Membership;
    use super::super::state::Runtime;
    use super::*;

    struct OnDisk;

    impl StoreBuilder<Types, Log, Membership, tempfile::TempDir> for OnDisk {
        async fn build(&self) -> Result<(tempfile::TempDir, Log, Membership), StorageError<Types>> {
            let place = tempfile::tempdir().unwrap();
            let folder = Arc::new(Folder::open(place.path()).unwrap());
            let log = Log::create(&folder).unwrap();
            let members = Membership::restore(&log);
            Ok((place, log, members))
        }
    }

    /// The rules a log must keep, as Raft itself tests them.
    #[test]
    fn the_log_keeps_the_rules() {
        Runtime::new(1).block_on(async {
            Suite::test_all(OnDisk).await.unwrap();
        });
    }

    #[test]
    fn after_a_failed_write_nothing_more_is_promised() {
        Runtime::new(1).block_on(async {
            let place = tempfile::tempdir().unwrap();
            let folder = Arc::new(Folder::open(place.path()).unwrap());
            let mut log = Log::create(&folder).unwrap();
            let vote = VoteOf::<Types>::new(1, 7);
            log.save_vote(&vote).await.unwrap();
            // A directory in its way: the document can not be written aside.
            let aside = place.path().join("raft.json.new");
            std::fs::create_dir(&aside).unwrap();
            assert!(log.save_vote(&VoteOf::<Types>::new(2, 7)).await.is_err());
            std::fs::remove_dir(&aside).unwrap();
            assert!(log.save_vote(&VoteOf::<Types>::new(2, 7)).await.is_err());
            assert_eq!(log.read_vote().await.unwrap(), Some(vote));
        });
    }

    #[test]
    fn what_was_promised_is_there_after_a_restart() {
        Runtime::new(1).block_on(async {
            let place = tempfile::tempdir().unwrap();
            let folder = Arc::new(Folder::open(place.path()).unwrap());
            let mut log = Log::create(&folder).unwrap();
            assert!(log.is_pristine());
            let vote = VoteOf::<Types>::new(3, 7);
            log.save_vote(&vote).await.unwrap();
            let mut again = Log::open(&folder).unwrap().unwrap();
            assert!(!again.is_pristine());
            assert_eq!(again.read_vote().await.unwrap(), Some(vote));
        });
    }
}
