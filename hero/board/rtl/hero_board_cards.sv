// The cards of a board without host: the bus between them, an error slave where the host's memory and the other two cards
// would be, and the choice of whose registers are meant.
`default_nettype none

module hero_board_cards #(
    parameter ROUTES = 16,
    parameter VOQ_WORDS = 512,
    parameter DST_WORDS = 1024,
    parameter SLOW_TX_WORDS = 512
) (
    input  wire        sys_clk,
    input  wire        sys_rst,
    input  wire        tx_clk,
    // Card k at k*width +: width, but each has a receive clock of its own
    input  wire        rx_clk0,
    input  wire        rx_clk1,
    input  wire [15:0] gmii_rxd,
    input  wire [ 1:0] gmii_rx_dv,
    input  wire [ 1:0] gmii_rx_er,
    output wire [15:0] gmii_txd,
    output wire [ 1:0] gmii_tx_en,
    output wire [ 1:0] gmii_tx_er,
    input  wire [ 1:0] link,
    // Registers, AXI4-Lite: the cards'
    input  wire [ 7:0] s_axil_awaddr,
    input  wire [ 1:0] s_axil_awvalid,
    output wire [ 1:0] s_axil_awready,
    input  wire [31:0] s_axil_wdata,
    input  wire [ 1:0] s_axil_wvalid,
    output wire [ 1:0] s_axil_wready,
    output wire [ 3:0] s_axil_bresp,
    output wire [ 1:0] s_axil_bvalid,
    input  wire        s_axil_bready,
    input  wire [ 7:0] s_axil_araddr,
    input  wire [ 1:0] s_axil_arvalid,
    output wire [ 1:0] s_axil_arready,
    output wire [63:0] s_axil_rdata,
    output wire [ 3:0] s_axil_rresp,
    output wire [ 1:0] s_axil_rvalid,
    input  wire        s_axil_rready
);
    // From the cards to the bus (c_), of which there are four places; from the bus to its slaves (t_): apertures 0-3, memory 4
    wire [4*32-1:0] c_awaddr, c_araddr;
    wire [4*8-1:0] c_awlen, c_wstrb, c_arlen;
    wire [3:0] c_awvalid, c_awready, c_wlast, c_wvalid, c_wready, c_bvalid, c_bready, c_arvalid, c_arready, c_rlast, c_rvalid, c_rready;
    wire [4*64-1:0] c_wdata, c_rdata;
    wire [4*2-1:0] c_bresp, c_rresp;
    wire [5*32-1:0] t_awaddr;
    wire [5*8-1:0] t_awlen, t_wstrb;
    wire [4:0] t_awvalid, t_awready, t_wlast, t_wvalid, t_wready, t_bvalid, t_bready;
    wire [5*64-1:0] t_wdata;
    wire [5*2-1:0] t_bresp;
    wire [5*4-1:0] t_awid;
    wire [3:0] arid;
    wire [31:0] araddr;
    wire [7:0] arlen;
    wire arvalid, arready, rlast, rvalid, rready;
    wire [1:0] rx_clk = {rx_clk1, rx_clk0};

    genvar k;
    generate
        for (k = 0; k < 2; k = k + 1) begin : g_card
            wire [3:0] awid, awcache, m_arid, arcache, bid;
            wire [2:0] awsize, awprot, arsize, arprot;
            wire [1:0] awburst, arburst;
            wire awlock, arlock, irq;  // nobody is interrupted
            wire [2:0] vectors;
            hero_card #(
                .ROUTES(ROUTES), .VOQ_WORDS(VOQ_WORDS), .DST_WORDS(DST_WORDS), .SLOW_TX_WORDS(SLOW_TX_WORDS)
            ) card (
                .rx_clk(rx_clk[k]), .tx_clk(tx_clk), .sys_clk(sys_clk), .sys_rst(sys_rst),
                .gmii_rxd(gmii_rxd[k*8+:8]), .gmii_rx_dv(gmii_rx_dv[k]), .gmii_rx_er(gmii_rx_er[k]),
                .gmii_txd(gmii_txd[k*8+:8]), .gmii_tx_en(gmii_tx_en[k]), .gmii_tx_er(gmii_tx_er[k]), .link(link[k]),
                .irq(irq), .vectors(vectors),
                .s_axil_awaddr(s_axil_awaddr), .s_axil_awvalid(s_axil_awvalid[k]), .s_axil_awready(s_axil_awready[k]),
                .s_axil_wdata(s_axil_wdata), .s_axil_wstrb(4'hf), .s_axil_wvalid(s_axil_wvalid[k]),
                .s_axil_wready(s_axil_wready[k]), .s_axil_bresp(s_axil_bresp[k*2+:2]), .s_axil_bvalid(s_axil_bvalid[k]),
                .s_axil_bready(s_axil_bready), .s_axil_araddr(s_axil_araddr), .s_axil_arvalid(s_axil_arvalid[k]),
                .s_axil_arready(s_axil_arready[k]), .s_axil_rdata(s_axil_rdata[k*32+:32]),
                .s_axil_rresp(s_axil_rresp[k*2+:2]), .s_axil_rvalid(s_axil_rvalid[k]), .s_axil_rready(s_axil_rready),
                .s_axi_awaddr(t_awaddr[k*32+:32]), .s_axi_awlen(t_awlen[k*8+:8]), .s_axi_awvalid(t_awvalid[k]),
                .s_axi_awready(t_awready[k]), .s_axi_wdata(t_wdata[k*64+:64]), .s_axi_wlast(t_wlast[k]),
                .s_axi_wvalid(t_wvalid[k]), .s_axi_wready(t_wready[k]), .s_axi_bresp(t_bresp[k*2+:2]),
                .s_axi_bvalid(t_bvalid[k]), .s_axi_bready(t_bready[k]), .s_axi_awid(t_awid[k*4+:4]), .s_axi_bid(bid),
                .m_axi_awaddr(c_awaddr[k*32+:32]), .m_axi_awlen(c_awlen[k*8+:8]), .m_axi_awvalid(c_awvalid[k]),
                .m_axi_awready(c_awready[k]), .m_axi_wdata(c_wdata[k*64+:64]), .m_axi_wstrb(c_wstrb[k*8+:8]),
                .m_axi_wlast(c_wlast[k]), .m_axi_wvalid(c_wvalid[k]), .m_axi_wready(c_wready[k]),
                .m_axi_bresp(c_bresp[k*2+:2]), .m_axi_bvalid(c_bvalid[k]), .m_axi_bready(c_bready[k]),
                .m_axi_araddr(c_araddr[k*32+:32]), .m_axi_arlen(c_arlen[k*8+:8]), .m_axi_arvalid(c_arvalid[k]),
                .m_axi_arready(c_arready[k]), .m_axi_rdata(c_rdata[k*64+:64]), .m_axi_rresp(c_rresp[k*2+:2]),
                .m_axi_rlast(c_rlast[k]), .m_axi_rvalid(c_rvalid[k]), .m_axi_rready(c_rready[k]), .m_axi_awid(awid),
                .m_axi_awsize(awsize), .m_axi_awburst(awburst), .m_axi_awlock(awlock), .m_axi_awcache(awcache),
                .m_axi_awprot(awprot), .m_axi_arid(m_arid), .m_axi_arsize(arsize), .m_axi_arburst(arburst),
                .m_axi_arlock(arlock), .m_axi_arcache(arcache), .m_axi_arprot(arprot), .m_axi_bid(4'd0),
                .m_axi_rid(4'd0)
            );
            wire unused = &{1'b0, awid, awcache, m_arid, arcache, bid, awsize, awprot, arsize, arprot, awburst, arburst, awlock, arlock, irq, vectors};
        end

        // Cards 2 and 3, and memory
        for (k = 2; k < 5; k = k + 1) begin : g_nobody
            wire awaiting = k == 4 && arvalid;
            wire r_ready, r_last, r_valid;
            axi_error slave (
                .sys_clk(sys_clk), .sys_rst(sys_rst), .awvalid(t_awvalid[k]), .awready(t_awready[k]), .wlast(t_wlast[k]),
                .wvalid(t_wvalid[k]), .wready(t_wready[k]), .bvalid(t_bvalid[k]), .bready(t_bready[k]), .arlen(arlen),
                .arvalid(awaiting), .arready(r_ready), .rlast(r_last), .rvalid(r_valid), .rready(rready)
            );
            assign t_bresp[2*k+:2] = 2'b11;
            if (k == 4) begin : g_memory
                assign {arready, rlast, rvalid} = {r_ready, r_last, r_valid};
            end else begin : g_card
                wire unused = &{1'b0, r_ready, r_last, r_valid};
            end
        end
    endgenerate
    assign c_awaddr[127:64] = 64'd0;
    assign c_araddr[127:64] = 64'd0;
    assign c_awlen[31:16] = 16'd0;
    assign c_wstrb[31:16] = 16'd0;
    assign c_arlen[31:16] = 16'd0;
    assign c_wdata[255:128] = 128'd0;
    assign {c_awvalid[3:2], c_wlast[3:2], c_wvalid[3:2], c_bready[3:2], c_arvalid[3:2], c_rready[3:2]} = 12'd0;

    axi_xbar xbar (
        .sys_clk(sys_clk), .sys_rst(sys_rst), .s_axi_awaddr(c_awaddr), .s_axi_awlen(c_awlen),
        .s_axi_awvalid(c_awvalid), .s_axi_awready(c_awready), .s_axi_wdata(c_wdata), .s_axi_wstrb(c_wstrb),
        .s_axi_wlast(c_wlast), .s_axi_wvalid(c_wvalid), .s_axi_wready(c_wready), .s_axi_bresp(c_bresp),
        .s_axi_bvalid(c_bvalid), .s_axi_bready(c_bready), .s_axi_araddr(c_araddr), .s_axi_arlen(c_arlen),
        .s_axi_arvalid(c_arvalid), .s_axi_arready(c_arready), .s_axi_rdata(c_rdata), .s_axi_rresp(c_rresp),
        .s_axi_rlast(c_rlast), .s_axi_rvalid(c_rvalid), .s_axi_rready(c_rready), .m_axi_awaddr(t_awaddr),
        .m_axi_awlen(t_awlen), .m_axi_awvalid(t_awvalid), .m_axi_awready(t_awready), .m_axi_wdata(t_wdata),
        .m_axi_wstrb(t_wstrb), .m_axi_wlast(t_wlast), .m_axi_wvalid(t_wvalid), .m_axi_wready(t_wready),
        .m_axi_bresp(t_bresp), .m_axi_bvalid(t_bvalid), .m_axi_bready(t_bready), .m_axi_awid(t_awid),
        .m_axi_arid(arid), .m_axi_araddr(araddr), .m_axi_arlen(arlen), .m_axi_arvalid(arvalid),
        .m_axi_arready(arready), .m_axi_rdata(64'd0), .m_axi_rresp(2'b11), .m_axi_rlast(rlast),
        .m_axi_rvalid(rvalid), .m_axi_rready(rready)
    );
    wire unused = &{1'b0, arid, araddr, t_wstrb, t_awid, t_awaddr[159:64], t_awlen[39:16], t_wdata[319:128],
                    c_awready[3:2], c_wready[3:2], c_bvalid[3:2], c_arready[3:2], c_rlast[3:2], c_rvalid[3:2],
                    c_rdata[255:128], c_bresp[7:4], c_rresp[7:4]};
endmodule

`default_nettype wire
