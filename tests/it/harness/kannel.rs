//! Kannel with its `fakesmsc`, of Debian's packages `kannel` and `kannel-extras`: a real gateway, and the telephone at its end.

use std::fs;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;

use tempfile::TempDir;

use crate::harness::Guarded;
use crate::harness::eventually;
use crate::harness::free_port;
use crate::harness::listens;
use crate::harness::program;

/// The user that may send.
pub const USER: &str = "carillon";

/// Their password.
pub const PASSWORD: &str = "bell & rope";

/// A running gateway: the processes that it is made of, and a telephone that takes everything.
#[derive(Debug)]
pub struct Kannel {
    /// Where messages are put to, on loopback.
    pub port: u16,
    folder: TempDir,
    // Dropped in this order.
    _telephone: Guarded,
    _smsbox: Guarded,
    _bearerbox: Guarded,
}

impl Kannel {
    /// Starts it and waits until a message would arrive.
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let [admin, boxes, smsc, port] = [(); 4].map(|()| free_port());
        let config = format!(
            "group = core\nadmin-port = {admin}\nadmin-interface = 127.0.0.1\nadmin-password = x\nsmsbox-port = {boxes}\n\
             smsbox-interface = 127.0.0.1\nbox-allow-ip = 127.0.0.1\nstore-type = file\nstore-location = store\n\n\
             group = smsc\nsmsc = fake\nsmsc-id = fake\nport = {smsc}\nconnect-allow-ip = 127.0.0.1\n\n\
             group = smsbox\nbearerbox-host = 127.0.0.1\nsendsms-port = {port}\nsendsms-interface = 127.0.0.1\n\n\
             group = sendsms-user\nusername = {USER}\npassword = \"{PASSWORD}\"\nmax-messages = 3\nconcatenation = true\n\n\
             group = sms-service\nkeyword = default\ntext = x\nmax-messages = 0\n"
        );
        fs::write(folder.path().join("kannel.conf"), config).expect("the folder is ours");
        let bearerbox = run(
            folder.path(),
            &program("bearerbox", "kannel"),
            &["-v", "1", "kannel.conf"],
        );
        for (what, port) in [("boxes", boxes), ("the SMSC", smsc)] {
            eventually(&format!("bearerbox to listen for {what}"), async || {
                listens(port).await
            })
            .await;
        }
        let smsbox = run(
            folder.path(),
            &program("smsbox", "kannel"),
            &["-v", "1", "kannel.conf"],
        );
        eventually("smsbox to listen", async || listens(port).await).await;
        let fakesmsc = Path::new("/usr/lib/kannel/test/fakesmsc");
        assert!(
            fakesmsc.exists(),
            "`fakesmsc` is missing: apt-get install kannel-extras"
        );
        let smsc = smsc.to_string();
        let unsent = ["-H", "127.0.0.1", "-r", &smsc, "-i", "1", "-m", "0", "1 2 text x"];
        let telephone = run(folder.path(), fakesmsc, &unsent);
        let kannel = Self {
            port,
            folder,
            _telephone: telephone,
            _smsbox: smsbox,
            _bearerbox: bearerbox,
        };
        let client = crate::harness::client::client();
        let status = format!("http://127.0.0.1:{admin}/status.txt");
        eventually("the telephone to be reached", async || {
            let told = client.get(&status).send().await.ok()?.text().await.ok()?;
            told.contains("(online").then_some(())
        })
        .await;
        kannel
    }

    /// Waits until so many messages arrived, and returns them as `fakesmsc` writes them: sender, receiver, kind, text.
    pub async fn messages(&self, count: usize) -> Vec<String> {
        let what = format!("{count} text messages");
        eventually(&what, async || {
            Some(self.arrived()).filter(|messages| messages.len() >= count)
        })
        .await
    }

    /// What has arrived so far.
    pub fn arrived(&self) -> Vec<String> {
        let log = fs::read(self.folder.path().join("fakesmsc.log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let messages = log
            .lines()
            .filter_map(|line| line.split_once("Got message ")?.1.split_once(": <"));
        messages
            .map(|(_, message)| message.trim_end_matches('>').to_owned())
            .collect()
    }
}

fn run(folder: &Path, program: &Path, arguments: &[&str]) -> Guarded {
    let name = program
        .file_name()
        .expect("a program has a name")
        .to_string_lossy();
    let log = File::create(folder.join(format!("{name}.log"))).expect("the folder is ours");
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a file handle can be cloned"))
        .stderr(log);
    Guarded::spawn(&mut command)
}
