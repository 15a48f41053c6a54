//! What unwinding and naming cost: `unwind_cost PID [TURNS]` samples a thread that waits in a call, as often as asked for.
//! The first turn is cold: it reads the files of the process.

use latscope_unwind::{Naming, Registers, Stacks};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let pid: u32 = arguments.next().ok_or("usage: unwind_cost PID [TURNS]")?.parse()?;
    let turns: u32 = arguments.next().map_or(Ok(100_000), |turns| turns.parse())?;
    let call = std::fs::read_to_string(format!("/proc/{pid}/syscall"))?;
    let mut words =
        call.split_ascii_whitespace().rev().map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16));
    let ip = words.next().ok_or("the thread does not wait in a call")??;
    let sp = words.next().ok_or("the thread does not wait in a call")??;
    let mut bytes = vec![0; 16 << 10];
    let read = File::open(format!("/proc/{pid}/mem"))?.read_at(&mut bytes, sp)?;
    bytes.truncate(read);
    let registers = Registers { ip, sp, fp: 0, lr: 0 };
    let mut stacks = Stacks::new(Naming::Plain);

    let start = Instant::now();
    let user = stacks.unwind(pid, registers, sp, &bytes);
    println!("cold: {:?} for {} frames, {:?}", start.elapsed(), user.addresses.len(), user.quality);
    let start = Instant::now();
    for _ in 0..turns {
        std::hint::black_box(stacks.unwind(pid, registers, sp, std::hint::black_box(&bytes)));
    }
    let each = start.elapsed().as_nanos() / u128::from(turns.max(1));
    println!("warm: {each} ns a stack, {} ns a frame", each / user.addresses.len().max(1) as u128);

    let mut text = String::new();
    let start = Instant::now();
    stacks.text(pid, &user.addresses, &[], &mut text);
    println!("names, cold: {:?}", start.elapsed());
    let start = Instant::now();
    for _ in 0..turns {
        text.clear();
        stacks.text(pid, &user.addresses, &[], &mut text);
    }
    println!("names, warm: {} ns a stack", start.elapsed().as_nanos() / u128::from(turns.max(1)));
    let start = Instant::now();
    stacks.text(pid, &[], &[1 << 63], &mut String::new());
    println!("names of the kernel, cold: {:?}", start.elapsed());
    println!("{text}");
    Ok(())
}
