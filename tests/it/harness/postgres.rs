//! A private PostgreSQL: its own data directory and socket, no port, a direct child that ends with the test. PostgreSQL
//! refuses to be root, so where the tests are, it is started as the user `postgres` that Debian's package makes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use rustix::process::Pid;
use rustix::process::Signal;
use sqlx::Connection;
use sqlx::PgConnection;
use tempfile::TempDir;

use crate::harness::Guarded;
use crate::harness::eventually;

/// A running server.
#[derive(Debug)]
pub struct Postgres {
    server: Guarded,
    folder: TempDir,
    databases: AtomicU32,
}

impl Postgres {
    /// Starts one that keeps nothing through a crash of the machine, which no test is about.
    pub async fn start() -> Self {
        Self::start_with(&["fsync=off", "full_page_writes=off", "synchronous_commit=off"]).await
    }

    /// Starts one with these settings.
    pub async fn start_with(settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        open_to_all(folder.path());
        let data = folder.path().join("data");
        let made = as_postgres("initdb")
            .args([
                "--no-sync",
                "--auth=trust",
                "--username=postgres",
                "--encoding=UTF8",
                "--no-locale",
                "-D",
            ])
            .arg(&data)
            .stdout(Stdio::null())
            .status();
        assert!(made.expect("initdb can be run").success(), "initdb failed");
        let mut command = as_postgres("postgres");
        command.arg("-D").arg(&data).arg("-k").arg(folder.path());
        for setting in ["listen_addresses=", "max_connections=100", "shared_buffers=64MB"]
            .iter()
            .chain(settings)
        {
            command.arg("-c").arg(setting);
        }
        let log = fs::File::create(folder.path().join("log")).expect("the folder is ours");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let postgres = Self {
            server: Guarded::spawn(&mut command),
            folder,
            databases: AtomicU32::new(0),
        };
        eventually("PostgreSQL to take connections", async || {
            PgConnection::connect(&postgres.url("postgres")).await.ok()
        })
        .await;
        postgres
    }

    /// The address of one of its databases.
    pub fn url(&self, database: &str) -> String {
        format!(
            "postgres://postgres@localhost/{database}?host={}",
            self.folder.path().display()
        )
    }

    /// A new, empty database.
    pub async fn database(&self) -> String {
        let name = format!("t{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let mut conn = PgConnection::connect(&self.url("postgres"))
            .await
            .expect("it runs");
        let statement = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name} STRATEGY file_copy"));
        sqlx::raw_sql(statement)
            .execute(&mut conn)
            .await
            .expect("a database is made");
        conn.close().await.expect("it closes");
        self.url(&name)
    }
}

impl Drop for Postgres {
    /// SIGQUIT ends it at once, its children included.
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.server.child.id()).ok().and_then(Pid::from_raw) {
            // An error says that it is gone already.
            let _ = rustix::process::kill_process(pid, Signal::QUIT);
        }
        let _ = self.server.child.wait();
    }
}

/// A program of PostgreSQL, as a user that it accepts.
fn as_postgres(program: &str) -> Command {
    let path = binaries().join(program);
    if !rustix::process::geteuid().is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command
        .args([
            "--reuid=postgres",
            "--regid=postgres",
            "--init-groups",
            "--pdeathsig=QUIT",
        ])
        .arg(path)
        .current_dir("/");
    command
}

/// The newest version that is installed.
fn binaries() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").map(|folder| {
        let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
        let paths = folder.filter_map(|entry| Some(entry.ok()?.path()));
        paths.max_by_key(version).map(|newest| newest.join("bin"))
    });
    versions
        .ok()
        .flatten()
        .expect("PostgreSQL is missing: apt-get install postgresql")
}

/// The folder is root's, and the user `postgres` must be able to write there.
fn open_to_all(folder: &Path) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).expect("the folder is ours");
}
