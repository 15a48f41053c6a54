//! Answers who scrapes or asks, and takes what others push, over HTTP/1.1, one request per connection.

use super::api::Api;
use super::exporter::Exporter;
use super::http::{Request, Response, request, respond};
use super::incoming::{Received, Receiver};
use super::live;
use super::prometheus::Encoding;
use super::protobuf::Message;
use crate::clock::now_ns;
use crate::places::{Place, Places};
use crate::stream::Stream;
use crate::{Address, Listener};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

/// How often it is looked at whether all is over.
const TURN: Duration = Duration::from_millis(50);
/// Connections at a time, those that have asked nothing yet, and those of them that follow events.
const CONNECTIONS: usize = 96;
const SILENT: usize = 48;
const FOLLOWERS: usize = 16;

/// What a hub has beside its metrics.
#[derive(Clone, Copy)]
pub struct Extras<'a> {
    /// Takes histograms of others.
    pub receiver: &'a Receiver<'a>,
    /// Answers what is asked.
    pub api: &'a Api<'a>,
}

impl Exporter {
    /// Answers `GET /metrics`, and for a hub what else is asked or pushed, until it is over.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn serve(
        &self,
        listener: &Listener,
        extras: Option<Extras>,
        is_over: &(dyn Fn() -> bool + Sync),
    ) -> io::Result<()> {
        listener.set_nonblocking()?;
        let is_port = matches!(listener.address()?, Address::Tcp(..));
        let (connections, followers, places) = (AtomicUsize::new(0), AtomicUsize::new(0), Places::new(SILENT));
        scope(|scope| {
            while !is_over() {
                match listener.accept() {
                    Ok((stream, address)) => {
                        let is_free = connections.load(Ordering::Relaxed) < CONNECTIONS;
                        let place = places.take(&address, stream.ender()).filter(|_| is_free);
                        if let Some(place) = place {
                            connections.fetch_add(1, Ordering::Relaxed);
                            let (open, followers) = (&connections, &followers);
                            scope.spawn(move || {
                                // Who does not wait for the answer needs none.
                                let _ = self.answer(&stream, place, extras, is_port, followers, is_over);
                                stream.close();
                                open.fetch_sub(1, Ordering::Relaxed);
                            });
                            continue;
                        }
                        let busy = Response::text("503 Service Unavailable", "too many connections");
                        let _ = respond(&stream, &busy, None);
                    }
                    Err(_) => sleep(TURN),
                }
            }
        });
        Ok(())
    }

    fn answer(
        &self,
        stream: &Stream,
        place: Place,
        extras: Option<Extras>,
        is_port: bool,
        followers: &AtomicUsize,
        is_over: &(dyn Fn() -> bool + Sync),
    ) -> io::Result<()> {
        let request = request(stream);
        drop(place);
        let request = match request? {
            Ok(request) => request,
            Err(status) => {
                return respond(
                    stream,
                    &Response::text(status, "the request is malformed, too long, or has a header twice"),
                    None,
                );
            }
        };
        // A page in a browser on this machine may resolve a name of its own to this address.
        let is_own = !is_port || request.is_for_address();
        let response = match (request.method.as_str(), request.path.as_str(), extras) {
            _ if !is_own => Response::text("403 Forbidden", "unknown host; use the address"),
            ("GET" | "HEAD", "/metrics", _) => {
                let encoding = Encoding::accepted(&request.accept);
                Response::new("200 OK", encoding.content_type(), self.scraped(encoding))
            }
            ("GET" | "HEAD", "/", Some(_)) => page(),
            ("GET" | "HEAD", "/healthz", _) => Response::text("200 OK", "ok"),
            ("GET", "/api/v1/live", Some(extras)) => {
                if followers.fetch_add(1, Ordering::Relaxed) < FOLLOWERS {
                    let served = live::serve(extras.api, &request, stream, is_over);
                    followers.fetch_sub(1, Ordering::Relaxed);
                    return served;
                }
                followers.fetch_sub(1, Ordering::Relaxed);
                Response::text("503 Service Unavailable", "too many readers follow events")
            }
            ("POST", "/v1/metrics" | "/api/v1/write", Some(extras)) => taken(extras.receiver, &request),
            ("POST", "/v1/metrics" | "/api/v1/write", None) => Response::text("404 Not Found", "nothing is taken here"),
            ("GET" | "HEAD", _, extras) => {
                let found = extras.and_then(|extras| extras.api.answer(&request, now_ns()));
                found.unwrap_or_else(|| Response::text("404 Not Found", "metrics are at /metrics"))
            }
            _ => Response::text("405 Method Not Allowed", "not for this path"),
        };
        respond(stream, &response, Some(&request))
    }
}

