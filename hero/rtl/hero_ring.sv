// A descriptor ring in vector mode: takes vectors from the driver, fetches each in one read burst, hands the
// descriptors out in order. Two vectors can wait; 64 descriptors are held.
`default_nettype none

module hero_ring (
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
    // The descriptor in front
    output reg         valid,
    output wire [31:0] buffer,       // bus address
    output wire [15:0] len,          // octets
    input  wire        pop
);
    // Vectors: `first` is the one being fetched.
    reg [29:0] first, second;  // {address 31:8, count 5:0}
    reg [1:0] vectors;
    wire [7:0] count = vector[7:0];
    assign taken = give && count != 8'd0 && count <= 8'd32 && vectors != 2'd2;
    assign refused = give && !taken;
    assign free = 2'd2 - vectors;
    wire [29:0] given = {vector[31:8], vector[5:0]};

    // Descriptors: those of a vector count when its last one is there without error.
    (* ram_style = "block" *) reg [47:0] memory[0:63];
    reg [47:0] front;
    reg [6:0] head, tail;  // tail: written and whole
    reg [5:0] offset;
    wire [6:0] level = tail - head;
    wire [6:0] place = tail + {1'b0, offset};

    reg asked, fetching;
    wire finished = rvalid && rlast;
    assign req = asked;
    assign addr = {first[29:6], 8'd0};
    assign beats = {3'd0, first[5:0]};
    assign rready = 1'b1;
    assign held = {1'b0, level};
    assign failed = finished && err;
    assign failed_count = first[5:0];
    assign {len, buffer} = front;

    always @(posedge sys_clk) begin
        if (rvalid) memory[place[5:0]] <= rdata[47:0];
        front <= memory[head[5:0]];
    end

    reg was_empty;
    wire empty = level == 7'd0 && vectors == 2'd0;
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
        end else if (!asked && !fetching && vectors != 2'd0 && level <= 7'd32) asked <= 1'b1;
        if (rvalid) offset <= offset + 6'd1;
        if (finished) begin
            fetching <= 1'b0;
            offset <= 6'd0;
            if (!err) tail <= tail + {1'b0, first[5:0]};
        end
        if (pop) head <= head + 7'd1;
        valid <= level != 7'd0 && !pop;  // a cycle later than `level`, as `front` is
        was_empty <= empty;
        if (sys_rst) begin
            vectors <= 2'd0;
            head <= 7'd0;
            tail <= 7'd0;
            offset <= 6'd0;
            asked <= 1'b0;
            fetching <= 1'b0;
            valid <= 1'b0;
            was_empty <= 1'b1;
        end
    end
    wire unused = &{1'b0, rdata[63:48], place[6]};
endmodule

`default_nettype wire
