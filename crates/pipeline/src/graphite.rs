//! A listener for what Spark's Graphite sink sends: each process of an application connects, writes lines of text and hangs up.

use latscope_series::{SparkExecutorNow, SparkMetrics, SparkSample};
use std::io::{self, BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Longest line, bytes.
const LINE_BYTES: u64 = 4096;
/// Most connections at a time.
const CONNECTIONS: usize = 512;
/// What is wrong with a line of any other.
const TURNED_AWAY: &str = "comes while 512 connections are open";
/// A connection that is silent for so long is closed.
const SILENCE: Duration = Duration::from_secs(120);

/// Listens until the process ends.
pub struct Graphite {
    address: SocketAddr,
    heard: Arc<Mutex<Heard>>,
}

#[derive(Default)]
struct Heard {
    metrics: SparkMetrics,
    unusable: Unusable,
}

impl Heard {
    fn leave_out(&mut self, why: &'static str) {
        self.unusable.0 += 1;
        self.unusable.1.get_or_insert(why);
    }
}

/// How many lines cannot be used, and what is wrong with the first; a connection that is turned away is one.
pub type Unusable = (u64, Option<&'static str>);

impl Graphite {
    /// Listens at an address.
    ///
    /// # Errors
    /// When it is taken, or is not of this machine.
    pub fn listen(address: SocketAddr) -> io::Result<Graphite> {
        let listener = TcpListener::bind(address)?;
        let (address, heard) = (listener.local_addr()?, Arc::<Mutex<Heard>>::default());
        let (taken, connections) = (Arc::clone(&heard), Arc::new(AtomicUsize::new(0)));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    thread::sleep(Duration::from_millis(50));
                    continue;
                };
                // Who is turned away connects again with the next report.
                if connections.fetch_add(1, Ordering::Relaxed) < CONNECTIONS {
                    let (heard, connections) = (Arc::clone(&taken), Arc::clone(&connections));
                    thread::spawn(move || {
                        let _ = read(&stream, &heard);
                        connections.fetch_sub(1, Ordering::Relaxed);
                    });
                } else {
                    connections.fetch_sub(1, Ordering::Relaxed);
                    lock(&taken).leave_out(TURNED_AWAY);
                }
            }
        });
        Ok(Graphite { address, heard })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The executors that reported since the last call.
    pub fn take(&self) -> Vec<SparkExecutorNow> {
        lock(&self.heard).metrics.take()
    }

    /// The lines so far that cannot be used.
    pub fn unusable(&self) -> Unusable {
        lock(&self.heard).unusable
    }
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a connection to its end. Other metrics are passed over; what is no line of a metric counts.
fn read(stream: &TcpStream, heard: &Mutex<Heard>) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE))?;
    let (mut reader, mut line) = (BufReader::new(stream), Vec::new());
    let mut is_rest = false;
    loop {
        line.clear();
        if reader.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let is_whole = line.last() == Some(&b'\n');
        if !std::mem::replace(&mut is_rest, !is_whole) {
            let sample = if is_whole { SparkSample::parse(&line) } else { Err("is cut, or too long") };
            let mut heard = lock(heard);
            let used = match sample {
                Ok(sample) => sample.map_or(Ok(()), |sample| heard.metrics.add(&sample)),
                Err(why) => Err(why),
            };
            if let Err(why) = used {
                heard.leave_out(why);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn processes_report_and_hang_up() {
        let graphite = Graphite::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let send = |bytes: &[u8]| TcpStream::connect(graphite.address()).unwrap().write_all(bytes).unwrap();
        send(&[&vec![b'x'; 10_000][..], b".app.7.executor.runTime.count 1 2\n"].concat());
        send(
            b"p.app.1.executor.threadpool.activeTasks 3 100\nnothing\np.app.2.ExecutorMetrics.JVMHeapMemory 9 100\ncut",
        );
        let mut found = Vec::new();
        while found.len() < 2 {
            found.extend(graphite.take());
            thread::sleep(Duration::from_millis(5));
        }
        let names: Vec<&str> = found.iter().map(|executor| &*executor.executor).collect();
        assert_eq!(names, ["1", "2"]);
        // The long line, one without numbers, and one without an end, which comes last.
        while graphite.unusable().0 < 3 {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(matches!(graphite.unusable(), (3, Some(_))));
        let open = || TcpStream::connect(graphite.address()).unwrap();
        let more: Vec<TcpStream> = (0..=CONNECTIONS).map(|_| open()).collect();
        while graphite.unusable().0 < 4 {
            thread::sleep(Duration::from_millis(5));
        }
        drop(more);
    }
}
