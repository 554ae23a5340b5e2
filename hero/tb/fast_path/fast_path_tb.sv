// The fast path of four cards and the bus between them: VOQ, both ends and the write DMA engine of each card. The bench
// drives `card[k]`: frames into the VOQ, packets out, resets.
`default_nettype none
/* verilator lint_off PINMISSING */ // outputs that the bench does not look at

module fast_path_tb #(
    parameter BUS = 1,
    parameter SETUP = 8,
    parameter VOQ_WORDS = 512,
    parameter DST_WORDS = 1024,
    parameter MTU_WORDS = 190,
    parameter GRANT_WORDS = 190,
    parameter TIMEOUT = 4096
) (
    input wire clk /* verilator public_flat_rw */,
    input wire rst /* verilator public_flat_rw */
);
    wire [4*32-1:0] s_awaddr;
    wire [4*8-1:0] s_awlen, s_wstrb;
    wire [4*64-1:0] s_wdata;
    wire [4*2-1:0] s_bresp;
    wire [3:0] s_awvalid, s_awready, s_wlast, s_wvalid, s_wready, s_bvalid, s_bready;
    wire [5*4-1:0] m_awid;
    wire [5*32-1:0] m_awaddr;
    wire [5*8-1:0] m_awlen, m_wstrb;
    wire [5*64-1:0] m_wdata;
    wire [5*2-1:0] m_bresp;
    wire [4:0] m_awvalid, m_awready, m_wlast, m_wvalid, m_wready, m_bvalid, m_bready;
    // Nobody writes to the host.
    assign m_awready[4] = 1'b0;
    assign m_wready[4] = 1'b0;
    assign m_bvalid[4] = 1'b0;
    assign m_bresp[9:8] = 2'd0;

    genvar k;
    generate
        for (k = 0; k < 4; k = k + 1) begin : card
            /* verilator public_flat_rw_on */
            reg soft_rst, quiesce;
            wire quiet;
            reg [3*32-1:0] peer_base;
            reg [2:0] enq_queue;
            reg [15:0] enq_len;
            reg enq_valid, enq_last;
            reg [63:0] enq_data;
            wire enq_room;
            reg out_ready;
            wire out_valid, out_last;
            wire [63:0] out_data;
            wire [15:0] out_len;
            wire repeated, burst_sent, src_error, dst_error;
            wire drop_no_grant, drop_over_grant, drop_timeout, drop_malformed, granted;
            /* verilator public_off */
            wire core_rst = rst || soft_rst;
            wire [5:0] f_head;
            wire [6*16-1:0] f_len;
            wire [6*13-1:0] f_words;
            wire [2:0] f_queue;
            wire [63:0] f_data;
            wire f_start, f_valid, f_ready, f_last;
            wire [2:0] rsp_in_valid, rsp_in_take;
            wire [3*32-1:0] rsp_in;
            wire [3:0] req, gnt, wvalid, wready, done;
            wire [4*32-1:0] addr;
            wire [4*9-1:0] beats;
            wire [4*64-1:0] wdata;
            wire err;
            assign req[3:2] = 2'd0;
            assign wvalid[3:2] = 2'd0;
            assign addr[4*32-1:2*32] = 64'd0;
            assign beats[4*9-1:2*9] = 18'd0;
            assign wdata[4*64-1:2*64] = 128'd0;

            hero_voq #(
                .VOQ_WORDS(VOQ_WORDS),
                .VOQ_PACKETS(VOQ_WORDS / 8)
            ) voq (
                .clk(clk),
                .rst(core_rst),
                .enq_queue(enq_queue),
                .enq_len(enq_len),
                .enq_room(enq_room),
                .enq_valid(enq_valid),
                .enq_data(enq_data),
                .enq_last(enq_last),
                .f_head(f_head),
                .f_len(f_len),
                .f_words(f_words),
                .f_start(f_start),
                .f_queue(f_queue),
                .f_valid(f_valid),
                .f_ready(f_ready),
                .f_data(f_data),
                .f_last(f_last),
                .h_start(1'b0),
                .h_prio(1'b0),
                .h_ready(1'b0)
            );

            hero_fast_src #(
                .TIMEOUT(TIMEOUT)
            ) src (
                .sys_clk(clk),
                .sys_rst(core_rst),
                .card(k[1:0]),
                .peer_base(peer_base),
                .f_head(f_head),
                .f_len(f_len),
                .f_words(f_words),
                .f_start(f_start),
                .f_queue(f_queue),
                .f_valid(f_valid),
                .f_ready(f_ready),
                .f_data(f_data),
                .f_last(f_last),
                .rsp_in_valid(rsp_in_valid),
                .rsp_in(rsp_in),
                .rsp_in_take(rsp_in_take),
                .dma_req(req[0]),
                .dma_addr(addr[31:0]),
                .dma_beats(beats[8:0]),
                .dma_gnt(gnt[0]),
                .dma_wvalid(wvalid[0]),
                .dma_wready(wready[0]),
                .dma_wdata(wdata[63:0]),
                .dma_done(done[0]),
                .dma_err(err),
                .repeated(repeated),
                .burst_sent(burst_sent),
                .bus_error(src_error)
            );

            hero_fast_dst #(
                .DST_WORDS(DST_WORDS),
                .MTU_WORDS(MTU_WORDS),
                .GRANT_WORDS(GRANT_WORDS),
                .TIMEOUT(TIMEOUT)
            ) dst (
                .sys_clk(clk),
                .sys_rst(rst),
                .soft_rst(soft_rst),
                .card(k[1:0]),
                .peer_base(peer_base),
                .s_axi_awid(m_awid[4*k+:4]),
                .s_axi_awaddr(m_awaddr[32*k+:32]),
                .s_axi_awlen(m_awlen[8*k+:8]),
                .s_axi_awvalid(m_awvalid[k]),
                .s_axi_awready(m_awready[k]),
                .s_axi_wdata(m_wdata[64*k+:64]),
                .s_axi_wlast(m_wlast[k]),
                .s_axi_wvalid(m_wvalid[k]),
                .s_axi_wready(m_wready[k]),
                .s_axi_bresp(m_bresp[2*k+:2]),
                .s_axi_bvalid(m_bvalid[k]),
                .s_axi_bready(m_bready[k]),
                .dma_req(req[1]),
                .dma_addr(addr[63:32]),
                .dma_beats(beats[17:9]),
                .dma_gnt(gnt[1]),
                .dma_wvalid(wvalid[1]),
                .dma_wready(wready[1]),
                .dma_wdata(wdata[127:64]),
                .dma_done(done[1]),
                .dma_err(err),
                .out_valid(out_valid),
                .out_ready(out_ready),
                .out_data(out_data),
                .out_last(out_last),
                .out_len(out_len),
                .rsp_in_valid(rsp_in_valid),
                .rsp_in(rsp_in),
                .rsp_in_take(rsp_in_take),
                .drop_no_grant(drop_no_grant),
                .drop_over_grant(drop_over_grant),
                .drop_timeout(drop_timeout),
                .drop_malformed(drop_malformed),
                .granted(granted),
                .bus_error(dst_error)
            );

            hero_dma_wr dma (
                .sys_clk(clk),
                .sys_rst(core_rst),
                .quiesce(quiesce),
                .quiet(quiet),
                .req(req),
                .addr(addr),
                .beats(beats),
                .gnt(gnt),
                .wvalid(wvalid),
                .wready(wready),
                .wdata(wdata),
                .done(done),
                .err(err),
                .m_axi_awaddr(s_awaddr[32*k+:32]),
                .m_axi_awlen(s_awlen[8*k+:8]),
                .m_axi_awvalid(s_awvalid[k]),
                .m_axi_awready(s_awready[k]),
                .m_axi_wdata(s_wdata[64*k+:64]),
                .m_axi_wstrb(s_wstrb[8*k+:8]),
                .m_axi_wlast(s_wlast[k]),
                .m_axi_wvalid(s_wvalid[k]),
                .m_axi_wready(s_wready[k]),
                .m_axi_bid(4'd0),
                .m_axi_bresp(s_bresp[2*k+:2]),
                .m_axi_bvalid(s_bvalid[k]),
                .m_axi_bready(s_bready[k])
            );
        end
    endgenerate

`define PORTS \
    .sys_clk(clk), .sys_rst(rst), \
    .s_axi_awaddr(s_awaddr), .s_axi_awlen(s_awlen), .s_axi_awvalid(s_awvalid), .s_axi_awready(s_awready), \
    .s_axi_wdata(s_wdata), .s_axi_wstrb(s_wstrb), .s_axi_wlast(s_wlast), .s_axi_wvalid(s_wvalid), \
    .s_axi_wready(s_wready), .s_axi_bresp(s_bresp), .s_axi_bvalid(s_bvalid), .s_axi_bready(s_bready), \
    .s_axi_araddr(128'd0), .s_axi_arlen(32'd0), .s_axi_arvalid(4'd0), .s_axi_rready(4'd0), \
    .m_axi_awid(m_awid), .m_axi_awaddr(m_awaddr), .m_axi_awlen(m_awlen), .m_axi_awvalid(m_awvalid), \
    .m_axi_awready(m_awready), .m_axi_wdata(m_wdata), .m_axi_wstrb(m_wstrb), .m_axi_wlast(m_wlast), \
    .m_axi_wvalid(m_wvalid), .m_axi_wready(m_wready), .m_axi_bresp(m_bresp), .m_axi_bvalid(m_bvalid), \
    .m_axi_bready(m_bready), .m_axi_arready(1'b0), .m_axi_rdata(64'd0), .m_axi_rresp(2'd0), .m_axi_rlast(1'b0), \
    .m_axi_rvalid(1'b0)

    generate
        if (BUS == 0) begin : g_pcix
            bus_pcix #(
                .SETUP(SETUP)
            ) bus (
                `PORTS
            );
        end else begin : g_xbar
            axi_xbar bus (`PORTS);
        end
    endgenerate
endmodule

`default_nettype wire
