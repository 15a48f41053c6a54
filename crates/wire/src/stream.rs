//! A connection, plain or encrypted, that one thread may read while another writes.

use crate::certificate::Names;
use crate::credentials::explain;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long the other side may take nothing.
pub const SILENCE: Duration = Duration::from_secs(15);
/// How long last words wait for the other side to read them.
const LINGER: Duration = Duration::from_secs(1);
/// How much is read from the socket at a time.
const PACKET: usize = 16 << 10;

/// A connection.
pub struct Stream {
    socket: Arc<Socket>,
    tls: Option<Tls>,
    /// When reading gives up, however many bytes came before; else every wait is bounded by itself.
    deadline: Mutex<Option<Instant>>,
}

/// Ends a connection that another thread reads or writes.
pub(crate) struct Ender(Weak<Socket>);

impl Ender {
    /// Whether the connection is still there.
    pub fn is_open(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Ends both directions, also for who waits for the other side.
    pub fn end(&self) {
        if let Some(socket) = self.0.upgrade() {
            socket.shutdown(Shutdown::Both);
        }
    }
}

/// What bytes go through.
pub(crate) enum Socket {
    /// A socket file.
    Unix(UnixStream),
    /// A port.
    Tcp(TcpStream),
}

struct Tls {
    connection: Mutex<Connection>,
    /// What was received and not decrypted yet.
    received: Mutex<Vec<u8>>,
    /// Whoever holds it sends: packets keep their order.
    sending: Mutex<()>,
}

impl Stream {
    /// Of a socket, whose waits are bounded.
    pub(crate) fn new(socket: Socket) -> io::Result<Stream> {
        match &socket {
            Socket::Unix(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_write_timeout(Some(SILENCE))?;
            }
            Socket::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(SILENCE))?;
            }
        }
        let stream = Stream { socket: Arc::new(socket), tls: None, deadline: Mutex::new(None) };
        stream.wait_at_most(SILENCE)?;
        Ok(stream)
    }

    /// Encrypts as the side that connects; the other must be this host.
    pub(crate) fn encrypt(self, config: Arc<ClientConfig>, host: &str) -> io::Result<Stream> {
        let name = ServerName::try_from(host.to_string()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        self.shake_hands(connection.into())
    }

    /// Encrypts as the side that was connected to.
    pub(crate) fn answer_encrypted(self, config: Arc<ServerConfig>) -> io::Result<Stream> {
        let connection = ServerConnection::new(config).map_err(io::Error::other)?;
        self.shake_hands(connection.into())
    }

    fn shake_hands(mut self, connection: Connection) -> io::Result<Stream> {
        let (received, sending) = (Mutex::default(), Mutex::default());
        let tls = Tls { connection: Mutex::new(connection), received, sending };
        while lock(&tls.connection).is_handshaking() {
            self.send_pending(&tls)?;
            if !lock(&tls.connection).is_handshaking() {
                break;
            }
            // The other side has to read why it is not let in.
            if !self.receive_encrypted(&tls).inspect_err(|_| self.linger())? {
                return Err(io::Error::other("it ended the connection in the handshake"));
            }
        }
        self.send_pending(&tls)?;
        self.tls = Some(tls);
        Ok(self)
    }

    /// What ends the connection from elsewhere.
    pub(crate) fn ender(&self) -> Ender {
        Ender(Arc::downgrade(&self.socket))
    }

    /// The names in the other side's certificate.
    pub(crate) fn peer_names(&self) -> Option<Names> {
        let connection = lock(&self.tls.as_ref()?.connection);
        connection.peer_certificates()?.first().map(|certificate| Names::of_certificate(certificate))
    }

    /// Lets each wait of reading last no longer.
    pub(crate) fn wait_at_most(&self, time: Duration) -> io::Result<()> {
        *lock(&self.deadline) = None;
        self.socket.set_read_timeout(time)
    }

    /// Lets reading last no longer than until then, all in all.
    pub(crate) fn wait_until(&self, deadline: Instant) {
        *lock(&self.deadline) = Some(deadline);
    }

    /// Ends sending, and lets the other side read what was sent: a socket that is closed with unread bytes resets the
    /// connection, and what was sent last is lost.
    pub(crate) fn linger(&self) {
        self.socket.shutdown(Shutdown::Write);
        let deadline = Instant::now() + LINGER;
        self.wait_until(deadline);
        let mut rest = [0; 4096];
        while Instant::now() < deadline && matches!(self.receive(&mut rest), Ok(1..)) {}
    }

    /// Ends both directions.
    pub(crate) fn close(&self) {
        if let Some(tls) = &self.tls {
            lock(&tls.connection).send_close_notify();
            let _ = self.send_pending(tls);
        }
        self.socket.shutdown(Shutdown::Both);
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let deadline = *lock(&self.deadline);
        if let Some(deadline) = deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.socket.set_read_timeout(left)?;
        }
        self.socket.read(buffer)
    }

    /// Decrypts what comes next; false at the end.
    fn receive_encrypted(&self, tls: &Tls) -> io::Result<bool> {
        let mut received = lock(&tls.received);
        if received.is_empty() {
            let mut packet = vec![0; PACKET];
            let count = self.receive(&mut packet)?;
            packet.truncate(count);
            *received = packet;
        }
        let is_end = received.is_empty();
        let mut connection = lock(&tls.connection);
        let taken = connection.read_tls(&mut &received[..])?;
        received.drain(..taken);
        let processed = connection.process_new_packets();
        let has_more = connection.wants_write();
        drop(connection);
        if has_more {
            let _ = self.send_pending(tls);
        }
        processed.map_err(|error| io::Error::other(explain(&error)))?;
        Ok(!is_end)
    }

    fn read_encrypted(&self, tls: &Tls, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match lock(&tls.connection).reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Whoever ends without saying so was cut off, which records notice.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
            if !self.receive_encrypted(tls)? {
                return Ok(0);
            }
        }
    }

    fn write_encrypted(&self, tls: &Tls, bytes: &[u8]) -> io::Result<usize> {
        let sending = lock(&tls.sending);
        let count = lock(&tls.connection).writer().write(bytes)?;
        self.send(tls, sending)?;
        Ok(count)
    }

    fn send_pending(&self, tls: &Tls) -> io::Result<()> {
        self.send(tls, lock(&tls.sending))
    }

    fn send(&self, tls: &Tls, _sending: MutexGuard<'_, ()>) -> io::Result<()> {
        let mut packet = Vec::new();
        let mut connection = lock(&tls.connection);
        while connection.wants_write() {
            connection.write_tls(&mut packet)?;
        }
        // Reading goes on while this waits.
        drop(connection);
        self.socket.write_all(&packet)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Socket {
    fn set_read_timeout(&self, time: Duration) -> io::Result<()> {
        match self {
            Socket::Unix(stream) => stream.set_read_timeout(Some(time)),
            Socket::Tcp(stream) => stream.set_read_timeout(Some(time)),
        }
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => (&*stream).read(buffer),
            Socket::Tcp(stream) => (&*stream).read(buffer),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => (&*stream).write(bytes),
            Socket::Tcp(stream) => (&*stream).write(bytes),
        }
    }

    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Socket::Unix(stream) => (&*stream).write_all(bytes),
            Socket::Tcp(stream) => (&*stream).write_all(bytes),
        }
    }

    fn shutdown(&self, directions: Shutdown) {
        let _ = match self {
            Socket::Unix(stream) => stream.shutdown(directions),
            Socket::Tcp(stream) => stream.shutdown(directions),
        };
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.tls {
            Some(tls) => self.read_encrypted(tls, buffer),
            None => self.receive(buffer),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.tls {
            Some(tls) => self.write_encrypted(tls, bytes),
            None => self.socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Why a connection does not work, for a message.
pub(crate) fn explain_failure(error: &io::Error) -> String {
    match error.kind() {
        _ if is_timeout(error) => "it does not answer in time".into(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "it ended the connection; one side may use TLS and the other not, or it has no room for more".into()
        }
        _ => error.to_string(),
    }
}

/// Whether an error of a connection means that nothing came in time.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
