//! Any bytes as a module and as a stack: no panic, no end of memory, and an end. The last 1 KiB is the stack, and its first three
//! words are registers.
#![no_main]

use latscope_unwind::{Registers, Stacks};
use libfuzzer_sys::fuzz_target;

const START: u64 = 0x10_0000;

fuzz_target!(|bytes: &[u8]| {
    let (file, stack) = bytes.split_at(bytes.len().saturating_sub(1024));
    let Some(mut stacks) = Stacks::of_module(file, START) else { return };
    let word = |at: usize| stack.get(at * 8..at * 8 + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    let base = word(1) & !7;
    let registers = Registers { ip: START + word(0) % (file.len() as u64 + 1), sp: base, fp: word(2), lr: 0 };
    let user = stacks.unwind(u32::MAX, registers, base, stack);
    assert!(user.addresses.len() <= 256);
    let mut text = String::new();
    stacks.text(u32::MAX, &user.addresses, &[], &mut text);
});
