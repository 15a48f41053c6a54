//! Who may ask the live page for what. Pure: a request's head in, a route or a refusal out.

use hyper::header::{COOKIE, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use std::net::{IpAddr, SocketAddr};

/// What a request asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    /// The page, which holds no data.
    Page,
    /// To exchange the token of the address for a cookie.
    Session,
    /// The data from this message on, and then what is new.
    Stream {
        /// The last message that the page has.
        since: Option<String>,
    },
}

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub status: StatusCode,
    /// A sentence for whoever reads the response.
    pub sentence: &'static str,
}

/// The rules of one server.
pub struct Gate {
    /// What a `Host` header may be, lower case.
    hosts: Vec<String>,
    /// The secret, unless everybody on this machine may look.
    token: Option<String>,
    cookie: String,
}

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

impl Gate {
    /// For a server at this address, which is also known under these names.
    pub fn new(address: SocketAddr, names: &[String], token: Option<String>) -> Gate {
        let port = address.port();
        let with_port = |name: &str| match name.rsplit_once(':') {
            Some((_, end)) if end.parse::<u16>().is_ok() && !name.ends_with(']') => name.to_ascii_lowercase(),
            _ => format!("{}:{port}", name.to_ascii_lowercase()),
        };
        let own = match address.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let known = ["localhost", "127.0.0.1", "[::1]", &own];
        let mut hosts: Vec<String> = known.into_iter().map(|name| format!("{name}:{port}")).collect();
        hosts.extend(names.iter().map(|name| with_port(name)));
        // The cookies of a host are shared by its ports, so two servers on one machine need two names.
        Gate { hosts, token, cookie: format!("latscope-{port}") }
    }

    /// The route of a request that may be answered.
    ///
    /// # Errors
    /// What to answer instead. The `Host` is checked first: a page on the internet whose name resolves to this machine
    /// (DNS rebinding) has the right peer address and the right `Origin`, but never the right `Host`.
    pub fn admit(&self, head: &Parts) -> Result<Route, Refusal> {
        let host = one(&head.headers, &HOST).map(str::to_ascii_lowercase);
        if !host.is_some_and(|host| self.hosts.contains(&host)) {
            return refuse(421, "This server is not known under that name. Name it with --allow-host.");
        }
        if head.headers.contains_key(ORIGIN) && !self.is_own_origin(one(&head.headers, &ORIGIN)) {
            return refuse(403, "Requests from other sites are refused.");
        }
        if one(&head.headers, &SEC_FETCH_SITE) == Some("cross-site") {
            return refuse(403, "Requests from other sites are refused. Open the address that latscope serve printed.");
        }
        let is_read = matches!(head.method, Method::GET | Method::HEAD);
        match head.uri.path() {
            "/" if is_read => Ok(Route::Page),
            "/session" if head.method == Method::POST => Ok(Route::Session),
            "/stream" if is_read => {
                self.has_session(&head.headers).then_some(()).ok_or(UNAUTHORIZED)?;
                let last = one(&head.headers, &LAST_EVENT_ID).or_else(|| since(head.uri.query()?));
                Ok(Route::Stream { since: last.map(str::to_string) })
            }
            "/" | "/session" | "/stream" => refuse(405, "This server only shows what it captures."),
            // Such requests need not have a path: OPTIONS *, CONNECT host:port.
            _ if !is_read => refuse(405, "This server only shows what it captures."),
            _ => refuse(404, "There is nothing here. The page is at /."),
        }
    }

    /// The `Set-Cookie` for whoever sends the token.
    ///
    /// # Errors
    /// When this is not the token.
    pub fn session(&self, sent: &[u8]) -> Result<String, Refusal> {
        let token = self.token.as_deref().unwrap_or_default();
        if self.token.is_some() && !equal(sent, token.as_bytes()) {
            return Err(UNAUTHORIZED);
        }
        Ok(format!("{}={token}; HttpOnly; SameSite=Strict; Path=/", self.cookie))
    }

    fn has_session(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie && equal(value.as_bytes(), token.as_bytes()))
    }

    fn is_own_origin(&self, origin: Option<&str>) -> bool {
        let host = origin.and_then(|origin| origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")));
        host.is_some_and(|host| self.hosts.contains(&host.to_ascii_lowercase()))
    }
}

const UNAUTHORIZED: Refusal = Refusal {
    status: StatusCode::UNAUTHORIZED,
    sentence: "Open the address that latscope serve printed, with the part behind #.",
};

fn refuse<T>(status: u16, sentence: &'static str) -> Result<T, Refusal> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    Err(Refusal { status, sentence })
}

/// The value of a header that is there exactly once.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// The parameter `since` of a query.
fn since(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix("since="))
}

