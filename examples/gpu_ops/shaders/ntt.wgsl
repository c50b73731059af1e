// A radix-2 transform: one reordering, then log2(n) stages of butterflies, one dispatch each.
// Twiddles are in Montgomery form, values are not: the product of the two is a plain value again.

struct Stage { half: u32, twiddle_stride: u32, butterflies: u32, index_bits: u32 }

@group(0) @binding(0) var<storage, read_write> values: array<Words>;
@group(0) @binding(1) var<uniform> stage: Stage;
@group(0) @binding(2) var<storage, read> twiddles: array<Words>;
@group(0) @binding(3) var<storage, read> coefficients: array<Words>;

@compute @workgroup_size(64)
fn reorder(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= 2u * stage.butterflies { return; }
    values[id.x] = coefficients[reverseBits(id.x) >> (32u - stage.index_bits)];
}

@compute @workgroup_size(64)
fn butterfly(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= stage.butterflies { return; }
    let offset = id.x % stage.half;
    let low = 2u * (id.x - offset) + offset;
    let high = low + stage.half;
    var twiddle = split(twiddles[offset * stage.twiddle_stride]);
    var a = split(values[low]);
    var b = split(values[high]);
    var product = multiply(&b, &twiddle);
    var sum = add(&a, &product);
    var difference = subtract(&a, &product);
    values[low] = join(&sum);
    values[high] = join(&difference);
}
