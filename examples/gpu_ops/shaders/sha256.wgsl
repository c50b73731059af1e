// SHA-256 on big-endian words held in u32; shared by the batch and the Merkle kernels.

const INITIAL = array<u32, 8>(
    0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, 0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u,
);

const ROUND = array<u32, 64>(
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u, 0xab1c5ed5u,
    0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu, 0x9bdc06a7u, 0xc19bf174u,
    0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu, 0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau,
    0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u, 0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u,
    0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu, 0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u,
    0xa2bfe8a1u, 0xa81a664bu, 0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u,
    0x19a4c116u, 0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u,
    0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u, 0xc67178f2u,
);

fn swap_bytes(word: u32) -> u32 {
    return (word << 24u) | ((word & 0xff00u) << 8u) | ((word >> 8u) & 0xff00u) | (word >> 24u);
}

fn rotate_right(word: u32, by: u32) -> u32 {
    return (word >> by) | (word << (32u - by));
}

fn small_sigma0(x: u32) -> u32 { return rotate_right(x, 7u) ^ rotate_right(x, 18u) ^ (x >> 3u); }
fn small_sigma1(x: u32) -> u32 { return rotate_right(x, 17u) ^ rotate_right(x, 19u) ^ (x >> 10u); }
fn big_sigma0(x: u32) -> u32 { return rotate_right(x, 2u) ^ rotate_right(x, 13u) ^ rotate_right(x, 22u); }
fn big_sigma1(x: u32) -> u32 { return rotate_right(x, 6u) ^ rotate_right(x, 11u) ^ rotate_right(x, 25u); }

// The message schedule is kept as a ring of its last 16 words, in the block itself.
fn scheduled(block: ptr<function, array<u32, 16>>, t: u32) -> u32 {
    if t >= 16u {
        (*block)[t & 15u] += small_sigma0((*block)[(t + 1u) & 15u]) + (*block)[(t + 9u) & 15u]
            + small_sigma1((*block)[(t + 14u) & 15u]);
    }
    return (*block)[t & 15u];
}

fn compress(state: ptr<function, array<u32, 8>>, block: ptr<function, array<u32, 16>>) {
    var s = *state;
    for (var t = 0u; t < 64u; t++) {
        let choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        let majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        let first = s[7] + big_sigma1(s[4]) + choice + ROUND[t] + scheduled(block, t);
        let second = big_sigma0(s[0]) + majority;
        s = array<u32, 8>(first + second, s[0], s[1], s[2], s[3] + first, s[4], s[5], s[6]);
    }
    for (var i = 0u; i < 8u; i++) {
        (*state)[i] += s[i];
    }
}
