//! Any text, read and followed: `checks` says what must hold. libFuzzer chooses by coverage, `grammar` changes by the
//! lines and values of a calendar.

#![no_main]

#[path = "../../tests/it/fuzz/checks.rs"]
mod checks;
#[path = "../grammar.rs"]
mod grammar;
#[path = "../values.rs"]
mod values;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use libfuzzer_sys::fuzz_crossover;
use libfuzzer_sys::fuzz_mutator;
use libfuzzer_sys::fuzz_target;
use libfuzzer_sys::fuzzer_mutate;

use crate::values::Dice;

/// The microseconds of CPU time that the worst input took so far.
static WORST: AtomicU64 = AtomicU64::new(0);

fuzz_target!(|input: &[u8]| {
    let took = u64::try_from(checks::check(input).as_micros()).unwrap_or(u64::MAX);
    if took > WORST.fetch_max(took, Ordering::Relaxed) {
        eprintln!("WORST {took} us of CPU time for {} bytes", input.len());
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut dice = Dice::new(seed);
    // Bytes, now and then: what no grammar thinks of.
    if dice.one_in(8) || size == 0 && dice.one_in(2) {
        return fuzzer_mutate(data, size, max_size);
    }
    put(&grammar::changed(&data[..size], &mut dice), data, max_size)
});

fuzz_crossover!(|one: &[u8], other: &[u8], out: &mut [u8], seed: u32| {
    let most = out.len();
    put(&grammar::crossed(one, other, &mut Dice::new(seed)), out, most)
});

/// Writes the text into the buffer, as much as there is room for.
fn put(text: &[u8], buffer: &mut [u8], most: usize) -> usize {
    let size = text.len().min(most);
    buffer[..size].copy_from_slice(&text[..size]);
    size
}
