//! As `planted.c`, in Rust.
use std::hint::black_box;
use std::io::{Read, Write};
use std::time::Duration;

#[inline(never)]
pub fn block_read(wait: bool) -> usize {
    let mut byte = [0; 64];
    if wait {
        std::thread::sleep(Duration::from_micros(200));
    } else {
        let _ = std::io::stdin().read(&mut byte);
    }
    black_box(byte.len())
}

#[inline(never)]
pub fn btree_descend(level: usize, wait: bool) -> usize {
    let page = black_box([1; 100]);
    let below = if level > 0 { btree_descend(level - 1, wait) } else { block_read(wait) };
    below + page[level]
}

#[inline(never)]
pub fn archive_scan(level: usize, wait: bool) -> usize {
    black_box(btree_descend(level, wait)) + 1
}

fn main() {
    println!("ready");
    std::io::stdout().flush().unwrap();
    let mut turn = 0;
    while std::env::args().len() > 1 {
        black_box(archive_scan(turn % 5, true));
        turn += 1;
    }
    black_box(archive_scan(3, false));
}
