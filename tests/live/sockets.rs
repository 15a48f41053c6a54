//! Sockets that change their other end, or are gone before anybody can look them up, held against what the program knows.

use super::lab::{Background, alone, events};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;

const COLUMNS: &str = "name,path,local_ip,local_port,remote_ip,remote_port,l4proto,size";

/// Records what this process does on sockets meanwhile, of the calls that move so many bytes.
fn recorded(folder: &tempfile::TempDir, bytes: u64, run: impl FnOnce()) -> Vec<serde_json::Value> {
    let trace: PathBuf = folder.path().join(format!("{bytes}.lat"));
    let filter = format!("pid = {} and size = {bytes} and fd.type in (ipv4, ipv6)", std::process::id());
    let with = "fd.lip,fd.lport,fd.rip,fd.rport,fd.l4proto";
    let record = Background::latscope(&["record", "-s", "io", "-w", trace.to_str().unwrap(), "--with", with, &filter]);
    run();
    record.interrupt().success();
    events(&trace, COLUMNS, "")
}

#[test]
fn a_datagram_socket_that_is_connected_anew_has_its_new_peer() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    for (loopback, bytes) in [("127.0.0.1", 7), ("::1", 9)] {
        let bind = || UdpSocket::bind((loopback, 0));
        let (Ok(socket), Ok(one), Ok(other)) = (bind(), bind(), bind()) else {
            eprintln!("skipped in part: no {loopback}");
            continue;
        };
        let address = |socket: &UdpSocket| socket.local_addr().unwrap();
        let rows = recorded(&folder, bytes, || {
            for _ in 0..10 {
                for peer in [&one, &other] {
                    socket.connect(address(peer)).unwrap();
                    assert_eq!(socket.send(&vec![1; bytes as usize]).unwrap() as u64, bytes);
                }
            }
        });
        assert_eq!(rows.len(), 20);
        for (at, row) in rows.iter().enumerate() {
            let peer = address(if at % 2 == 0 { &one } else { &other });
            assert_eq!(row["remote_port"], peer.port(), "{at}: {row}");
            assert_eq!((row["remote_ip"].as_str(), row["local_ip"].as_str()), (Some(loopback), Some(loopback)));
            assert_eq!(
                (row["local_port"].as_u64(), row["l4proto"].as_str()),
                (Some(address(&socket).port().into()), Some("udp"))
            );
            // Which of two ports that clients are given is the server's is not known, but never is it another port.
            let ends = row["path"].as_str().map(|path| path.split_once("->").unwrap());
            let known = [address(&socket).to_string(), peer.to_string()];
            assert!(ends.is_none_or(|(from, to)| known == [from, to] || known == [to, from]), "{row}");
        }
    }
}

#[test]
fn connections_that_last_a_moment_have_their_ends() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let mut clients = Vec::new();
    let rows = recorded(&folder, 11, || {
        for _ in 0..20 {
            let mut client = TcpStream::connect(server).unwrap();
            clients.push(client.local_addr().unwrap());
            client.write_all(b"eleven byte").unwrap();
            listener.accept().unwrap().0.read_exact(&mut [0; 11]).unwrap();
        }
    });
    assert_eq!(rows.len(), 40);
    for (of_one, client) in rows.chunks(2).zip(&clients) {
        for row in of_one {
            assert_eq!(row["path"], format!("{client}->{server}"), "{row}");
            let is_client = row["name"] == "write" || row["name"] == "sendto";
            let (local, remote) = if is_client { (*client, server) } else { (server, *client) };
            assert_eq!(
                (&row["local_port"], &row["remote_port"]),
                (&local.port().into(), &remote.port().into()),
                "{row}"
            );
            assert_eq!(row["l4proto"], "tcp");
        }
    }
}

/// A socket of datagrams that is not connected has no other end, but its calls name one.
#[test]
fn calls_that_name_the_other_end_have_it() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    for (loopback, bytes) in [("127.0.0.1", 13), ("::1", 17)] {
        let bind = || UdpSocket::bind((loopback, 0));
        let (Ok(from), Ok(to)) = (bind(), bind()) else {
            eprintln!("skipped in part: no {loopback}");
            continue;
        };
        let [from_port, to_port] = [&from, &to].map(|socket| socket.local_addr().unwrap().port());
        let rows = recorded(&folder, bytes, || {
            for _ in 0..5 {
                from.send_to(&vec![1; bytes as usize], to.local_addr().unwrap()).unwrap();
                to.recv_from(&mut [0; 32]).unwrap();
            }
        });
        // The receiving call asked for 32 bytes, so only the sending one is sure to pass the filter on the size.
        let sent: Vec<_> = rows.iter().filter(|row| row["name"] == "sendto").collect();
        assert_eq!(sent.len(), 5, "{rows:?}");
        for row in &rows {
            let (local, remote) = if row["name"] == "sendto" { (from_port, to_port) } else { (to_port, from_port) };
            assert_eq!((&row["local_port"], &row["remote_port"]), (&local.into(), &remote.into()), "{row}");
            assert_eq!(row["remote_ip"], loopback, "{row}");
        }
    }
}

/// A call that was under way when the capture started is missing only from what the filter on names asks for.
#[test]
fn calls_of_others_are_not_missing() {
    let Some(_alone) = alone() else { return };
    for (name, is_missing) in [("waitsforit", true), ("nobodyatall", false)] {
        let (mut read, mut write) = std::io::pipe().unwrap();
        let waiting = std::thread::Builder::new().name("waitsforit".into());
        let waiting = waiting.spawn(move || read.read(&mut [0; 4])).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("t.lat");
        let record =
            Background::latscope(&["record", "-s", "io", "-w", trace.to_str().unwrap(), &format!("comm = {name}")]);
        write.write_all(b"now").unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), 3);
        let ended = record.interrupt();
        assert_eq!(ended.err.contains("the return was seen, the start was not"), is_missing, "{}", ended.err);
    }
}
