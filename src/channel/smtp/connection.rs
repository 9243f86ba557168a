//! One connection: how it comes to be, and one transaction over it.

use std::io;
use std::time::Duration;

use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::authentication::DEFAULT_MECHANISMS;
use lettre::transport::smtp::authentication::Mechanism;
use lettre::transport::smtp::commands::Auth;
use lettre::transport::smtp::commands::Data;
use lettre::transport::smtp::commands::Ehlo;
use lettre::transport::smtp::commands::Mail;
use lettre::transport::smtp::commands::Rcpt;
use lettre::transport::smtp::commands::Rset;
use lettre::transport::smtp::commands::Starttls;
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::extension::Extension;
use lettre::transport::smtp::extension::ServerInfo;
use lettre::transport::smtp::response::Response;
use secrecy::ExposeSecret;
use tokio::net::TcpStream;

use crate::channel::smtp::Config;
use crate::channel::smtp::Letter;
use crate::channel::smtp::Login;
use crate::channel::smtp::Tls;
use crate::channel::smtp::dialogue::Dialogue;
use crate::channel::smtp::dialogue::Stream;
use crate::channel::smtp::stage::Cause;
use crate::channel::smtp::stage::Failure;
use crate::channel::smtp::stage::Stage;
use crate::channel::smtp::stage::Steps;
use crate::channel::smtp::tls::Encryption;

/// An open connection, greeted and authenticated.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) dialogue: Dialogue,
    /// Transactions it has served.
    pub(super) transactions: u32,
    /// When its last transaction ended, on the boot-time clock.
    pub(super) used_at: Duration,
    /// Whether its last transaction was broken off, so that RSET must come before the next.
    pub(super) in_transaction: bool,
    /// Whether the relay takes several commands at once (RFC 2920).
    pub(super) pipelines: bool,
    /// Whether the relay waits for something that it will not get: no other transaction can follow.
    pub(super) is_out_of_step: bool,
}

impl Connection {
    /// Connects, encrypts, greets and authenticates as the configuration says.
    pub(super) async fn open(
        config: &Config,
        encryption: Option<&Encryption>,
        steps: &Steps<'_>,
    ) -> Result<Self, Failure> {
        let address = (config.host.as_str(), config.port);
        let tcp = steps.run(Stage::Connect, TcpStream::connect(address)).await?;
        // Without this, Nagle's algorithm and delayed acknowledgements together cost 40 ms a message.
        steps.run(Stage::Connect, async { tcp.set_nodelay(true) }).await?;
        let mut stream: Box<dyn Stream> = Box::new(tcp);
        if config.tls == Tls::Implicit {
            stream = handshake(stream, encryption, steps).await?;
        }
        let mut dialogue = Dialogue::over(stream);
        steps.reply(Stage::Greeting, 2, dialogue.reply()).await?;
        let (mut server, mut pipelines) = hello(&mut dialogue, config, steps).await?;
        if config.tls == Tls::Starttls {
            dialogue = upgrade(dialogue, &server, encryption, steps).await?;
            // What was said in the clear counts no longer (RFC 3207 section 4.2).
            (server, pipelines) = hello(&mut dialogue, config, steps).await?;
        }
        if let Some(login) = &config.login {
            authenticate(&mut dialogue, &server, login, steps).await?;
        }
        Ok(Self {
            dialogue,
            transactions: 0,
            used_at: steps.clock.elapsed(),
            in_transaction: false,
            pipelines,
            is_out_of_step: false,
        })
    }

    /// Clears what the last transaction left, and learns whether the relay is still there.
    pub(super) async fn reset(&mut self, steps: &Steps<'_>) -> Result<(), Failure> {
        steps.reply(Stage::Probe, 2, self.dialogue.command(Rset)).await?;
        self.in_transaction = false;
        Ok(())
    }

    /// Opens a transaction, until the relay is ready for the body.
    pub(super) async fn begin(&mut self, steps: &Steps<'_>, letter: &Letter) -> Result<(), Failure> {
        let mail = Mail::new(letter.sender.clone(), vec![]);
        let recipient = Rcpt::new(letter.to.clone(), vec![]);
        if self.pipelines {
            let commands = format!("{mail}{recipient}{Data}");
            return self.begin_at_once(steps, &commands).await;
        }
        let dialogue = &mut self.dialogue;
        steps.reply(Stage::Mail, 2, dialogue.command(mail)).await?;
        steps
            .reply(Stage::Recipient, 2, dialogue.command(recipient))
            .await?;
        steps.reply(Stage::Data, 3, dialogue.command(Data)).await?;
        Ok(())
    }

