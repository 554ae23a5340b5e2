// Four cards, the host's memory, and the bus between them: the paper's test bed.
`default_nettype none

module hero_system #(
    parameter BUS = 1,  // 0: one transaction at a time (PCI-X), 1: crossbar
    parameter SETUP = 8,  // cycles before each transaction of BUS 0
    parameter ROUTES = 3,
    parameter ROUTES6 = 0,
    parameter VOQ_WORDS = 4096,
    parameter DST_WORDS = 8192,
    parameter SLOW_TX_WORDS = 2048,
    parameter CDC_WORDS = 256,
    parameter MTU = 1500,
    parameter TIMEOUT = 65536
) (
    input  wire           sys_clk,
    input  wire           sys_rst,
    // GMII, card k at k*8 +: 8; each card has its own clocks
    input  wire [    3:0] rx_clk,
    input  wire [    3:0] tx_clk,
    input  wire [   31:0] gmii_rxd,
    input  wire [    3:0] gmii_rx_dv,
    input  wire [    3:0] gmii_rx_er,
    output wire [   31:0] gmii_txd,
    output wire [    3:0] gmii_tx_en,
    output wire [    3:0] gmii_tx_er,
    input  wire [    3:0] link,
    // Registers: an AXI4-Lite slave a card
    input  wire [4*8-1:0] s_axil_awaddr,
    input  wire [    3:0] s_axil_awvalid,
    output wire [    3:0] s_axil_awready,
    input  wire [4*32-1:0] s_axil_wdata,
    input  wire [4*4-1:0] s_axil_wstrb,
    input  wire [    3:0] s_axil_wvalid,
    output wire [    3:0] s_axil_wready,
    output wire [4*2-1:0] s_axil_bresp,
    output wire [    3:0] s_axil_bvalid,
    input  wire [    3:0] s_axil_bready,
    input  wire [4*8-1:0] s_axil_araddr,
    input  wire [    3:0] s_axil_arvalid,
    output wire [    3:0] s_axil_arready,
    output wire [4*32-1:0] s_axil_rdata,
    output wire [4*2-1:0] s_axil_rresp,
    output wire [    3:0] s_axil_rvalid,
    input  wire [    3:0] s_axil_rready,
    output wire [    3:0] irq,
    // Host memory: AXI4
    output wire [    3:0] m_axi_awid,
    output wire [   31:0] m_axi_awaddr,
    output wire [    7:0] m_axi_awlen,
    output wire [    2:0] m_axi_awsize,
    output wire [    1:0] m_axi_awburst,
    output wire           m_axi_awlock,
    output wire [    3:0] m_axi_awcache,
    output wire [    2:0] m_axi_awprot,
    output wire           m_axi_awvalid,
    input  wire           m_axi_awready,
    output wire [   63:0] m_axi_wdata,
    output wire [    7:0] m_axi_wstrb,
    output wire           m_axi_wlast,
    output wire           m_axi_wvalid,
    input  wire           m_axi_wready,
    input  wire [    3:0] m_axi_bid,
    input  wire [    1:0] m_axi_bresp,
    input  wire           m_axi_bvalid,
    output wire           m_axi_bready,
    output wire [    3:0] m_axi_arid,
    output wire [   31:0] m_axi_araddr,
    output wire [    7:0] m_axi_arlen,
    output wire [    2:0] m_axi_arsize,
    output wire [    1:0] m_axi_arburst,
    output wire           m_axi_arlock,
    output wire [    3:0] m_axi_arcache,
    output wire [    2:0] m_axi_arprot,
    output wire           m_axi_arvalid,
    input  wire           m_axi_arready,
    input  wire [    3:0] m_axi_rid,
    input  wire [   63:0] m_axi_rdata,
    input  wire [    1:0] m_axi_rresp,
    input  wire           m_axi_rlast,
    input  wire           m_axi_rvalid,
    output wire           m_axi_rready
);
    // Between the cards and the bus (c_), between the bus and its slaves (t_): apertures 0-3, host memory 4
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
    wire [15:0] t_bid;  // unused: with one transaction at a time, the bus knows the owner of the response

    genvar k;
    generate
        for (k = 0; k < 4; k = k + 1) begin : g_card
            // Constant for all transactions, so set once, at the host's memory
            wire [3:0] awid, awcache, arid, arcache;
            wire [2:0] awsize, awprot, arsize, arprot;
            wire [1:0] awburst, arburst;
            wire awlock, arlock;
            wire [2:0] vectors;  // for MSI-X, which hero-device has in software
            hero_card #(
                .ROUTES(ROUTES), .ROUTES6(ROUTES6), .VOQ_WORDS(VOQ_WORDS), .DST_WORDS(DST_WORDS), .SLOW_TX_WORDS(SLOW_TX_WORDS),
                .CDC_WORDS(CDC_WORDS), .MTU(MTU), .TIMEOUT(TIMEOUT)
            ) card (
                .rx_clk(rx_clk[k]), .tx_clk(tx_clk[k]), .sys_clk(sys_clk), .sys_rst(sys_rst),
                .gmii_rxd(gmii_rxd[k*8+:8]), .gmii_rx_dv(gmii_rx_dv[k]), .gmii_rx_er(gmii_rx_er[k]),
                .gmii_txd(gmii_txd[k*8+:8]), .gmii_tx_en(gmii_tx_en[k]), .gmii_tx_er(gmii_tx_er[k]), .link(link[k]),
                .irq(irq[k]), .vectors(vectors),
                .s_axil_awaddr(s_axil_awaddr[k*8+:8]), .s_axil_awvalid(s_axil_awvalid[k]),
                .s_axil_awready(s_axil_awready[k]), .s_axil_wdata(s_axil_wdata[k*32+:32]),
                .s_axil_wstrb(s_axil_wstrb[k*4+:4]), .s_axil_wvalid(s_axil_wvalid[k]),
                .s_axil_wready(s_axil_wready[k]), .s_axil_bresp(s_axil_bresp[k*2+:2]),
                .s_axil_bvalid(s_axil_bvalid[k]), .s_axil_bready(s_axil_bready[k]),
                .s_axil_araddr(s_axil_araddr[k*8+:8]), .s_axil_arvalid(s_axil_arvalid[k]),
                .s_axil_arready(s_axil_arready[k]), .s_axil_rdata(s_axil_rdata[k*32+:32]),
                .s_axil_rresp(s_axil_rresp[k*2+:2]), .s_axil_rvalid(s_axil_rvalid[k]),
                .s_axil_rready(s_axil_rready[k]),
                .s_axi_awaddr(t_awaddr[k*32+:32]), .s_axi_awlen(t_awlen[k*8+:8]), .s_axi_awvalid(t_awvalid[k]),
                .s_axi_awready(t_awready[k]), .s_axi_wdata(t_wdata[k*64+:64]), .s_axi_wlast(t_wlast[k]),
                .s_axi_wvalid(t_wvalid[k]), .s_axi_wready(t_wready[k]), .s_axi_bresp(t_bresp[k*2+:2]),
                .s_axi_bvalid(t_bvalid[k]), .s_axi_bready(t_bready[k]), .s_axi_awid(t_awid[k*4+:4]),
                .s_axi_bid(t_bid[k*4+:4]),
                .m_axi_awaddr(c_awaddr[k*32+:32]), .m_axi_awlen(c_awlen[k*8+:8]), .m_axi_awvalid(c_awvalid[k]),
                .m_axi_awready(c_awready[k]), .m_axi_wdata(c_wdata[k*64+:64]), .m_axi_wstrb(c_wstrb[k*8+:8]),
                .m_axi_wlast(c_wlast[k]), .m_axi_wvalid(c_wvalid[k]), .m_axi_wready(c_wready[k]),
                .m_axi_bresp(c_bresp[k*2+:2]), .m_axi_bvalid(c_bvalid[k]), .m_axi_bready(c_bready[k]),
                .m_axi_araddr(c_araddr[k*32+:32]), .m_axi_arlen(c_arlen[k*8+:8]), .m_axi_arvalid(c_arvalid[k]),
                .m_axi_arready(c_arready[k]), .m_axi_rdata(c_rdata[k*64+:64]), .m_axi_rresp(c_rresp[k*2+:2]),
                .m_axi_rlast(c_rlast[k]), .m_axi_rvalid(c_rvalid[k]), .m_axi_rready(c_rready[k]), .m_axi_awid(awid),
                .m_axi_awsize(awsize), .m_axi_awburst(awburst), .m_axi_awlock(awlock), .m_axi_awcache(awcache),
                .m_axi_awprot(awprot), .m_axi_arid(arid), .m_axi_arsize(arsize), .m_axi_arburst(arburst),
                .m_axi_arlock(arlock), .m_axi_arcache(arcache), .m_axi_arprot(arprot), .m_axi_bid(4'd0),
                .m_axi_rid(4'd0)
            );
            wire unused = &{1'b0, awid, awcache, arid, arcache, awsize, awprot, arsize, arprot, awburst, arburst, awlock, arlock, vectors};
        end

        if (BUS == 0) begin : g_bus
            bus_pcix #(.SETUP(SETUP)) pcix (
                .sys_clk(sys_clk), .sys_rst(sys_rst), .s_axi_awaddr(c_awaddr), .s_axi_awlen(c_awlen),
                .s_axi_awvalid(c_awvalid), .s_axi_awready(c_awready), .s_axi_wdata(c_wdata), .s_axi_wstrb(c_wstrb),
                .s_axi_wlast(c_wlast), .s_axi_wvalid(c_wvalid), .s_axi_wready(c_wready), .s_axi_bresp(c_bresp),
                .s_axi_bvalid(c_bvalid), .s_axi_bready(c_bready), .s_axi_araddr(c_araddr), .s_axi_arlen(c_arlen),
                .s_axi_arvalid(c_arvalid), .s_axi_arready(c_arready), .s_axi_rdata(c_rdata), .s_axi_rresp(c_rresp),
                .s_axi_rlast(c_rlast), .s_axi_rvalid(c_rvalid), .s_axi_rready(c_rready), .m_axi_awaddr(t_awaddr),
                .m_axi_awlen(t_awlen), .m_axi_awvalid(t_awvalid), .m_axi_awready(t_awready), .m_axi_wdata(t_wdata),
                .m_axi_wstrb(t_wstrb), .m_axi_wlast(t_wlast), .m_axi_wvalid(t_wvalid), .m_axi_wready(t_wready),
                .m_axi_bresp(t_bresp), .m_axi_bvalid(t_bvalid), .m_axi_bready(t_bready), .m_axi_awid(t_awid),
                .m_axi_arid(m_axi_arid), .m_axi_araddr(m_axi_araddr), .m_axi_arlen(m_axi_arlen),
                .m_axi_arvalid(m_axi_arvalid), .m_axi_arready(m_axi_arready), .m_axi_rdata(m_axi_rdata),
                .m_axi_rresp(m_axi_rresp), .m_axi_rlast(m_axi_rlast), .m_axi_rvalid(m_axi_rvalid),
                .m_axi_rready(m_axi_rready)
            );
        end else begin : g_bus
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
                .m_axi_arid(m_axi_arid), .m_axi_araddr(m_axi_araddr), .m_axi_arlen(m_axi_arlen),
                .m_axi_arvalid(m_axi_arvalid), .m_axi_arready(m_axi_arready), .m_axi_rdata(m_axi_rdata),
                .m_axi_rresp(m_axi_rresp), .m_axi_rlast(m_axi_rlast), .m_axi_rvalid(m_axi_rvalid),
                .m_axi_rready(m_axi_rready)
            );
        end
    endgenerate

    // Host memory
    assign m_axi_awaddr = t_awaddr[4*32+:32];
    assign m_axi_awlen = t_awlen[4*8+:8];
    assign m_axi_awvalid = t_awvalid[4];
    assign t_awready[4] = m_axi_awready;
    assign m_axi_wdata = t_wdata[4*64+:64];
    assign m_axi_wstrb = t_wstrb[4*8+:8];
    assign m_axi_wlast = t_wlast[4];
    assign m_axi_wvalid = t_wvalid[4];
    assign t_wready[4] = m_axi_wready;
    assign t_bresp[4*2+:2] = m_axi_bresp;
    assign t_bvalid[4] = m_axi_bvalid;
    assign m_axi_bready = t_bready[4];
    assign m_axi_awid = t_awid[4*4+:4];
    assign m_axi_awsize = 3'd3;
    assign m_axi_awburst = 2'b01;
    assign m_axi_awlock = 1'b0;
    assign m_axi_awcache = 4'b0011;
    assign m_axi_awprot = 3'd0;
    assign m_axi_arsize = 3'd3;
    assign m_axi_arburst = 2'b01;
    assign m_axi_arlock = 1'b0;
    assign m_axi_arcache = 4'b0011;
    assign m_axi_arprot = 3'd0;
    wire unused = &{1'b0, m_axi_bid, m_axi_rid, t_bid, t_wstrb[31:0]};
endmodule

`default_nettype wire
