//! The real binary as a direct child, with a folder of its own.

use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::time::Duration;

use chrono::TimeDelta;
use rustix::process::Pid;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::Guarded;
use crate::harness::client::client_builder;
use crate::harness::eventually;
use crate::harness::free_port;
use crate::harness::hook::SECRET;
use crate::harness::program;

/// What a node needs before it starts and keeps when it dies: its folder with the database, its port, its settings.
#[derive(Debug)]
pub struct Home {
    folder: TempDir,
    /// Where it listens on loopback.
    pub port: u16,
    settings: BTreeMap<String, String>,
    wrapper: Vec<String>,
}

impl Home {
    /// A home with nothing but a database file and a port of its own; everything else is as it comes.
    pub fn new() -> Self {
        let home = Self {
            folder: tempfile::tempdir().expect("a temporary folder can be made"),
            port: free_port(),
            settings: BTreeMap::new(),
            wrapper: Vec::new(),
        };
        let listen = format!("127.0.0.1:{}", home.port);
        let database = format!("sqlite://{}", home.database().display());
        home.with("HTTP__LISTEN", &listen)
            .with("STORE__URL", &database)
            // A restarted node would leave what it finds to its first look, which is not what most tests are about.
            .with("WORKER__INITIAL_DELAY", "0s")
    }

    /// With a setting, spelt as in the environment but without its prefix: `WORKER__PERIOD`.
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.settings.insert(format!("CARILLON__{key}"), value.to_owned());
        self
    }

    /// Served by way of this command, which becomes the node (`exec`).
    pub fn under(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// On a PostgreSQL, with a port for its peers and a place for what it promises them.
    pub fn in_cluster(self, database: &str) -> Self {
        let promises = self.folder().join("cluster").display().to_string();
        self.with("STORE__URL", database)
            .with("CLUSTER__LISTEN", &format!("127.0.0.1:{}", free_port()))
            .with("CLUSTER__DATA_DIR", &promises)
    }

    /// With a relay on a loopback port.
    pub fn with_relay(self, port: u16) -> Self {
        self.with("CHANNELS__EMAIL__SMTP__HOST", "127.0.0.1")
            .with("CHANNELS__EMAIL__SMTP__PORT", &port.to_string())
            .with("CHANNELS__EMAIL__SMTP__TLS", "none")
            .with("CHANNELS__EMAIL__FROM", "Calendar <calendar@carillon.test>")
    }

    /// With webhooks on this machine, signed with [`SECRET`].
    pub fn with_webhooks(self) -> Self {
        let secrets = self.folder().join("secrets");
        fs::write(&secrets, SECRET).expect("the folder is ours");
        self.with("CHANNELS__WEBHOOK__SECRET_FILE", &secrets.display().to_string())
            .with("CHANNELS__WEBHOOK__ALLOW_NETWORKS", "127.0.0.0/8")
    }

    /// With a wall clock that the test sets ([`Node::set_wall_clock`]).
    pub fn with_wall_clock(mut self) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/harness/wall_clock.c");
        let library = self.folder().join("wall_clock.so");
        let mut compiler = Command::new(program("cc", "gcc"));
        compiler
            .args(["-shared", "-fPIC", "-o"])
            .args([&library, &source]);
        assert!(
            compiler.status().is_ok_and(|status| status.success()),
            "{compiler:?}"
        );
        fs::write(self.wall_clock(), 0_i64.to_ne_bytes()).expect("the folder is ours");
        let file = self.wall_clock().display().to_string();
        self.settings.insert("WALL_CLOCK".to_owned(), file);
        self.settings
            .insert("LD_PRELOAD".to_owned(), library.display().to_string());
        self
    }

    fn wall_clock(&self) -> PathBuf {
        self.folder().join("wall_clock")
    }

    /// With a configuration file of this text.
    pub fn with_file(self, text: &str) -> Self {
        fs::write(self.config_file(), text).expect("the folder is ours");
        self
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The SQLite file.
    pub fn database(&self) -> PathBuf {
        self.folder().join("carillon.db")
    }

    /// The configuration file, if one was written.
    pub fn config_file(&self) -> PathBuf {
        self.folder().join("carillon.toml")
    }

    /// What the node said so far, over all its starts.
    pub fn output(&self) -> String {
        fs::read_to_string(self.output_file()).unwrap_or_default()
    }

    /// A command of the binary in this home, with its own settings alone.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_carillon"));
        let inherited = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        for name in inherited.filter(|name| name.starts_with("CARILLON_")) {
            command.env_remove(name);
        }
        // Traces fill the log of a failing test, and where it panicked is said without them.
        command
            .env("RUST_BACKTRACE", "0")
            .args(arguments)
            .current_dir(self.folder())
            .envs(&self.settings)
            .stdin(Stdio::null());
        if self.config_file().exists() {
            command.arg("--config").arg(self.config_file());
        }
        command
    }

    /// Starts the node without waiting for it.
    pub fn launch(self) -> Node {
        let process = Guarded::spawn(&mut self.serving());
        Node { home: self, process }
    }

    /// Starts the node and waits until it is ready.
    pub async fn start(self) -> Node {
        let mut node = self.launch();
        node.ready().await;
        node
    }

    fn serving(&self) -> Command {
        let log = self.open_output();
        let mut command = self.wrapped(self.command(&["serve"]));
        command
            .stdout(log.try_clone().expect("a file handle can be cloned"))
            .stderr(log);
        command
    }

    fn wrapped(&self, command: Command) -> Command {
        let Some((program, arguments)) = self.wrapper.split_first() else {
            return command;
        };
        let mut wrapped = Command::new(program);
        wrapped
            .args(arguments)
            .arg(command.get_program())
            .args(command.get_args())
            .current_dir(self.folder())
            .stdin(Stdio::null());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => wrapped.env(name, value),
                None => wrapped.env_remove(name),
            };
        }
        wrapped
    }

    fn output_file(&self) -> PathBuf {
        self.folder().join("output.log")
    }

    fn open_output(&self) -> File {
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.output_file())
            .expect("the folder is ours")
    }
}

