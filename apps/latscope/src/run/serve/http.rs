//! HTTP of the live page: sockets, limits, headers, and a stream of server-sent events for each open page.

use super::feed::{Feed, Message};
use super::gate::{Gate, Refusal, Route};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

/// Open sockets; the next ones wait to be accepted.
const SOCKETS: usize = 64;
/// Open pages.
const CLIENTS: usize = 16;
/// Longest head of a request, bytes.
const HEAD_BYTES: usize = 8 << 10;
/// How long a client may take to send a head or a token.
const SEND_TIME: Duration = Duration::from_secs(5);
/// How long a client may take nothing before it is closed.
const TAKE_TIME: Duration = Duration::from_secs(30);
/// A comment after so long without data shows both sides that the other one is there.
const SILENCE: Duration = Duration::from_secs(10);
const TOKEN_BYTES: usize = 256;

type Body = BoxBody<Bytes, Infallible>;

/// A response that goes on for as long as there are messages.
struct Events(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.get_mut().0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// What answers requests.
pub struct Server {
    gate: Gate,
    page: Bytes,
    policy: HeaderValue,
    feed: Arc<Feed>,
    clients: Arc<Semaphore>,
}

impl Server {
    /// Serves this page under this content security policy, and what the feed has.
    pub fn new(gate: Gate, page: String, policy: HeaderValue, feed: Feed) -> Server {
        Server { gate, page: page.into(), policy, feed: Arc::new(feed), clients: Arc::new(Semaphore::new(CLIENTS)) }
    }

    /// What the pages are sent.
    pub fn feed(&self) -> Arc<Feed> {
        Arc::clone(&self.feed)
    }

    /// Accepts connections until the feed has ended and every open page was told so.
    pub async fn run(self, listener: TcpListener) {
        let server = Arc::new(self);
        let sockets = Arc::new(Semaphore::new(SOCKETS));
        loop {
            let Ok(permit) = Arc::clone(&sockets).acquire_owned().await else { return };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = server.feed.ended() => break,
            };
            match accepted {
                Ok((socket, _)) => drop(tokio::spawn(connection(Arc::clone(&server), socket, permit))),
                // Out of descriptors, most likely: others may be closed by then.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
        drop(listener);
        let _ = timeout(Duration::from_secs(1), sockets.acquire_many_owned(SOCKETS as u32)).await;
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let is_head = head.method == Method::HEAD;
        let mut response = match self.gate.admit(&head) {
            Ok(Route::Page) => page(&self.page),
            Ok(Route::Session) => self.session(body).await,
            Ok(Route::Stream { .. }) if is_head => event_stream(empty()),
            Ok(Route::Stream { since }) => self.stream(since),
            Err(refusal) => refused(refusal),
        };
        if is_head {
            *response.body_mut() = empty();
        }
        self.add_headers(&mut response);
        response
    }

    async fn session(&self, body: Incoming) -> Response<Body> {
        const BAD: Refusal = Refusal { status: StatusCode::BAD_REQUEST, sentence: "The body must be the token." };
        let Ok(Ok(sent)) = timeout(SEND_TIME, Limited::new(body, TOKEN_BYTES).collect()).await else {
            return refused(BAD);
        };
        match self.gate.session(&sent.to_bytes()).map(HeaderValue::try_from) {
            Ok(Ok(cookie)) => {
                let mut response = with_status(StatusCode::NO_CONTENT, empty());
                response.headers_mut().insert(header::SET_COOKIE, cookie);
                response
            }
            Ok(Err(_)) => refused(BAD),
            Err(refusal) => refused(refusal),
        }
    }

    fn stream(&self, since: Option<String>) -> Response<Body> {
        let Ok(permit) = Arc::clone(&self.clients).try_acquire_owned() else {
            let sentence = "Sixteen pages are open already. Close one, or open this one in a tab of the same browser.";
            return refused(Refusal { status: StatusCode::SERVICE_UNAVAILABLE, sentence });
        };
        // One message at a time: what a slow client did not take is part of the next one, and capture never waits.
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(follow(Arc::clone(&self.feed), since, sender, permit));
        event_stream(Events(receiver).boxed())
    }

    fn add_headers(&self, response: &mut Response<Body>) {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_SECURITY_POLICY, self.policy.clone());
        for (name, value) in [
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
            (header::X_FRAME_OPTIONS, "DENY"),
            (header::CACHE_CONTROL, "no-store"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
    }
}

async fn connection(server: Arc<Server>, socket: TcpStream, permit: OwnedSemaphorePermit) {
    // The kernel closes the connection when the other side has taken nothing for so long.
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&socket, TAKE_TIME.as_millis() as u32);
    let service = service_fn(move |request| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(server.answer(request).await) }
    });
    // What a client does wrong concerns only itself.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SEND_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(socket), service)
        .await;
    drop(permit);
}

/// Sends a page what it does not have yet, until it goes away, takes nothing, or the feed ends.
async fn follow(feed: Arc<Feed>, since: Option<String>, sender: mpsc::Sender<Bytes>, permit: OwnedSemaphorePermit) {
    let mut changes = feed.changes();
    let mut position = since.as_deref().and_then(|id| feed.position(id));
    loop {
        let message = feed.after(&mut position);
        let is_last = matches!(message, Some(Message { event: "bye", .. }));
        let text = match message {
            Some(message) => message.to_string(),
            None => match timeout(SILENCE, changes.changed()).await {
                Ok(_) => continue,
                Err(_) => ": still here\n\n".into(),
            },
        };
        if !matches!(timeout(TAKE_TIME, sender.send(text.into())).await, Ok(Ok(()))) || is_last {
            break;
        }
    }
    drop(permit);
}

fn page(html: &Bytes) -> Response<Body> {
    let mut response = with_status(StatusCode::OK, Full::new(html.clone()).boxed());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response
}

fn event_stream(body: Body) -> Response<Body> {
    let mut response = with_status(StatusCode::OK, body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Nothing comes after the last message.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn refused(refusal: Refusal) -> Response<Body> {
    let mut response = with_status(refusal.status, Full::new(Bytes::from(format!("{}\n", refusal.sentence))).boxed());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn with_status(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

fn empty() -> Body {
    Full::new(Bytes::new()).boxed()
}
