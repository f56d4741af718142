//! Arithmetic on known values, with the NF language's meaning.

use super::{Binary, mask};

/// The value of a bit-vector of `width` bits read as two's complement.
pub(crate) fn signed(value: u128, width: u8) -> i128 {
    let shift = 128 - u32::from(width);
    ((value << shift) as i128) >> shift
}

/// The result of `operator` on two known bit-vectors of `width` bits.
pub(super) fn bits(operator: Binary, a: u128, b: u128, width: u8) -> u128 {
    use Binary::*;
    // Only where they are needed: this is the inner loop of the search for examples.
    let shift = || (b % u128::from(width)) as u32;
    let [x, y] = [a, b].map(|value| move || signed(value, width));
    let value = match operator {
        Add => a.wrapping_add(b),
        Sub => a.wrapping_sub(b),
        Mul => a.wrapping_mul(b),
        DivUnsigned => a.checked_div(b).unwrap_or(0),
        RemUnsigned => a.checked_rem(b).unwrap_or(0),
        DivSigned | RemSigned if y() == 0 => 0,
        DivSigned => x().wrapping_div(y()) as u128,
        RemSigned => x().wrapping_rem(y()) as u128,
        And => a & b,
        Or => a | b,
        Xor => a ^ b,
        ShiftLeft => a << shift(),
        ShiftRight => a >> shift(),
        ShiftRightSigned => (x() >> shift()) as u128,
        Equal | LessUnsigned | LessEqualUnsigned | LessSigned | LessEqualSigned | Both | Either => {
            u128::from(truth(operator, a, b, width))
        }
    };
    value & mask(width)
}

/// The result of a boolean `operator` on two known operands.
pub(super) fn truth(operator: Binary, a: u128, b: u128, width: u8) -> bool {
    match operator {
        Binary::Equal => a == b,
        Binary::LessUnsigned => a < b,
        Binary::LessEqualUnsigned => a <= b,
        Binary::LessSigned => signed(a, width) < signed(b, width),
        Binary::LessEqualSigned => signed(a, width) <= signed(b, width),
        Binary::Both => a & b & 1 == 1,
        Binary::Either => (a | b) & 1 == 1,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_by_zero_yields_zero() {
        assert_eq!(bits(Binary::DivUnsigned, 9, 0, 8), 0);
        assert_eq!(bits(Binary::RemUnsigned, 9, 0, 8), 0);
        assert_eq!(bits(Binary::DivSigned, 9, 0, 8), 0);
    }

    #[test]
    fn shifts_are_modulo_the_width() {
        assert_eq!(bits(Binary::ShiftLeft, 1, 9, 8), 2);
        assert_eq!(bits(Binary::ShiftRightSigned, 0x80, 1, 8), 0xc0);
        assert_eq!(bits(Binary::ShiftLeft, 3, 0, 128), 3);
    }

    #[test]
    fn signed_reads_two_s_complement() {
        assert_eq!(signed(0xff, 8), -1);
        assert_eq!(signed(0x7f, 8), 127);
        assert!(truth(Binary::LessSigned, 0xff, 0, 8));
    }
}
