//! A private Postfix: the relay that most operators have. It listens on loopback, hands everything on to a sink, and can
//! reach nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;

use tempfile::TempDir;

use crate::harness::Guarded;
use crate::harness::eventually;
use crate::harness::free_port;
use crate::harness::listens;
use crate::harness::program;

/// The address that this Postfix refuses for good.
pub const GONE: &str = "gone@example.org";

/// The transport to a sink on that loopback port.
pub fn next(port: u16) -> String {
    format!("smtp:[127.0.0.1]:{port}")
}

/// A running Postfix.
#[derive(Debug)]
pub struct Postfix {
    /// Where it listens on loopback.
    pub port: u16,
    _master: Guarded,
    _folder: TempDir,
}

impl Postfix {
    /// Starts one that hands everything on by this transport: [`next`], or `discard:`, which throws it away.
    pub async fn start(transport: &str) -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "Postfix changes users, so its tests need root: run them as root, or leave them out (tests/run.sh does)"
        );
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let port = free_port();
        let etc = lay_out(folder.path(), port, transport);
        let checked = Command::new(program("postfix", "postfix"))
            .arg("-c")
            .arg(&etc)
            .arg("check")
            .status()
            .expect("postfix can be run");
        assert!(checked.success(), "Postfix does not like its configuration");
        // `-d` keeps the master a child of ours; `postfix start` would detach it.
        let mut command = Command::new(program("master", "postfix"));
        command
            .arg("-c")
            .arg(&etc)
            .arg("-d")
            .stdin(Stdio::null())
            .stdout(std::io::stderr());
        let master = Guarded::spawn(&mut command);
        eventually("Postfix to listen", async || listens(port).await).await;
        Self {
            port,
            _master: master,
            _folder: folder,
        }
    }
}

/// Writes a configuration below `root` and returns its folder.
fn lay_out(root: &Path, port: u16, transport: &str) -> std::path::PathBuf {
    let readable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(root, readable).expect("the folder is ours");
    for name in ["etc", "queue", "data"] {
        fs::create_dir(root.join(name)).expect("the folder is ours");
    }
    let owned = Command::new("chown")
        .arg("postfix")
        .arg(root.join("data"))
        .status();
    assert!(
        owned.is_ok_and(|status| status.success()),
        "the user postfix is missing"
    );
    let etc = root.join("etc");
    fs::write(etc.join("main.cf"), main_cf(root, transport)).expect("the folder is ours");
    fs::write(etc.join("master.cf"), master_cf(port)).expect("the folder is ours");
    etc
}

fn main_cf(root: &Path, transport: &str) -> String {
    let root = root.display();
    let daemons = program("master", "postfix");
    let daemons = daemons.parent().expect("a program lies in a folder").display();
    format!(
        "compatibility_level = 3.6\n\
         queue_directory = {root}/queue\n\
         data_directory = {root}/data\n\
         daemon_directory = {daemons}\n\
         mail_owner = postfix\n\
         myhostname = relay.test\n\
         mydestination =\n\
         local_recipient_maps =\n\
         alias_maps =\n\
         inet_interfaces = 127.0.0.1\n\
         inet_protocols = ipv4\n\
         mynetworks = 127.0.0.0/8\n\
         disable_dns_lookups = yes\n\
         smtp_host_lookup = native\n\
         smtpd_peername_lookup = no\n\
         default_transport = {transport}\n\
         relay_transport = {transport}\n\
         smtpd_recipient_restrictions =\n    \
             check_recipient_access inline:{{ {{ {GONE} = 550 5.1.1 no such user }} }},\n    \
             permit_mynetworks, reject\n\
         maillog_file = /dev/stdout\n"
    )
}

fn master_cf(port: u16) -> String {
    let services = [
        "postlog unix-dgram n - n - 1 postlogd",
        "cleanup unix n - n - 0 cleanup",
        "qmgr unix n - n 300 1 qmgr",
        "rewrite unix - - n - - trivial-rewrite",
        "bounce unix - - n - 0 bounce",
        "defer unix - - n - 0 bounce",
        "trace unix - - n - 0 bounce",
        "smtp unix - - n - - smtp",
        "error unix - - n - - error",
        "retry unix - - n - - error",
        "proxymap unix - - n - - proxymap",
        "anvil unix - - n - 1 anvil",
        "scache unix - - n - 1 scache",
        "discard unix - - n - - discard",
    ];
    format!("127.0.0.1:{port} inet n - n - - smtpd\n{}\n", services.join("\n"))
}
