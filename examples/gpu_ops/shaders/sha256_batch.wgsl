// One SHA-256 per invocation, some blocks per dispatch; the host has padded every message to whole 64-byte blocks.

struct Span { first_block: u32, block_count: u32 }
struct Turn { begin: u32, end: u32 }

@group(0) @binding(0) var<storage, read> blocks: array<array<u32, 16>>;
@group(0) @binding(1) var<storage, read> spans: array<Span>;
@group(0) @binding(2) var<storage, read_write> digests: array<array<u32, 8>>;
@group(0) @binding(3) var<uniform> turn: Turn;

@compute @workgroup_size(64)
fn absorb(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&spans) { return; }
    let span = spans[id.x];
    let end = min(turn.end, span.block_count);
    if turn.begin >= end { return; }
    var state = INITIAL;
    if turn.begin > 0u {
        for (var i = 0u; i < 8u; i++) {
            state[i] = swap_bytes(digests[id.x][i]);
        }
    }
    for (var b = turn.begin; b < end; b++) {
        var block: array<u32, 16>;
        for (var i = 0u; i < 16u; i++) {
            block[i] = swap_bytes(blocks[span.first_block + b][i]);
        }
        compress(&state, &block);
    }
    for (var i = 0u; i < 8u; i++) {
        digests[id.x][i] = swap_bytes(state[i]);
    }
}