    /// Says everything in one breath, which saves two journeys to the relay and back, and reads all three replies: the
    /// first that is no tells the stage.
    async fn begin_at_once(&mut self, steps: &Steps<'_>, commands: &str) -> Result<(), Failure> {
        steps
            .run(Stage::Mail, self.dialogue.say(commands.as_bytes()))
            .await?;
        let mut refusal = None;
        for (stage, wanted) in [(Stage::Mail, 2), (Stage::Recipient, 2), (Stage::Data, 3)] {
            let mut reply = steps.reply(stage, wanted, self.dialogue.reply()).await;
            if let (Stage::Mail, Err(failure)) = (stage, &mut reply)
                && matches!(failure.cause, Cause::TimedOut)
            {
                // A relay may keep its reply until it has one for the recipient, too, and it is that one that takes long.
                failure.stage = Stage::Recipient;
            }
            match (reply, &refusal) {
                (Ok(_), None) => {}
                // A relay that would take a body for nobody gets none (RFC 2920 section 3.1): the connection ends.
                (Ok(_), Some(_)) => self.is_out_of_step = stage == Stage::Data,
                (Err(failure), None) if failure.leaves_dialogue_in_step() => refusal = Some(failure),
                (Err(failure), None) => return Err(failure),
                (Err(failure), Some(_)) if failure.leaves_dialogue_in_step() => {}
                (Err(_), Some(_)) => {
                    self.is_out_of_step = true;
                    break;
                }
            }
        }
        refusal.map_or(Ok(()), Err)
    }

    /// Carries the transaction through; the reply is that to the final dot.
    pub(super) async fn finish(&mut self, steps: &Steps<'_>, letter: &Letter) -> Result<Response, Failure> {
        let dialogue = &mut self.dialogue;
        steps
            .run(Stage::Body, dialogue.body(letter.raw.as_bytes()))
            .await?;
        steps.reply(Stage::Accept, 2, dialogue.end_of_data()).await
    }
}

/// What the relay offers, and whether it takes several commands at once.
async fn hello(
    dialogue: &mut Dialogue,
    config: &Config,
    steps: &Steps<'_>,
) -> Result<(ServerInfo, bool), Failure> {
    let name = ClientId::Domain(config.hello_name.clone());
    let reply = steps
        .reply(Stage::Hello, 2, dialogue.command(Ehlo::new(name)))
        .await?;
    let pipelines = reply
        .message()
        .skip(1)
        .any(|line| line.trim().eq_ignore_ascii_case("PIPELINING"));
    match ServerInfo::from_response(&reply) {
        Ok(server) => Ok((server, pipelines)),
        Err(_) => Err(Failure {
            stage: Stage::Hello,
            cause: Cause::Unexpected(reply),
        }),
    }
}

async fn upgrade(
    mut dialogue: Dialogue,
    server: &ServerInfo,
    encryption: Option<&Encryption>,
    steps: &Steps<'_>,
) -> Result<Dialogue, Failure> {
    if !server.supports_feature(Extension::StartTls) {
        return Err(missing(Stage::Tls, "STARTTLS"));
    }
    steps.reply(Stage::Tls, 2, dialogue.command(Starttls)).await?;
    let stream = steps.run(Stage::Tls, async { dialogue.into_stream() }).await?;
    Ok(Dialogue::over(handshake(stream, encryption, steps).await?))
}

async fn handshake(
    stream: Box<dyn Stream>,
    encryption: Option<&Encryption>,
    steps: &Steps<'_>,
) -> Result<Box<dyn Stream>, Failure> {
    let encryption = encryption.expect("the pool makes one wherever TLS is configured");
    let connecting = encryption.connector.connect(encryption.name.clone(), stream);
    let encrypted = steps.run(Stage::Tls, connecting).await?;
    Ok(Box::new(encrypted))
}

async fn authenticate(
    dialogue: &mut Dialogue,
    server: &ServerInfo,
    login: &Login,
    steps: &Steps<'_>,
) -> Result<(), Failure> {
    let Some(mechanism) = server.get_auth_mechanism(DEFAULT_MECHANISMS) else {
        return Err(missing(Stage::Auth, "AUTH PLAIN or AUTH LOGIN"));
    };
    let password = login.password.expose_secret().to_owned();
    let credentials = Credentials::new(login.username.clone(), password);
    let exchange = exchange(dialogue, mechanism, &credentials);
    steps.reply(Stage::Auth, 2, exchange).await?;
    Ok(())
}

