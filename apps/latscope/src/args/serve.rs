use super::Input;
use clap::Args;

/// Show a live page in the browser: the report, as the events come
///
/// Prints the address of the page. The page only reads: it cannot change what is captured.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  latscope serve                                   # as root: the block devices of this machine
  latscope serve -s io 'proc.name = postgres'
  latscope serve -r perf.data                      # a file
  latscope serve --follow -r run.lat               # a file that grows
  ssh -L 7470:127.0.0.1:7470 db1 latscope serve    # another machine, over ssh

Exit status: 0 done, 2 wrong usage, 3 input or capture failed, or the address is in use.")]
pub struct Serve {
    #[command(flatten)]
    pub input: Input,
    /// Address and port to listen on; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7470", help_heading = "Server")]
    pub listen: String,
    /// Another name under which browsers reach this server, e.g. db1.example.com
    #[arg(long, value_name = "NAME", help_heading = "Server")]
    pub allow_host: Vec<String>,
    /// Show the page to everybody on this machine, without a token
    #[arg(long, help_heading = "Server")]
    pub no_token: bool,
    /// Allow an address that other machines reach, although the connection is not encrypted
    ///
    /// Names of processes and files, and the token, then cross the network as plain text. ssh -L, or a proxy with TLS, avoids it.
    #[arg(long, help_heading = "Server")]
    pub insecure: bool,
    /// Width of a column of the map
    #[arg(short, long, value_name = "DURATION", default_value = "1s", help_heading = "Server")]
    pub interval: Option<String>,
    /// How much is kept for pages that are opened later
    #[arg(long, value_name = "DURATION", default_value = "1h", help_heading = "Server")]
    pub history: Option<String>,
}
