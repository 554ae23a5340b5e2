// A descriptor ring in vector mode: takes vectors from the driver, fetches each in one read burst, and delivers the
// descriptors in order. It holds two waiting vectors and 64 descriptors.
`default_nettype none

module hero_ring #(
    parameter DESCRIPTORS = 64,  // held; power of two
    parameter VECTOR = 32  // descriptors of a vector, at most
) (
    input  wire        sys_clk,
    input  wire        sys_rst,
    // A vector given: {address 31:8, count 7:0}
    input  wire        give,
    input  wire [31:0] vector,
    output wire        taken,
    output wire        refused,      // no vector free, or a count not 1-32
    output wire [ 1:0] free,         // vectors that can be given
    output wire [ 7:0] held,         // descriptors fetched and not yet handed out
    output wire        used_up,      // pulse: neither descriptors nor vectors are left
    output wire        failed,       // pulse: a vector could not be read
    output wire [ 5:0] failed_count, // its descriptors
    // DMA read client
    output wire        req,
    output wire [31:0] addr,
    output wire [ 8:0] beats,
    input  wire        gnt,
    input  wire        rvalid,
    output wire        rready,
    input  wire [63:0] rdata,
    input  wire        rlast,
    input  wire        err,
    // The next descriptor
    output reg         valid,
    output wire [31:0] buffer,       // bus address
    output wire [15:0] len,          // octets
    input  wire        pop
);
    // Vectors: `first` is the one being fetched.
    reg [29:0] first, second;  // {address 31:8, count 5:0}
    reg [1:0] vectors;
    wire [7:0] count = vector[7:0];
    assign taken = give && count != 8'd0 && {24'd0, count} <= VECTOR && vectors != 2'd2;
    assign refused = give && !taken;
    assign free = 2'd2 - vectors;
    wire [29:0] given = {vector[31:8], vector[5:0]};

    // Descriptors of a vector become valid when all of them have been read without error.
    (* ram_style = "block" *) reg [47:0] memory[0:DESCRIPTORS-1];
    reg [47:0] front;
    localparam AW = $clog2(DESCRIPTORS);
    reg [AW:0] head, tail;  // tail: written and whole
    reg [5:0] offset;
    wire [AW:0] level = tail - head;
    wire [7:0] whole_vector = {2'd0, first[5:0]};
    wire [AW-1:0] place = tail[AW-1:0] + offset[AW-1:0];

    reg asked, fetching;
    wire finished = rvalid && rlast;
    assign req = asked;
    assign addr = {first[29:6], 8'd0};
    assign beats = {3'd0, first[5:0]};
    assign rready = 1'b1;
    assign held = {{7 - AW{1'b0}}, level};
    assign failed = finished && err;
    assign failed_count = first[5:0];
    assign {len, buffer} = front;

    always @(posedge sys_clk) begin
        if (rvalid) memory[place] <= rdata[47:0];
        front <= memory[head[AW-1:0]];
    end

    reg was_empty;
    wire empty = level == 0 && vectors == 2'd0;
    assign used_up = empty && !was_empty;

    always @(posedge sys_clk) begin
        if (finished) begin
            first <= taken && vectors == 2'd1 ? given : second;
            if (taken) second <= given;
        end else if (taken) begin
            if (vectors == 2'd0) first <= given;
            else second <= given;
        end
        vectors <= vectors + {1'b0, taken} - {1'b0, finished};

        if (gnt) begin
            asked <= 1'b0;
            fetching <= 1'b1;
        end else if (!asked && !fetching && vectors != 2'd0 && {24'd0, held} <= DESCRIPTORS - VECTOR) asked <= 1'b1;
        if (rvalid) offset <= offset + 6'd1;
        if (finished) begin
            fetching <= 1'b0;
            offset <= 6'd0;
            if (!err) tail <= tail + whole_vector[AW:0];
        end
        if (pop) head <= head + 1'b1;
        valid <= level != 0 && !pop;  // a cycle later than `level`, as `front` is
        was_empty <= empty;
        if (sys_rst) begin
            vectors <= 2'd0;
            head <= 0;
            tail <= 0;
            offset <= 6'd0;
            asked <= 1'b0;
            fetching <= 1'b0;
            valid <= 1'b0;
            was_empty <= 1'b1;
        end
    end
    wire unused = &{1'b0, rdata[63:48], whole_vector};

`ifdef FORMAL
    reg past = 0;  // the last cycle was none of reset
    always @(posedge sys_clk) past <= !sys_rst;
    initial assume (sys_rst);
    wire running = past && !sys_rst;

    // The DMA master: as many words as asked, after the grant
    always @* begin
        if (gnt) assume (req);
        if (rvalid) assume (fetching && rlast == (offset + 6'd1 == first[5:0]));
        if (pop) assume (valid);
    end

    // No descriptor is overwritten before it is delivered, and only fetched ones are delivered
    wire [7:0] offset_wide = {2'd0, offset};
    wire [7:0] room = DESCRIPTORS[7:0] - held;
    always @(posedge sys_clk)
        if (running) begin
            room_for_all: assert (held <= DESCRIPTORS[7:0] && {2'b0, offset} <= room);
            two_vectors: assert (vectors != 2'd3);
            if (vectors != 2'd0) first_count: assert (first[5:0] != 6'd0 && first[5:0] <= VECTOR[5:0]);
            if (vectors == 2'd2) second_count: assert (second[5:0] != 6'd0 && second[5:0] <= VECTOR[5:0]);
            if (asked || fetching) room_for_the_vector: assert (vectors != 2'd0 && {2'b0, first[5:0]} <= room);
            one_fetch: assert (!(asked && fetching));
            if (fetching) offset_in_the_vector: assert (offset < first[5:0]);
            else offset_at_rest: assert (offset == 6'd0);
            if (valid) valid_is_there: assert (level != 0);
            if ($past(req && !gnt)) p9_request: assert (req && $stable(addr) && $stable(beats));
            if ($past(failed && !pop)) failed_leaves_none: assert ($stable(level));
        end

    // An arbitrary descriptor, chosen by the solver, comes out unchanged and in order
    (* anyseq *) wire mark;
    reg marked = 0, whole = 0;  // whole: its vector was read
    reg [AW:0] ahead;  // places before it
    reg [AW-1:0] marked_at;
    reg [47:0] descriptor;
    wire mark_now = mark && rvalid && !marked;
    wire out = marked && pop && ahead == 0;
    always @(posedge sys_clk) begin
        if (mark_now) begin
            marked <= 1;
            marked_at <= place;
            descriptor <= rdata[47:0];
            ahead <= level + offset_wide[AW:0] - {{AW{1'b0}}, pop};
        end else if (marked && pop) ahead <= ahead - 1'b1;
        if (finished && !err && (marked || mark_now)) whole <= 1;
        if (out || finished && err && !whole) {marked, whole} <= 2'b00;
        if (sys_rst) {marked, whole} <= 2'b00;
        if (running) whole_is_marked: assert (marked || !whole);
        if (running && marked) begin
            kept: assert (memory[marked_at] == descriptor && marked_at == head[AW-1:0] + ahead[AW-1:0]);
            turn: assert (whole ? ahead < level : fetching && ahead >= level && ahead < level + offset_wide[AW:0]);
            if (valid && ahead == 0) front_is_it: assert (front == descriptor);
            if (out) unchanged: assert (whole && {len, buffer} == descriptor);
        end
    end

    always @(posedge sys_clk)
        if (running) begin
            c_full: cover (held == DESCRIPTORS);
            c_all_places_used: cover (tail[AW] && head == tail);
            c_failed: cover (failed && held != 0);
            c_used_up: cover (used_up);
        end
`endif
endmodule

`default_nettype wire
