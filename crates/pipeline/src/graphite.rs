//! A listener for what Spark's Graphite sink sends: each process of an application connects, writes lines of text and hangs up.

use latscope_series::{SparkExecutorNow, SparkMetrics, SparkSample};
use std::io::{self, BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Longest line, bytes.
const LINE_BYTES: u64 = 4096;
/// Most connections at a time.
const CONNECTIONS: usize = 512;
/// A connection that is silent for so long is closed.
const SILENCE: Duration = Duration::from_secs(120);

/// Listens until the process ends.
pub struct Graphite {
    address: SocketAddr,
    metrics: Arc<Mutex<SparkMetrics>>,
}

impl Graphite {
    /// Listens at an address.
    ///
    /// # Errors
    /// When it is taken, or is not of this machine.
    pub fn listen(address: SocketAddr) -> io::Result<Graphite> {
        let listener = TcpListener::bind(address)?;
        let (address, metrics) = (listener.local_addr()?, Arc::<Mutex<SparkMetrics>>::default());
        let (taken, connections) = (Arc::clone(&metrics), Arc::new(AtomicUsize::new(0)));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    thread::sleep(Duration::from_millis(50));
                    continue;
                };
                // Who is turned away connects again with the next report.
                if connections.fetch_add(1, Ordering::Relaxed) < CONNECTIONS {
                    let (metrics, connections) = (Arc::clone(&taken), Arc::clone(&connections));
                    thread::spawn(move || {
                        let _ = read(&stream, &metrics);
                        connections.fetch_sub(1, Ordering::Relaxed);
                    });
                } else {
                    connections.fetch_sub(1, Ordering::Relaxed);
                }
            }
        });
        Ok(Graphite { address, metrics })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The executors that reported since the last call.
    pub fn take(&self) -> Vec<SparkExecutorNow> {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Reads a connection to its end; lines that are too long or no metrics are passed over.
fn read(stream: &TcpStream, metrics: &Mutex<SparkMetrics>) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE))?;
    let (mut reader, mut line) = (BufReader::new(stream), Vec::new());
    let mut is_rest = false;
    loop {
        line.clear();
        if reader.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let is_whole = line.last() == Some(&b'\n');
        if is_whole
            && !is_rest
            && let Some(sample) = SparkSample::parse(&line)
        {
            metrics.lock().unwrap_or_else(PoisonError::into_inner).add(&sample);
        }
        is_rest = !is_whole;
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
    }
}
