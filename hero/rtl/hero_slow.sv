// The slow path of a card: receive, transmit and the completions of both.
`default_nettype none

module hero_slow #(
    parameter SLOW_TX_WORDS = 2048,
    parameter MTU = 1500
) (
    input  wire         sys_clk,
    input  wire         sys_rst,
    input  wire         tx_enable,
    input  wire [31:13] cpl_base,
    // Vectors: bit, or field, 0 RXLO, 1 RXHI, 2 TX
    input  wire [  2:0] give,
    input  wire [ 31:0] vector,
    output wire [  5:0] free,
    output wire [ 15:0] held,
    output wire [  8:0] tx_len,
    // The host's queues of hero_voq
    input  wire [  1:0] h_head,
    input  wire [ 31:0] h_len,
    output wire         h_start,
    output wire         h_prio,
    input  wire         h_valid,
    output wire         h_ready,
    input  wire [ 63:0] h_data,
    input  wire         h_last,
    // To hero_out
    output wire         out_valid,
    input  wire         out_ready,
    output wire [ 63:0] out_data,
    output wire         out_last,
    output wire [ 15:0] out_len,
    // DMA write clients: 0 frames, 1 completions
    output wire [  1:0] wr_req,
    output wire [ 63:0] wr_addr,
    output wire [ 17:0] wr_beats,
    input  wire [  1:0] wr_gnt,
    output wire [  1:0] wr_wvalid,
    input  wire [  1:0] wr_wready,
    output wire [127:0] wr_wdata,
    input  wire [  1:0] wr_done,
    input  wire         wr_err,
    // DMA read clients: 0 RXLO, 1 RXHI, 2 TX descriptors, 3 frames
    output wire [  3:0] rd_req,
    output wire [127:0] rd_addr,
    output wire [ 35:0] rd_beats,
    input  wire [  3:0] rd_gnt,
    input  wire [  3:0] rd_rvalid,
    output wire [  3:0] rd_rready,
    input  wire [ 63:0] rd_rdata,
    input  wire         rd_rlast,
    input  wire         rd_err,
    // Pulses
    output wire [  2:0] completed,
    output wire         lost,        // a completion
    output wire [  1:0] used_up,
    output wire         refused,
    output wire         bad_length,
    output wire [  1:0] bad_buffer,  // 0 receive, 1 transmit
    // State
    output wire [  2:0] broken       // rings with a lost completion
);
    wire [1:0] cpl_valid, cpl_ready;
    wire [99:0] cpl_data;
    wire [1:0] rx_refused;
    wire tx_refused;
    assign refused = |rx_refused || tx_refused;

    hero_slow_rx rx (
        .sys_clk(sys_clk), .sys_rst(sys_rst),
        .give(give[1:0]), .vector(vector), .refused(rx_refused), .free(free[3:0]), .held(held), .used_up(used_up),
        .ring_req(rd_req[1:0]), .ring_addr(rd_addr[63:0]), .ring_beats(rd_beats[17:0]), .ring_gnt(rd_gnt[1:0]),
        .ring_rvalid(rd_rvalid[1:0]), .ring_rready(rd_rready[1:0]), .rdata(rd_rdata), .rlast(rd_rlast), .rerr(rd_err),
        .h_head(h_head), .h_len(h_len), .h_start(h_start), .h_prio(h_prio), .h_valid(h_valid), .h_ready(h_ready),
        .h_data(h_data), .h_last(h_last),
        .dma_req(wr_req[0]), .dma_addr(wr_addr[31:0]), .dma_beats(wr_beats[8:0]), .dma_gnt(wr_gnt[0]),
        .dma_wvalid(wr_wvalid[0]), .dma_wready(wr_wready[0]), .dma_wdata(wr_wdata[63:0]), .dma_done(wr_done[0]),
        .dma_err(wr_err),
        .cpl_valid(cpl_valid[0]), .cpl_ready(cpl_ready[0]), .cpl_data(cpl_data[49:0]), .bad_buffer(bad_buffer[0])
    );

    hero_slow_tx #(.SLOW_TX_WORDS(SLOW_TX_WORDS), .MTU(MTU)) tx (
        .sys_clk(sys_clk), .sys_rst(sys_rst), .enable(tx_enable),
        .give(give[2]), .vector(vector), .refused(tx_refused), .free(free[5:4]), .pending(tx_len),
        .completed(completed[2]),
        .dma_req(rd_req[3:2]), .dma_addr(rd_addr[127:64]), .dma_beats(rd_beats[35:18]), .dma_gnt(rd_gnt[3:2]),
        .dma_rvalid(rd_rvalid[3:2]), .dma_rready(rd_rready[3:2]), .rdata(rd_rdata), .rlast(rd_rlast), .rerr(rd_err),
        .out_valid(out_valid), .out_ready(out_ready), .out_data(out_data), .out_last(out_last), .out_len(out_len),
        .cpl_valid(cpl_valid[1]), .cpl_ready(cpl_ready[1]), .cpl_data(cpl_data[99:50]),
        .bad_length(bad_length), .bad_buffer(bad_buffer[1])
    );

    hero_cpl cpl (
        .sys_clk(sys_clk), .sys_rst(sys_rst), .base(cpl_base),
        .in_valid(cpl_valid), .in_ready(cpl_ready), .in_data(cpl_data), .written(completed), .lost(lost), .broken(broken),
        .dma_req(wr_req[1]), .dma_addr(wr_addr[63:32]), .dma_beats(wr_beats[17:9]), .dma_gnt(wr_gnt[1]),
        .dma_wvalid(wr_wvalid[1]), .dma_wready(wr_wready[1]), .dma_wdata(wr_wdata[127:64]), .dma_done(wr_done[1]),
        .dma_err(wr_err)
    );
endmodule

`default_nettype wire
