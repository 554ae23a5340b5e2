// The slow path with its DMA masters: the device under test of test_slow.py.
`default_nettype none

module slow_bench #(
    parameter SLOW_TX_WORDS = 2048,
    parameter MTU = 1500
) (
    input  wire         sys_clk,
    input  wire         sys_rst,
    input  wire         quiesce,
    output wire         quiet,
    input  wire         tx_enable,
    input  wire [31:13] cpl_base,
    input  wire [  2:0] give,
    input  wire [ 31:0] vector,
    output wire [  5:0] free,
    output wire [ 15:0] held,
    output wire [  8:0] tx_len,
    input  wire [  1:0] h_head,
    input  wire [ 31:0] h_len,
    output wire         h_start,
    output wire         h_prio,
    input  wire         h_valid,
    output wire         h_ready,
    input  wire [ 63:0] h_data,
    input  wire         h_last,
    output wire         out_valid,
    input  wire         out_ready,
    output wire [ 63:0] out_data,
    output wire         out_last,
    output wire [ 15:0] out_len,
    output wire [  2:0] completed,
    output wire [  1:0] used_up,
    output wire         refused,
    output wire         bad_length,
    output wire [  1:0] bad_buffer,
    output wire         lost,
    output wire [  2:0] broken,
    output wire         wr_failed,
    output wire         rd_failed,
    output wire [  3:0] m_axi_awid,
    output wire [ 31:0] m_axi_awaddr,
    output wire [  7:0] m_axi_awlen,
    output wire [  2:0] m_axi_awsize,
    output wire [  1:0] m_axi_awburst,
    output wire         m_axi_awlock,
    output wire [  3:0] m_axi_awcache,
    output wire [  2:0] m_axi_awprot,
    output wire         m_axi_awvalid,
    input  wire         m_axi_awready,
    output wire [ 63:0] m_axi_wdata,
    output wire [  7:0] m_axi_wstrb,
    output wire         m_axi_wlast,
    output wire         m_axi_wvalid,
    input  wire         m_axi_wready,
    input  wire [  3:0] m_axi_bid,
    input  wire [  1:0] m_axi_bresp,
    input  wire         m_axi_bvalid,
    output wire         m_axi_bready,
    output wire [  3:0] m_axi_arid,
    output wire [ 31:0] m_axi_araddr,
    output wire [  7:0] m_axi_arlen,
    output wire [  2:0] m_axi_arsize,
    output wire [  1:0] m_axi_arburst,
    output wire         m_axi_arlock,
    output wire [  3:0] m_axi_arcache,
    output wire [  2:0] m_axi_arprot,
    output wire         m_axi_arvalid,
    input  wire         m_axi_arready,
    input  wire [  3:0] m_axi_rid,
    input  wire [ 63:0] m_axi_rdata,
    input  wire [  1:0] m_axi_rresp,
    input  wire         m_axi_rlast,
    input  wire         m_axi_rvalid,
    output wire         m_axi_rready
);
    wire [1:0] wr_req, wr_gnt, wr_wvalid, wr_wready, wr_done;
    wire [63:0] wr_addr;
    wire [17:0] wr_beats;
    wire [127:0] wr_wdata;
    wire wr_err;
    wire [3:0] rd_req, rd_gnt, rd_rvalid, rd_rready;
    wire [127:0] rd_addr;
    wire [35:0] rd_beats;
    wire [63:0] rd_rdata;
    wire rd_rlast, rd_err, wr_quiet, rd_quiet;
    assign quiet = wr_quiet && rd_quiet;

    hero_slow #(.SLOW_TX_WORDS(SLOW_TX_WORDS), .MTU(MTU)) slow (.*);
    hero_dma_wr #(.N(2), .W(1)) dma_wr (
        .*, .quiet(wr_quiet), .failed(wr_failed), .req(wr_req), .addr(wr_addr), .beats(wr_beats), .gnt(wr_gnt),
        .wvalid(wr_wvalid), .wready(wr_wready), .wdata(wr_wdata), .done(wr_done), .err(wr_err)
    );
    hero_dma_rd dma_rd (
        .*, .quiet(rd_quiet), .failed(rd_failed), .req(rd_req), .addr(rd_addr), .beats(rd_beats), .gnt(rd_gnt),
        .rvalid(rd_rvalid), .rready(rd_rready), .rdata(rd_rdata), .rlast(rd_rlast), .err(rd_err)
    );
endmodule

`default_nettype wire
