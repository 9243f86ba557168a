//! A private PostgreSQL: its own data directory and socket, a port only where one is asked for, a direct child that ends
//! with the test, and can be ended and started again before. PostgreSQL refuses to be root, so where the tests are, it is
//! started as the user `postgres` that Debian's package makes.

use std::fs;
use std::io;
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
use crate::harness::free_port;
use crate::harness::tmpfs::Tmpfs;

/// A running server.
#[derive(Debug)]
pub struct Postgres {
    server: Guarded,
    /// Holds its socket, its log and the folder `data`.
    pub folder: TempDir,
    settings: Vec<String>,
    /// Part of its socket's name; also where it listens on loopback, if it does.
    pub port: u16,
    databases: AtomicU32,
}

impl Postgres {
    /// Starts one that keeps nothing through a crash of the machine, which no test is about.
    pub async fn start() -> Self {
        Self::start_with(&["fsync=off", "full_page_writes=off", "synchronous_commit=off"]).await
    }

    /// Starts one with these settings.
    pub async fn start_with(settings: &[&str]) -> Self {
        Self::start_on(5432, settings).await
    }

    /// Starts one that listens on a loopback port, and keeps what it commits when it is ended or killed.
    pub async fn start_listening() -> Self {
        Self::start_listening_with(&["fsync=off", "full_page_writes=off"]).await
    }

    /// Starts a server with these settings that also listens on a loopback port.
    pub async fn start_listening_with(settings: &[&str]) -> Self {
        let listening = [settings, &["listen_addresses=127.0.0.1"]].concat();
        Self::start_on(free_port(), &listening).await
    }

    async fn start_on(port: u16, settings: &[&str]) -> Self {
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
        let defaults = ["listen_addresses=", "max_connections=100", "shared_buffers=64MB"];
        let settings = defaults.iter().chain(settings);
        let mut settings: Vec<String> = settings.map(|setting| (*setting).to_owned()).collect();
        settings.push(format!("port={port}"));
        let postgres = Self {
            server: serving(folder.path(), &settings),
            folder,
            settings,
            port,
            databases: AtomicU32::new(0),
        };
        eventually("PostgreSQL to take connections", async || {
            postgres.answers().await
        })
        .await;
        postgres
    }

    /// Ends it at once, and waits until it is gone: SIGQUIT is what `pg_ctl stop -m immediate` sends, and SIGKILL is a
    /// crash. Either way it recovers from its log when it starts again.
    pub fn end(&mut self, signal: Signal) {
        self.try_end(signal)
            .expect("a child can be signalled and waited for");
    }

    fn try_end(&mut self, signal: Signal) -> io::Result<()> {
        let child = &mut self.server.child;
        if child.try_wait()?.is_none() {
            rustix::process::kill_process(Pid::from_child(child), signal)?;
        }
        child.wait().map(drop)
    }

    /// Starts it again where it was ended. What a killed one left behind may be in its way for a moment.
    pub async fn start_again(&mut self) {
        eventually("PostgreSQL to take connections again", async || {
            if self
                .server
                .child
                .try_wait()
                .expect("a child can be asked")
                .is_some()
            {
                self.server = serving(self.folder.path(), &self.settings);
            }
            self.answers().await
        })
        .await;
    }

    /// Copies the running server by `pg_basebackup`, as a backup, or as a standby that receives nothing after this.
    pub fn copy(&self, name: &str, is_standby: bool) {
        let mut command = as_postgres("pg_basebackup");
        command
            .args([
                "--checkpoint=fast",
                "--wal-method=stream",
                "--no-sync",
                "--username=postgres",
                "-h",
            ])
            .arg(self.folder.path())
            .args(["-p", &self.port.to_string(), "-D"])
            .arg(self.folder.path().join(name));
        if is_standby {
            command.arg("--write-recovery-conf");
        }
        let made = command.status().expect("pg_basebackup can be run");
        assert!(made.success(), "pg_basebackup failed");
    }

    /// The server crashes, and that copy takes its place: a standby is promoted.
    pub async fn fail_over(&mut self, name: &str) {
        self.end(Signal::KILL);
        let data = self.folder.path().join("data");
        fs::rename(&data, self.folder.path().join("lost")).expect("the folder is ours");
        fs::rename(self.folder.path().join(name), &data).expect("the copy is there");
        let is_standby = data.join("standby.signal").exists();
        self.start_again().await;
        if is_standby {
            let promoted = as_postgres("pg_ctl")
                .args(["promote", "--silent", "-D"])
                .arg(&data)
                .status();
            assert!(
                promoted.expect("pg_ctl can be run").success(),
                "it was not promoted"
            );
        }
    }

    async fn answers(&self) -> Option<()> {
        let conn = PgConnection::connect(&self.url("postgres")).await.ok()?;
        conn.close().await.ok()
    }

    /// A new, empty database whose tables are on that disk.
    pub async fn database_on(&self, disk: &Tmpfs) -> String {
        disk.give_to_postgres();
        let space = format!("CREATE TABLESPACE small LOCATION '{}'", disk.path().display());
        let database = "CREATE DATABASE t0 TABLESPACE small STRATEGY file_copy".to_owned();
        let mut conn = PgConnection::connect(&self.url("postgres"))
            .await
            .expect("it runs");
        for statement in [space, database] {
            sqlx::raw_sql(sqlx::AssertSqlSafe(statement))
                .execute(&mut conn)
                .await
                .expect("a database is made");
        }
        self.url("t0")
    }

    /// Signals the server and all its processes.
    pub fn signal_all(&self, signal: Signal) {
        let server = self.server.child.id();
        let children = format!("/proc/{server}/task/{server}/children");
        let children = fs::read_to_string(children).expect("the server runs");
        let children = children
            .split_whitespace()
            .map(|id| id.parse().expect("a number"));
        let server = i32::try_from(server).expect("process ids are small");
        // The server first, so that it starts no other meanwhile.
        for id in std::iter::once(server).chain(children) {
            // A process may have ended by itself.
            let _ = rustix::process::kill_process(Pid::from_raw(id).expect("no process is 0"), signal);
        }
    }

    /// The address of one of its databases.
    pub fn url(&self, database: &str) -> String {
        format!(
            "postgres://postgres@localhost:{}/{database}?host={}",
            self.port,
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
    /// Its children included. A test that fails is panicking already, and a second panic would end all others with it.
    fn drop(&mut self) {
        let _ = self.try_end(Signal::QUIT);
    }
}

/// Starts a server on the data in that folder.
fn serving(folder: &Path, settings: &[String]) -> Guarded {
    let mut command = as_postgres("postgres");
    command.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
    for setting in settings {
        command.arg("-c").arg(setting);
    }
    let log = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(folder.join("log"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.expect("the folder is ours"));
    Guarded::spawn(&mut command)
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
