// Slow path, from the host's queues to host memory: writes a frame into the next buffer of its priority's ring, then its
// completion. High priority first; a priority without descriptors does not block the other.
`default_nettype none

module hero_slow_rx (
    input  wire         sys_clk,
    input  wire         sys_rst,
    // Descriptors: bit, or field, 0 low priority, 1 high
    input  wire [  1:0] give,
    input  wire [ 31:0] vector,
    output wire [  1:0] refused,
    output wire [  3:0] free,
    output wire [ 15:0] held,
    output wire [  1:0] used_up,
    // DMA read clients: the rings
    output wire [  1:0] ring_req,
    output wire [ 63:0] ring_addr,
    output wire [ 17:0] ring_beats,
    input  wire [  1:0] ring_gnt,
    input  wire [  1:0] ring_rvalid,
    output wire [  1:0] ring_rready,
    input  wire [ 63:0] rdata,
    input  wire         rlast,
    input  wire         rerr,
    // The host's queues of hero_voq
    input  wire [  1:0] h_head,
    input  wire [ 31:0] h_len,
    output wire         h_start,
    output reg          h_prio,
    input  wire         h_valid,
    output wire         h_ready,
    input  wire [ 63:0] h_data,
    input  wire         h_last,
    // DMA write client
    output wire         dma_req,
    output wire [ 31:0] dma_addr,
    output wire [  8:0] dma_beats,
    input  wire         dma_gnt,
    output wire         dma_wvalid,
    input  wire         dma_wready,
    output wire [ 63:0] dma_wdata,
    input  wire         dma_done,
    input  wire         dma_err,
    // To hero_cpl
    output wire         cpl_valid,
    input  wire         cpl_ready,
    output wire [ 49:0] cpl_data,
    output reg          bad_buffer   // pulse: a buffer was misaligned or crossed a page; its completion says error
);
    localparam IDLE = 3'd0, CHECK = 3'd1, ASK = 3'd2, DATA = 3'd3, WAIT = 3'd4, COMPLETE = 3'd5;
    reg [2:0] state;

    wire [1:0] valid;
    wire [63:0] buffers;
    reg [1:0] pop;
    genvar p;
    generate
        for (p = 0; p < 2; p = p + 1) begin : ring
            wire [15:0] size;  // always 2048, unused
            wire taken, failed;
            wire [5:0] failed_count;
            hero_ring ring (
                .sys_clk(sys_clk), .sys_rst(sys_rst),
                .give(give[p]), .vector(vector), .taken(taken), .refused(refused[p]), .free(free[p*2+:2]),
                .held(held[p*8+:8]), .used_up(used_up[p]), .failed(failed), .failed_count(failed_count),
                .req(ring_req[p]), .addr(ring_addr[p*32+:32]), .beats(ring_beats[p*9+:9]), .gnt(ring_gnt[p]),
                .rvalid(ring_rvalid[p]), .rready(ring_rready[p]), .rdata(rdata), .rlast(rlast), .err(rerr),
                .valid(valid[p]), .buffer(buffers[p*32+:32]), .len(size), .pop(pop[p])
            );
            wire unused = &{1'b0, size, taken, failed, failed_count};
        end
    endgenerate

    reg [31:0] buffer;
    reg [15:0] len;
    reg error;
    wire [12:0] words = {1'b0, len[14:3]} + {12'd0, |len[2:0]};
    wire [12:0] page_room = 13'd512 - {4'd0, buffer[11:3]};
    wire bad = buffer[2:0] != 3'd0 || words > page_room;
    wire [1:0] possible = h_head & valid;
    wire slice_ready;

    always @(posedge sys_clk) begin
        pop <= 2'b00;
        case (state)
            IDLE: begin
                h_prio <= possible[1];
                len <= possible[1] ? h_len[31:16] : h_len[15:0];
                buffer <= possible[1] ? buffers[63:32] : buffers[31:0];
                if (possible != 2'b00) begin
                    pop <= possible[1] ? 2'b10 : 2'b01;
                    state <= CHECK;
                end
            end
            CHECK: begin
                error <= bad;
                state <= bad ? COMPLETE : ASK;
            end
            ASK: if (dma_gnt) state <= DATA;
            DATA: if (h_valid && slice_ready && h_last) state <= WAIT;
            WAIT:
            if (dma_done) begin
                error <= dma_err;
                state <= COMPLETE;
            end
            default: if (cpl_ready) state <= IDLE;
        endcase
        if (sys_rst) begin
            state <= IDLE;
            pop <= 2'b00;
        end
    end

    // An unusable buffer is completed with length 0, and the frame goes to the next one.
    reg unusable;
    always @(posedge sys_clk) if (state == CHECK) unusable <= bad;
    always @(posedge sys_clk) bad_buffer <= state == CHECK && bad;

    assign h_start = state == ASK && dma_gnt;
    assign h_ready = state == DATA && slice_ready;
    hero_skid #(.WIDTH(64)) slice (
        .clk(sys_clk), .rst(sys_rst),
        .in_valid(h_valid && state == DATA), .in_ready(slice_ready), .in_data(h_data),
        .out_valid(dma_wvalid), .out_ready(dma_wready), .out_data(dma_wdata)
    );
    assign dma_req = state == ASK;
    assign dma_addr = buffer;
    assign dma_beats = words[8:0];
    assign cpl_valid = state == COMPLETE;
    assign cpl_data = {error, h_prio, unusable ? 16'd0 : len, buffer};
endmodule

`default_nettype wire
