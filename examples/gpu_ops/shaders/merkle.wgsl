// One level of a Merkle tree per dispatch: a parent is SHA-256(SHA-256(left || right)).

struct Level { first_child: u32, child_count: u32, first_parent: u32, parent_count: u32 }

@group(0) @binding(0) var<storage, read_write> nodes: array<array<u32, 8>>;
@group(0) @binding(1) var<uniform> level: Level;

@compute @workgroup_size(64)
fn hash_level(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= level.parent_count { return; }
    let left = level.first_child + 2u * id.x;
    // The last node of an odd level is its own sibling.
    let right = level.first_child + min(2u * id.x + 1u, level.child_count - 1u);
    var state = digest_of_digest(digest_of_pair(left, right));
    for (var i = 0u; i < 8u; i++) {
        nodes[level.first_parent + id.x][i] = swap_bytes(state[i]);
    }
}

fn digest_of_pair(left: u32, right: u32) -> array<u32, 8> {
    var block: array<u32, 16>;
    for (var i = 0u; i < 8u; i++) {
        block[i] = swap_bytes(nodes[left][i]);
        block[i + 8u] = swap_bytes(nodes[right][i]);
    }
    var state = INITIAL;
    compress(&state, &block);
    var padding = array<u32, 16>();
    padding[0] = 0x80000000u;
    padding[15] = 512u;
    compress(&state, &padding);
    return state;
}

fn digest_of_digest(digest: array<u32, 8>) -> array<u32, 8> {
    var words = digest;
    var block = array<u32, 16>();
    for (var i = 0u; i < 8u; i++) {
        block[i] = words[i];
    }
    block[8] = 0x80000000u;
    block[15] = 256u;
    var state = INITIAL;
    compress(&state, &block);
    return state;
}