/// Compares in a time that depends on the lengths only.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn gate() -> Gate {
        let token = Some("0123456789abcdef".to_string());
        Gate::new("127.0.0.1:7000".parse().unwrap(), &["db1.example".to_string(), "proxy:443".to_string()], token)
    }

    /// The status of a request with these headers; 200 when it is admitted.
    fn status(method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
        let request = headers
            .iter()
            .fold(Request::builder().method(method).uri(path), |request, (name, value)| request.header(*name, *value));
        let (head, ()) = request.body(()).unwrap().into_parts();
        gate().admit(&head).map_or_else(|refusal| refusal.status.as_u16(), |_| 200)
    }

    const OURS: (&str, &str) = ("host", "127.0.0.1:7000");
    const COOKIE_OF_OURS: (&str, &str) = ("cookie", "other=1; latscope-7000=0123456789abcdef");

    #[test]
    fn a_host_that_is_not_ours_is_misdirected() {
        for host in
            ["127.0.0.1:7000", "localhost:7000", "LOCALHOST:7000", "[::1]:7000", "db1.example:7000", "proxy:443"]
        {
            assert_eq!(status("GET", "/", &[("host", host)]), 200, "{host}");
        }
        let foreign =
            ["evil.example:7000", "127.0.0.1", "127.0.0.1:7001", "localhost", "db1.example:1", "proxy:7000", ""];
        for host in foreign {
            assert_eq!(status("GET", "/", &[("host", host)]), 421, "{host}");
        }
        assert_eq!(status("GET", "/", &[]), 421);
        assert_eq!(status("GET", "/", &[OURS, OURS]), 421);
    }

    #[test]
    fn other_sites_are_refused() {
        assert_eq!(status("POST", "/session", &[OURS, ("origin", "http://127.0.0.1:7000")]), 200);
        for origin in ["http://evil.example:7000", "null", "http://127.0.0.1:7001", "127.0.0.1:7000"] {
            assert_eq!(status("POST", "/session", &[OURS, ("origin", origin)]), 403, "{origin}");
        }
        assert_eq!(status("GET", "/", &[OURS, ("sec-fetch-site", "cross-site")]), 403);
        assert_eq!(status("GET", "/", &[OURS, ("sec-fetch-site", "none")]), 200);
        assert_eq!(status("GET", "/", &[OURS, ("origin", "http://localhost:7000"), ("origin", "http://evil")]), 403);
    }

    #[test]
    fn the_stream_needs_the_cookie() {
        assert_eq!(status("GET", "/stream", &[OURS]), 401);
        assert_eq!(status("GET", "/stream", &[OURS, ("cookie", "latscope-7000=0123456789abcdee")]), 401);
        assert_eq!(status("GET", "/stream", &[OURS, ("cookie", "latscope-7001=0123456789abcdef")]), 401);
        assert_eq!(status("GET", "/stream", &[OURS, ("cookie", "latscope-7000=")]), 401);
        assert_eq!(status("GET", "/stream", &[OURS, COOKIE_OF_OURS]), 200);
    }

    #[test]
    fn only_reading_is_allowed() {
        for (method, path) in [("POST", "/"), ("PUT", "/stream"), ("DELETE", "/session"), ("GET", "/session")] {
            assert_eq!(status(method, path, &[OURS, COOKIE_OF_OURS]), 405, "{method} {path}");
        }
        for path in ["/etc/passwd", "/../", "/stream/", "//", "/favicon.ico"] {
            assert_eq!(status("GET", path, &[OURS, COOKIE_OF_OURS]), 404, "{path}");
        }
    }

    #[test]
    fn a_stream_resumes_where_the_page_was() {
        let head = |headers: &[(&str, &str)], path: &str| {
            let request = headers.iter().fold(Request::builder().uri(path), |r, (name, value)| r.header(*name, *value));
            gate().admit(&request.body(()).unwrap().into_parts().0)
        };
        let stream = |since: Option<&str>| Ok(Route::Stream { since: since.map(str::to_string) });
        assert_eq!(head(&[OURS, COOKIE_OF_OURS], "/stream"), stream(None));
        assert_eq!(head(&[OURS, COOKIE_OF_OURS], "/stream?x=1&since=ab.7"), stream(Some("ab.7")));
        // What the browser adds when it reconnects is younger than what was in the address.
        assert_eq!(
            head(&[OURS, COOKIE_OF_OURS, ("last-event-id", "ab.9")], "/stream?since=ab.7"),
            stream(Some("ab.9"))
        );
    }

    #[test]
    fn the_token_becomes_a_cookie() {
        let cookie = gate().session(b"0123456789abcdef").unwrap();
        assert_eq!(cookie, "latscope-7000=0123456789abcdef; HttpOnly; SameSite=Strict; Path=/");
        assert_eq!(gate().session(b"0123456789abcdeg").unwrap_err().status, 401);
        assert_eq!(gate().session(b"").unwrap_err().status, 401);
        let open = Gate::new("[::1]:80".parse().unwrap(), &[], None);
        assert!(open.session(b"").is_ok());
    }
}
