// Partners of skip-gram models: the lines within the window of a query, with their ways down, in shared memory.
//
// Line t arrives, line t - WINDOW is the query, line t - 2 WINDOW has had all its queries and changes its row.

struct Room {
    float4* x;     // (SLOTS, STRIDE): lines as partners, by number % SLOTS
    float4* way;   // (SLOTS, STRIDE): their ways down
    float* before; // (SLOTS,): sums of squares of their rows
    float* taste;  // (SLOTS,): user . line
    int* item;     // (SLOTS,)
    int* category; // (SLOTS,)
    int* negative; // (32,)
    int* query;    // (32,): other queries
    int* user;     // (32,): other users
};

constexpr int ROOM = 16 * 2 * SLOTS * STRIDE + 4 * (4 * SLOTS + 96);
static_assert(ROOM <= ROOM_BYTES, "gpu_shape.py gives a warp too little shared memory");

__device__ __forceinline__ Room room_at(char* memory) {
    Room room;
    room.x = (float4*)memory;
    room.way = room.x + SLOTS * STRIDE;
    room.before = (float*)(room.way + SLOTS * STRIDE);
    room.taste = room.before + SLOTS;
    room.item = (int*)(room.taste + SLOTS);
    room.category = room.item + SLOTS;
    room.negative = room.category + SLOTS;
    room.query = room.negative + 32;
    room.user = room.query + 32;
    return room;
}

__device__ __forceinline__ void arrive(const Call& call, const Unit& unit, const Room& room, int t, const Vector& next,
                                       float before, float taste, const Lane& warp) {
    int slot = (u32)t % SLOTS;
    keep(room.x, slot, warp, next);
    keep(room.way, slot, warp, zeros());
    if (warp.id == 0) {
        int row = __ldg(call.items + unit.low + t);
        room.item[slot] = row;
        room.category[slot] = __ldg(call.category + row);
        room.before[slot] = before;
        room.taste[slot] = taste;
    }
    __syncwarp();
}

// The slot of this lane's partner of query i: lanes 0 ... for the lines after it, WINDOW ... for those before; -1: none.
__device__ __forceinline__ int partner_of(const Unit& unit, const Room& room, int i, int lane) {
    int line = lane < WINDOW ? i + 1 + lane : i - 1 - (lane - WINDOW);
    if (lane >= 2 * WINDOW || line < 0 || line >= unit.count) return -1;
    int slot = (u32)line % SLOTS, own = (u32)i % SLOTS;
    return is_pair(room.item[own], room.category[own], room.item[slot], room.category[slot]) ? slot : -1;
}

__device__ __forceinline__ void change_row(const Call& call, float* table, int row, float before, const Vector& way,
                                           float rate, const Lane& warp) {
    float squared = total(dot(way, way));
    if (squared > 0 && call.learns) {
        raise_row(table, row, warp, step_of(rate, before, squared), way);
        if (warp.id == 0) raise_tail(table, row, 0, squared * (1.0f / DIM), 0);
    }
}

__device__ __forceinline__ void leave(const Call& call, const Room& room, int j, float rate, const Lane& warp) {
    int slot = (u32)j % SLOTS;
    change_row(call, call.table[1], room.item[slot], room.before[slot], kept(room.way, slot, warp), rate, warp);
    __syncwarp();
}

__device__ __forceinline__ void add_to_way(const Room& room, int slot, float s, const Vector& v, const Lane& warp) {
    Vector way = kept(room.way, slot, warp);
    add(way, s, v);
    keep(room.way, slot, warp, way);
}