/// The page that shows the hub, in which the rest of the policy is.
fn page() -> Response {
    let headers = "Content-Security-Policy: frame-ancestors 'none'\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-cache\r\n";
    Response {
        headers: headers.into(),
        ..Response::new("200 OK", "text/html; charset=utf-8", include_str!("page.html").as_bytes().to_vec())
    }
}

/// What came of a push.
fn taken(receiver: &Receiver, request: &Request) -> Response {
    let Some(body) = request.unpacked() else {
        return Response::text("415 Unsupported Media Type", "the encoding is unknown, or the body too long");
    };
    let is_otlp = request.path == "/v1/metrics";
    let (kind, parameters) = request.content_type.split_once(';').unwrap_or((&request.content_type, ""));
    if kind.trim() != "application/x-protobuf" {
        return Response::text("415 Unsupported Media Type", "only application/x-protobuf");
    }
    let version = if parameters.contains("io.prometheus.write.v2.Request") { 2 } else { 1 };
    let received = if is_otlp { receiver.otlp(&body) } else { receiver.remote_write(&body, version) };
    match received {
        Err(malformed) => Response::text("400 Bad Request", &format!("the request is refused: {malformed}")),
        Ok(received) if is_otlp => {
            Response::new("200 OK", "application/x-protobuf", partial_success(&received).into_bytes())
        }
        Ok(received) => {
            let prefix = "X-Prometheus-Remote-Write";
            let headers = format!(
                "{prefix}-Samples-Written: 0\r\n{prefix}-Histograms-Written: {}\r\n{prefix}-Exemplars-Written: 0\r\n",
                received.taken
            );
            // What is good was taken; the protocol has this status for the rest, which is not sent again.
            let (status, body) = match received.refused.faults() {
                0 => ("204 No Content", Vec::new()),
                count => {
                    let verb = if count == 1 { "value was" } else { "values were" };
                    let faults = received.refused.only_faults();
                    ("400 Bad Request", format!("{count} {verb} not taken, the rest was; {faults}\n").into_bytes())
                }
            };
            Response { status, content_type: "text/plain", headers, body }
        }
    }
}

/// `ExportMetricsServiceResponse`; without a word when all was taken.
fn partial_success(received: &Received) -> Message {
    let mut response = Message::default();
    if !received.refused.is_empty() {
        response.message(1, |partial| {
            partial.uint(1, received.refused.count());
            partial.text(2, &received.refused.to_string());
        });
    }
    response
}

#[cfg(test)]
mod tests {
    use super::super::exporter::Settings;
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    #[test]
    fn requests_are_answered_or_refused() {
        let exporter = Exporter::new(Settings::default()).unwrap();
        let listener = Address::parse("127.0.0.1:0").unwrap().listen().unwrap();
        let Ok(Address::Tcp(host, port)) = listener.address() else { unreachable!() };
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let asked = |text: &str| {
            let mut stream = TcpStream::connect((host.as_str(), port)).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            answer
        };
        scope(|scope| {
            let over = || is_over.load(Ordering::Relaxed);
            let (exporter, listener) = (&exporter, &listener);
            scope.spawn(move || exporter.serve(listener, None, &over));
            for (request, expected) in [
                ("GET /metrics?x HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n", "HTTP/1.1 200 OK"),
                ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "HTTP/1.1 403"),
                ("GET /x HTTP/1.1\r\nHost: [::1]:99\r\n\r\n", "HTTP/1.1 404"),
                ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 411"),
                ("POST /v1/metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 404"),
                ("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n", "HTTP/1.1 413"),
                ("PUT /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 405"),
                ("hello\r\n\r\n", "HTTP/1.1 400"),
            ] {
                let answer = asked(request);
                assert!(answer.starts_with(expected), "{request}: {answer}");
            }
            assert!(asked(&format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(20_000))).starts_with("HTTP/1.1 4"));
            assert!(asked("HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").ends_with("\r\n\r\n"));
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
