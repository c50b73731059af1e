// The scalar field of BLS12-381. In memory an element is 8 little-endian u32 words; in arithmetic 16 limbs of 16 bits,
// since then limb * limb + limb + limb just fits a u32 and WGSL's lack of u64 does not matter.

alias Words = array<u32, 8>;
alias Limbs = array<u32, 16>;

const MODULUS = array<u32, 16>(
    0x0001u, 0x0000u, 0xffffu, 0xffffu, 0x5bfeu, 0xfffeu, 0xa402u, 0x53bdu,
    0xd805u, 0x09a1u, 0xd808u, 0x3339u, 0x7d48u, 0x299du, 0xa753u, 0x73edu,
);
// -1 / MODULUS modulo 2^16
const NEGATED_INVERSE = 0xffffu;

fn split(words: Words) -> Limbs {
    var w = words;
    var limbs: Limbs;
    for (var i = 0u; i < 8u; i++) {
        limbs[2u * i] = w[i] & 0xffffu;
        limbs[2u * i + 1u] = w[i] >> 16u;
    }
    return limbs;
}

fn join(limbs: ptr<function, Limbs>) -> Words {
    var words: Words;
    for (var i = 0u; i < 8u; i++) {
        words[i] = (*limbs)[2u * i] | ((*limbs)[2u * i + 1u] << 16u);
    }
    return words;
}

fn is_reduced(a: ptr<function, Limbs>) -> bool {
    for (var i = 16u; i > 0u; i--) {
        if (*a)[i - 1u] != MODULUS[i - 1u] {
            return (*a)[i - 1u] < MODULUS[i - 1u];
        }
    }
    return false;
}

// For values below twice the modulus.
fn reduce(a: ptr<function, Limbs>) {
    if is_reduced(a) { return; }
    var borrow = 0u;
    for (var i = 0u; i < 16u; i++) {
        let difference = 0x10000u + (*a)[i] - MODULUS[i] - borrow;
        (*a)[i] = difference & 0xffffu;
        borrow = 1u - (difference >> 16u);
    }
}

fn add(a: ptr<function, Limbs>, b: ptr<function, Limbs>) -> Limbs {
    var sum: Limbs;
    var carry = 0u;
    for (var i = 0u; i < 16u; i++) {
        let total = (*a)[i] + (*b)[i] + carry;
        sum[i] = total & 0xffffu;
        carry = total >> 16u;
    }
    reduce(&sum);
    return sum;
}

// a - b as (a + MODULUS) - b, which is never negative and below twice the modulus.
fn subtract(a: ptr<function, Limbs>, b: ptr<function, Limbs>) -> Limbs {
    var result: Limbs;
    var carry = 1u;
    for (var i = 0u; i < 16u; i++) {
        let total = (*a)[i] + MODULUS[i] + (0xffffu - (*b)[i]) + carry;
        result[i] = total & 0xffffu;
        carry = total >> 16u;
    }
    reduce(&result);
    return result;
}

// Montgomery's product a * b / 2^256, one limb of a at a time. The sum t needs no 17th limb: it stays below twice the
// modulus, whose top bit is free.
fn multiply(a: ptr<function, Limbs>, b: ptr<function, Limbs>) -> Limbs {
    var t = Limbs();
    for (var i = 0u; i < 16u; i++) {
        let factor = (*a)[i];
        var carry = 0u;
        for (var j = 0u; j < 16u; j++) {
            let product = factor * (*b)[j] + t[j] + carry;
            t[j] = product & 0xffffu;
            carry = product >> 16u;
        }
        let top = carry;
        let quotient = (t[0] * NEGATED_INVERSE) & 0xffffu;
        carry = (quotient * MODULUS[0] + t[0]) >> 16u;
        for (var j = 1u; j < 16u; j++) {
            let product = quotient * MODULUS[j] + t[j] + carry;
            t[j - 1u] = product & 0xffffu;
            carry = product >> 16u;
        }
        t[15] = top + carry;
    }
    reduce(&t);
    return t;
}