/// LOGIN asks for the user name, then for the password (two challenges); PLAIN asks for nothing.
const MAX_CHALLENGES: usize = 2;

async fn exchange(
    dialogue: &mut Dialogue,
    mechanism: Mechanism,
    credentials: &Credentials,
) -> io::Result<Response> {
    let unfit = |_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the relay sent a strange AUTH challenge",
        )
    };
    let opening = Auth::new(mechanism, credentials.clone(), None).map_err(unfit)?;
    let mut reply = dialogue.command(opening).await?;
    for _ in 0..MAX_CHALLENGES {
        if !reply.has_code(334) {
            break;
        }
        let answer = Auth::new_from_response(mechanism, credentials.clone(), &reply).map_err(unfit)?;
        reply = dialogue.command(answer).await?;
    }
    Ok(reply)
}

fn missing(stage: Stage, what: &'static str) -> Failure {
    Failure {
        stage,
        cause: Cause::Missing(what),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::channel::Deadline;
    use crate::channel::smtp::Timeouts;
    use crate::clock::Clock;
    use crate::clock::ManualClock;

    fn connection(clock: &ManualClock, near: tokio::io::DuplexStream, pipelines: bool) -> Connection {
        Connection {
            dialogue: Dialogue::over(Box::new(near)),
            transactions: 0,
            used_at: clock.elapsed(),
            in_transaction: false,
            pipelines,
            is_out_of_step: false,
        }
    }

    fn letter(raw: String) -> Letter {
        Letter {
            owner: 1,
            sender: None,
            to: "jo@example.org".parse().unwrap(),
            raw,
        }
    }

    /// A relay may keep its reply to MAIL until it has one for the recipient; where they come one by one, it has none to keep.
    #[tokio::test]
    async fn a_reply_that_is_kept_back_is_one_for_the_recipient() {
        for (pipelines, expected) in [(true, Stage::Recipient), (false, Stage::Mail)] {
            let clock = ManualClock::at("2026-12-01T08:15:00Z".parse().unwrap());
            let (near, _far) = tokio::io::duplex(1_024);
            let mut connection = connection(&clock, near, pipelines);
            let timeouts = Timeouts {
                mail: Duration::from_millis(20),
                ..Timeouts::default()
            };
            let deadline = Deadline(clock.elapsed() + Duration::from_hours(1));
            let steps = Steps::new(&clock, &timeouts, deadline);
            let failure = connection
                .begin(&steps, &letter(String::new()))
                .await
                .unwrap_err();
            assert!(matches!(failure.cause, Cause::TimedOut), "{failure:?}");
            assert_eq!(failure.stage, expected);
        }
    }

    /// The stream holds less than the body, so that the relay can let time pass while the body is being written.
    #[tokio::test]
    async fn the_final_dot_is_not_written_where_its_reply_would_be_cut_off() {
        let clock = ManualClock::at("2026-12-01T08:15:00Z".parse().unwrap());
        let (near, mut far) = tokio::io::duplex(64);
        let mut connection = connection(&clock, near, true);
        let letter = letter("line\r\n".repeat(100));
        let timeouts = Timeouts::default();
        let deadline = Deadline(clock.elapsed() + Duration::from_mins(1));
        let steps = Steps::new(&clock, &timeouts, deadline);
        let relay = async {
            let mut read = vec![0; "MAIL FROM:<>\r\nRCPT TO:<jo@example.org>\r\nDATA\r\n".len()];
            far.read_exact(&mut read).await.unwrap();
            far.write_all(b"250 ok\r\n250 ok\r\n354 go on\r\n").await.unwrap();
            far.read_exact(&mut read[..4]).await.unwrap();
            clock.advance(Duration::from_secs(45));
            let mut rest = Vec::new();
            far.read_to_end(&mut rest).await.unwrap();
            rest
        };
        let sending = async {
            connection.begin(&steps, &letter).await.unwrap();
            let failure = connection.finish(&steps, &letter).await.unwrap_err();
            drop(connection);
            failure
        };
        let (failure, rest) = tokio::join!(sending, relay);
        assert!(matches!(
            failure,
            Failure {
                stage: Stage::Accept,
                cause: Cause::OutOfTime
            }
        ));
        assert!(rest.ends_with(b"line\r\n"));
    }
}
