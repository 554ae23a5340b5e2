// Slow path, from host memory to the line: one frame for each descriptor, completed when the card has the frame.
`default_nettype none

module hero_slow_tx #(
    parameter SLOW_TX_WORDS = 2048,
    parameter MTU = 1500  // octets
) (
    input  wire        sys_clk,
    input  wire        sys_rst,
    input  wire        enable,
    // Descriptors
    input  wire        give,
    input  wire [31:0] vector,
    output wire        refused,
    output wire [ 1:0] free,
    output reg  [ 8:0] pending,      // frames of the vectors given that are not completed
    input  wire        completed,    // pulse: one was
    // DMA read clients: 0 the ring, 1 the frames
    output wire [ 1:0] dma_req,
    output wire [63:0] dma_addr,
    output wire [17:0] dma_beats,
    input  wire [ 1:0] dma_gnt,
    input  wire [ 1:0] dma_rvalid,
    output wire [ 1:0] dma_rready,
    input  wire [63:0] rdata,
    input  wire        rlast,
    input  wire        rerr,
    // To hero_out
    output wire        out_valid,
    input  wire        out_ready,
    output wire [63:0] out_data,
    output wire        out_last,
    output wire [15:0] out_len,
    // To hero_cpl
    output wire        cpl_valid,
    input  wire        cpl_ready,
    output wire [49:0] cpl_data,
    output reg         bad_length,   // pulses: fewer than 14 octets or more than MTU + 18;
    output reg         bad_buffer    // misaligned or across a page. Neither is sent; the completion says error.
);
    localparam PACKETS = 256;
    localparam IDLE = 3'd0, CHECK = 3'd1, ROOM = 3'd2, ASK = 3'd3, DATA = 3'd4, COMPLETE = 3'd5;
    reg [2:0] state;

    wire valid, taken, failed, used_up;
    wire [5:0] failed_count;
    wire [7:0] held;
    wire [31:0] front;
    wire [15:0] front_len;
    reg pop;
    hero_ring ring (
        .sys_clk(sys_clk), .sys_rst(sys_rst),
        .give(give), .vector(vector), .taken(taken), .refused(refused), .free(free),
        .held(held), .used_up(used_up), .failed(failed), .failed_count(failed_count),
        .req(dma_req[0]), .addr(dma_addr[31:0]), .beats(dma_beats[8:0]), .gnt(dma_gnt[0]),
        .rvalid(dma_rvalid[0]), .rready(dma_rready[0]), .rdata(rdata), .rlast(rlast), .err(rerr),
        .valid(valid), .buffer(front), .len(front_len), .pop(pop)
    );

    reg [31:0] buffer;
    reg [15:0] len;
    reg error;
    reg [6:0] gone;  // completed, or given up
    localparam [15:0] MAX_OCTETS = MTU[15:0] + 16'd18;
    wire length_ok = len >= 16'd14 && len <= MAX_OCTETS;
    wire [8:0] words = {1'b0, len[10:3]} + {8'd0, |len[2:0]};
    wire [9:0] page_room = 10'd512 - {1'b0, buffer[11:3]};
    wire buffer_ok = buffer[2:0] == 3'd0 && {1'b0, words} <= page_room;
    always @(posedge sys_clk) begin
        bad_length <= state == CHECK && !length_ok;
        bad_buffer <= state == CHECK && length_ok && !buffer_ok;
    end

    wire word = state == DATA && dma_rvalid[1];
    wire [$clog2(SLOW_TX_WORDS):0] level, whole;
    wire [$clog2(PACKETS):0] packets;
    wire head;
    hero_packet_fifo #(.WORDS(SLOW_TX_WORDS), .PACKETS(PACKETS)) fifo (
        .clk(sys_clk), .rst(sys_rst),
        .wr_valid(word), .wr_data(rdata), .wr_commit(word && rlast), .wr_len(len), .wr_abort(word && rlast && rerr),
        .level(level), .words(whole), .packets(packets),
        .rd_head(head), .rd_len(out_len), .rd_valid(out_valid), .rd_ready(out_ready), .rd_data(out_data),
        .rd_last(out_last)
    );
    localparam FREE = SLOW_TX_WORDS - (MTU + 25) / 8;
    reg room;  // for the longest frame
    always @(posedge sys_clk) room <= {{31 - $clog2(SLOW_TX_WORDS){1'b0}}, level} <= FREE && packets < PACKETS[$clog2(PACKETS):0];

    always @(posedge sys_clk) begin
        pop <= 1'b0;
        case (state)
            IDLE: begin
                buffer <= front;
                len <= front_len;
                if (valid && enable) begin
                    pop <= 1'b1;
                    state <= CHECK;
                end
            end
            CHECK: begin
                error <= !length_ok || !buffer_ok;
                state <= length_ok && buffer_ok ? ROOM : COMPLETE;
            end
            ROOM: if (room) state <= ASK;
            ASK: if (dma_gnt[1]) state <= DATA;
            DATA:
            if (word && rlast) begin
                error <= rerr;
                state <= COMPLETE;
            end
            default: if (cpl_ready) state <= IDLE;
        endcase
        gone <= {6'd0, completed} + (failed ? {1'b0, failed_count} : 7'd0);
        pending <= pending + (taken ? {3'd0, vector[5:0]} : 9'd0) - {2'd0, gone};
        if (sys_rst) begin
            state <= IDLE;
            pop <= 1'b0;
            pending <= 9'd0;
            gone <= 7'd0;
        end
    end

    assign dma_req[1] = state == ASK;
    assign dma_addr[63:32] = buffer;
    assign dma_beats[17:9] = words;
    assign dma_rready[1] = state == DATA;
    assign cpl_valid = state == COMPLETE;
    assign cpl_data = {error, 1'b0, len, buffer};
    wire unused = &{1'b0, held, used_up, whole, head};
endmodule

`default_nettype wire