/// A node that runs, or did.
#[derive(Debug)]
pub struct Node {
    /// What it keeps when it dies.
    pub home: Home,
    process: Guarded,
}

impl Node {
    /// Waits until it says that it is ready.
    pub async fn ready(&mut self) {
        let url = self.url("/readyz");
        let process = &mut self.process;
        // A node that is still migrating takes connections and does not answer them.
        let client = client_builder().timeout(Duration::from_secs(1));
        let client = client.build().expect("a client needs nothing");
        // One answer of two kinds, so that a node that ended is not waited for.
        let ended = eventually("the node to be ready", async || {
            if let Some(status) = process.child.try_wait().expect("a child can be asked") {
                return Some(Some(status));
            }
            let answer = client.get(&url).send().await.ok()?;
            answer.status().is_success().then_some(None)
        })
        .await;
        assert!(ended.is_none(), "the node ended before it was ready: {ended:?}");
    }

    /// The address of a path of its API.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.home.port)
    }

    /// Sets its wall clock this far ahead of the machine's; negative: behind. The file keeps its length, since the node has it
    /// in its memory.
    pub fn set_wall_clock(&self, ahead: TimeDelta) {
        let file = OpenOptions::new().write(true).open(self.home.wall_clock());
        file.and_then(|mut file| file.write_all(&ahead.num_milliseconds().to_ne_bytes()))
            .expect("the folder is ours");
    }

    /// Kills it as a power cut would.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again in the same home and waits until it is ready. What ran before must be gone.
    pub async fn start_again(&mut self) {
        self.launch_again();
        self.ready().await;
    }

    /// Starts it again in the same home.
    pub fn launch_again(&mut self) {
        self.process = Guarded::spawn(&mut self.home.serving());
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.process.child.id()
    }

    /// Whether its process is still there.
    pub fn runs(&mut self) -> bool {
        let ended = self.process.child.try_wait();
        ended.expect("a child can be asked").is_none()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process()).expect("process ids are small");
        let pid = Pid::from_raw(id).expect("a child's id is not zero");
        rustix::process::kill_process(pid, signal).expect("a child can be signalled");
    }

    /// Asks it to stop, and waits for its end.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.ended().await
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> ExitStatus {
        let process = &mut self.process;
        eventually("the node to end", async || {
            process.child.try_wait().expect("a child can be asked")
        })
        .await
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- what the node said:\n{}---", self.home.output());
        }
    }
}
