// One Keccak-256 per invocation, some blocks per dispatch; a 64-bit lane is vec2<u32>(low, high).
// The host has padded every message to whole 136-byte blocks (17 lanes); the digest is a final state's first 4 lanes.

struct Span { first_block: u32, block_count: u32 }
struct Turn { begin: u32, end: u32 }

@group(0) @binding(0) var<storage, read> blocks: array<array<vec2<u32>, 17>>;
@group(0) @binding(1) var<storage, read> spans: array<Span>;
// Zero before the first dispatch, as WebGPU makes every new buffer.
@group(0) @binding(2) var<storage, read_write> states: array<array<vec2<u32>, 25>>;
@group(0) @binding(3) var<uniform> turn: Turn;

const ROUND = array<vec2<u32>, 24>(
    vec2<u32>(0x00000001u, 0x00000000u), vec2<u32>(0x00008082u, 0x00000000u), vec2<u32>(0x0000808au, 0x80000000u),
    vec2<u32>(0x80008000u, 0x80000000u), vec2<u32>(0x0000808bu, 0x00000000u), vec2<u32>(0x80000001u, 0x00000000u),
    vec2<u32>(0x80008081u, 0x80000000u), vec2<u32>(0x00008009u, 0x80000000u), vec2<u32>(0x0000008au, 0x00000000u),
    vec2<u32>(0x00000088u, 0x00000000u), vec2<u32>(0x80008009u, 0x00000000u), vec2<u32>(0x8000000au, 0x00000000u),
    vec2<u32>(0x8000808bu, 0x00000000u), vec2<u32>(0x0000008bu, 0x80000000u), vec2<u32>(0x00008089u, 0x80000000u),
    vec2<u32>(0x00008003u, 0x80000000u), vec2<u32>(0x00008002u, 0x80000000u), vec2<u32>(0x00000080u, 0x80000000u),
    vec2<u32>(0x0000800au, 0x00000000u), vec2<u32>(0x8000000au, 0x80000000u), vec2<u32>(0x80008081u, 0x80000000u),
    vec2<u32>(0x00008080u, 0x80000000u), vec2<u32>(0x80000001u, 0x00000000u), vec2<u32>(0x80008008u, 0x80000000u),
);

// The lanes in the order in which pi moves each to the place of the next, and the rotation rho gives it on the way.
const WALK = array<u32, 24>(
    1u, 10u, 7u, 11u, 17u, 18u, 3u, 5u, 16u, 8u, 21u, 24u,
    4u, 15u, 23u, 19u, 13u, 12u, 2u, 20u, 14u, 22u, 9u, 6u,
);
const ROTATION = array<u32, 24>(
    1u, 3u, 6u, 10u, 15u, 21u, 28u, 36u, 45u, 55u, 2u, 14u,
    27u, 41u, 56u, 8u, 25u, 43u, 62u, 18u, 39u, 61u, 20u, 44u,
);

fn rotate_left(lane: vec2<u32>, by: u32) -> vec2<u32> {
    // A shift by 32 is not defined, and no rotation here is by 0 or 32.
    if by < 32u {
        return (lane << vec2<u32>(by)) | (lane.yx >> vec2<u32>(32u - by));
    }
    return (lane.yx << vec2<u32>(by - 32u)) | (lane >> vec2<u32>(64u - by));
}

fn theta(a: ptr<function, array<vec2<u32>, 25>>) {
    var columns: array<vec2<u32>, 5>;
    for (var x = 0u; x < 5u; x++) {
        columns[x] = (*a)[x] ^ (*a)[x + 5u] ^ (*a)[x + 10u] ^ (*a)[x + 15u] ^ (*a)[x + 20u];
    }
    for (var i = 0u; i < 25u; i++) {
        (*a)[i] ^= columns[(i + 4u) % 5u] ^ rotate_left(columns[(i + 1u) % 5u], 1u);
    }
}

fn rho_pi(a: ptr<function, array<vec2<u32>, 25>>) {
    var moving = (*a)[1];
    for (var i = 0u; i < 24u; i++) {
        let next = WALK[(i + 1u) % 24u];
        let displaced = (*a)[next];
        (*a)[next] = rotate_left(moving, ROTATION[i]);
        moving = displaced;
    }
}

fn chi(a: ptr<function, array<vec2<u32>, 25>>) {
    for (var y = 0u; y < 25u; y += 5u) {
        let first = (*a)[y];
        let second = (*a)[y + 1u];
        for (var x = 0u; x < 3u; x++) {
            (*a)[y + x] ^= ~(*a)[y + x + 1u] & (*a)[y + x + 2u];
        }
        (*a)[y + 3u] ^= ~(*a)[y + 4u] & first;
        (*a)[y + 4u] ^= ~first & second;
    }
}

fn permute(a: ptr<function, array<vec2<u32>, 25>>) {
    for (var round = 0u; round < 24u; round++) {
        theta(a);
        rho_pi(a);
        chi(a);
        (*a)[0] ^= ROUND[round];
    }
}

@compute @workgroup_size(64)
fn absorb(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&spans) { return; }
    let span = spans[id.x];
    let end = min(turn.end, span.block_count);
    if turn.begin >= end { return; }
    var state = states[id.x];
    for (var b = turn.begin; b < end; b++) {
        for (var i = 0u; i < 17u; i++) {
            state[i] ^= blocks[span.first_block + b][i];
        }
        permute(&state);
    }
    states[id.x] = state;
}
