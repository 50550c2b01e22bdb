//! bf16 products with AMX: 16 × 16 sums over 32 inputs per instruction, up to sixteen times AVX-512's throughput.
#![allow(unsafe_code, reason = "the unit is only reached by instructions that take pointers")]

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

use half::bf16;

use super::dots;
use super::lines::{Line, PAIRS_AT_ONCE, PANEL};
use super::matrix::Update;

/// Rows and outputs of a block: two tiles of each, four tiles of sums.
pub(crate) const BLOCK: usize = 32;
const ROW_BYTES: usize = 64;

/// The configuration of the eight tiles: 16 rows of 64 bytes each.
#[repr(C, align(64))]
struct TileShapes([u8; 64]);

static SHAPES: TileShapes = {
    let mut shapes = [0; 64];
    shapes[0] = 1;
    let mut tile = 0;
    while tile < 8 {
        shapes[16 + 2 * tile] = ROW_BYTES as u8;
        shapes[48 + tile] = 16;
        tile += 1;
    }
    TileShapes(shapes)
};

/// Whether the CPU has AMX and Linux lets this process use it.
pub(crate) fn is_there() -> bool {
    static IS_THERE: OnceLock<bool> = OnceLock::new();
    *IS_THERE.get_or_init(|| {
        let (bf16, tile) = (1 << 22, 1 << 24);
        // Numbers are rounded by instructions of AVX-512 BF16.
        let has = cfg!(target_os = "linux") && dots::is_there();
        has && __cpuid_count(7, 0).edx & (bf16 | tile) == bf16 | tile && is_permitted()
    })
}

pub(crate) fn takes(inputs: usize) -> bool {
    inputs.is_multiple_of(2 * PAIRS_AT_ONCE) && is_there()
}

/// Requests the tile state from Linux for all threads (`arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA)`).
fn is_permitted() -> bool {
    let mut result: i64 = 158;
    // SAFETY: the call takes two numbers and changes only the permissions of this process.
    unsafe {
        asm!("syscall", inout("rax") result, in("rdi") 0x1023, in("rsi") 18, out("rcx") _, out("r11") _, options(nostack));
    }
    result == 0
}

pub(crate) struct Unit(());

impl Unit {
    pub(crate) fn set_up() -> Self {
        assert!(is_there(), "a machine with AMX");
        // SAFETY: AMX is present, and the shapes are valid for palette 1.
        unsafe { asm!("ldtilecfg [{}]", in(reg) SHAPES.0.as_ptr(), options(nostack, readonly)) };
        Self(())
    }

    /// Computes a block of sums over some pairs of inputs; `write` adds or replaces.
    ///
    /// `x` holds [`BLOCK`] rows, `x_stride` numbers apart. `weights` holds four lines per pair; `half` selects the two
    /// lines of the block's outputs. `to` holds [`BLOCK`] rows of [`BLOCK`] sums, `to_stride` apart.
    pub(crate) fn multiply(
        &self,
        (x, x_stride): (&[bf16], usize),
        (weights, half): (&[Line], usize),
        (to, to_stride): (&mut [f32], usize),
        write: Update,
    ) {
        let pairs = weights.len() / (PANEL / 16);
        assert!(
            pairs > 0 && pairs.is_multiple_of(PAIRS_AT_ONCE) && weights.len() == pairs * (PANEL / 16),
            "whole groups of pairs in a block of weights"
        );
        assert!(x.len() >= (BLOCK - 1) * x_stride + 2 * pairs && half < 2, "rows of x for the block");
        assert!(to_stride >= BLOCK && to.len() >= (BLOCK - 1) * to_stride + BLOCK, "room for the block's sums");
        let below = 16;
        // SAFETY: the assertions keep each of the 16 rows that an instruction reads or writes inside its slice: two
        // tiles of rows of `x` and of `to`, and two of the four lines per pair of inputs. The tiles are configured.
        unsafe {
            asm!(
                "test {add:e}, {add:e}",
                "jz 2f",
                "tileloadd tmm0, [{to} + {to_stride}]",
                "tileloadd tmm1, [{to} + {to_stride} + 64]",
                "tileloadd tmm2, [{to_below} + {to_stride}]",
                "tileloadd tmm3, [{to_below} + {to_stride} + 64]",
                "jmp 3f",
                "2:",
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "3:",
                "tileloadd tmm6, [{weights} + {line_stride}]",
                "tileloadd tmm4, [{x} + {x_stride}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{weights} + {line_stride} + 64]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{x_below} + {x_stride}]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {x}, 64",
                "add {x_below}, 64",
                "add {weights}, 4096",
                "dec {count}",
                "jnz 3b",
                "tilestored [{to} + {to_stride}], tmm0",
                "tilestored [{to} + {to_stride} + 64], tmm1",
                "tilestored [{to_below} + {to_stride}], tmm2",
                "tilestored [{to_below} + {to_stride} + 64], tmm3",
                add = in(reg) u32::from(write == Update::Add),
                x = inout(reg) x.as_ptr() => _,
                x_below = inout(reg) x.as_ptr().add(below * x_stride) => _,
                x_stride = in(reg) x_stride * size_of::<bf16>(),
                weights = inout(reg) weights.as_ptr().cast::<u8>().add(half * 2 * size_of::<Line>()) => _,
                line_stride = in(reg) PANEL / 16 * size_of::<Line>(),
                to = in(reg) to.as_mut_ptr(),
                to_below = in(reg) to.as_mut_ptr().add(below * to_stride),
                to_stride = in(reg) to_stride * size_of::<f32>(),
                count = inout(reg) pairs / PAIRS_AT_ONCE => _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        // SAFETY: releases the configuration of `set_up`; nothing else in this crate uses tiles.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}
