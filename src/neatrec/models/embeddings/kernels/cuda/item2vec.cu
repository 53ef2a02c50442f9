// Skip-gram with negative sampling: `reference.item2vec`. Tables: input (queries), output (partners and negatives).

constexpr bool KEEPS = NEGATIVES * PARTS <= 8;  // negatives stay in registers; otherwise they are read again

extern "C" __global__ void __launch_bounds__(WARPS * 32, BLOCKS) train(const Call call) {
    extern __shared__ char memory[];
    const Lane warp(threadIdx.x);
    const int lane = warp.id;
    const Workspace workspace = workspace_at(memory + (threadIdx.x >> 5) * WORKSPACE_BYTES);
    float *const input = call.table[0], *const output = call.table[1];
    Queue queue = {0, 0};
    Seen seen = {0, 0, 0};
    for (i64 number = take(call, queue, lane); number >= 0; number = take(call, queue, lane)) {
        const Unit unit = unit_of(call, number, lane);
        const float rate = rate_at(call, number);
        float loss = 0;
        u32 pairs = 0;
        int row = __ldg(call.items + unit.low), drawn = -1;
        Vector next = row_of(output, row, warp);
        float next_before = tail_of(output, row).y;
        for (int t = 0; t < unit.count + WINDOW; t++) {
            const int i = t - WINDOW;
            const bool is_query = i >= unit.start && i < unit.stop;
            const int first = (i - unit.start) * GROUPS, slot = (u32)i % SLOTS;
            Vector query, negatives[KEEPS ? NEGATIVES : 1];
            float before = 0, far_before = 0;
            int negative = -1;
            auto look = [&](int group) {  // ask for the negatives of a group
                if (group / TOGETHER != drawn) {
                    drawn = group / TOGETHER;
                    draw_items(call, unit, unit.key, drawn, workspace.negative, lane);
                }
                const int* from = workspace.negative + group % TOGETHER * NEGATIVES;
                if constexpr (KEEPS) {
#pragma unroll
                    for (int k = 0; k < NEGATIVES; k++) negatives[k] = row_of(output, max(from[k], 0), warp);
                }
                negative = lane < NEGATIVES ? from[lane] : -1;
                far_before = tail_of(output, max(negative, 0)).y;
            };
            if (is_query) {
                query = row_of(input, workspace.item[slot], warp);
                before = tail_of(input, workspace.item[slot]).y;
                if (GROUPS == 1) look(first);
            }
            if (t < unit.count) {
                const Vector here = next;
                const float here_before = next_before;
                if (t + 1 < unit.count) {
                    row = __ldg(call.items + unit.low + t + 1);
                    next = row_of(output, row, warp);
                    next_before = tail_of(output, row).y;
                }
                load_line(call, unit, workspace, t, here, here_before, 0, warp);
            }
            if (is_query) {
                const int partner = partner_of(unit, workspace, i, lane);
                float sums[2 * WINDOW];
#pragma unroll
                for (int p = 0; p < 2 * WINDOW; p++) {
                    const int from = __shfl_sync(ALL, partner, p);
                    sums[p] = from >= 0 ? dot(query, kept(workspace.x, from, warp)) : 0;
                }
                const float near = totals(sums, lane), length = total(dot(query, query));
                const float weight = partner >= 0 ? sigmoid(-near) : 0;
                if (partner >= 0) loss += softplus(-near);
                Vector update = zeros();
                for (int g = 0; g < GROUPS; g++) {
                    const int partners = __popc(__ballot_sync(ALL, partner >= 0 && (GROUPS == 1 || lane == g)));
                    if (!partners) continue;
                    pairs += partners;
                    if (GROUPS > 1) look(first + g);
                    float scores[NEGATIVES];
#pragma unroll
                    for (int k = 0; k < NEGATIVES; k++)
                        scores[k] = dot(query, KEEPS ? negatives[KEEPS ? k : 0]
                                                     : row_of(output, max(__shfl_sync(ALL, negative, k), 0), warp));
                    const float far = totals(scores, lane);
                    const float push = negative >= 0 ? -partners * sigmoid(far) : 0, squared = push * push * length;
                    if (negative >= 0) loss += partners * softplus(far);
                    const float step = push * step_of(rate, far_before, squared);
                    if (squared > 0) raise_tail(output, negative, 0, squared * (1.0f / DIM), 0);
#pragma unroll
                    for (int k = 0; k < NEGATIVES; k++) {
                        const float share = __shfl_sync(ALL, push, k), scale = __shfl_sync(ALL, step, k);
                        const int k_row = __shfl_sync(ALL, negative, k);
                        if (share == 0) continue;
                        add(update, share, KEEPS ? negatives[KEEPS ? k : 0] : row_of(output, k_row, warp));
                        raise_row(output, k_row, warp, scale, query);
                    }
                }
#pragma unroll
                for (int p = 0; p < 2 * WINDOW; p++) {
                    const int from = __shfl_sync(ALL, partner, p);
                    const float share = __shfl_sync(ALL, weight, p);
                    if (share == 0) continue;
                    add(update, share, kept(workspace.x, from, warp));
                    add_to_update(workspace, from, share, query, warp);
                }
                change_row(call, input, workspace.item[slot], before, update, rate, warp);
            }
            if (i >= WINDOW) apply_line(call, workspace, i - WINDOW, rate, warp);
        }
        for (int j = max(unit.count - WINDOW, 0); j < unit.count; j++) apply_line(call, workspace, j, rate, warp);
        seen.loss += loss;
        seen.pairs += pairs;
        __syncwarp();
    }
    tell(call, seen, lane);
}
