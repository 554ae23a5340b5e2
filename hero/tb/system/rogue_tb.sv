// As system_tb, but Python plays card 3: `rogue` writes anything, `aperture` receives what is written to it. A generate loop
// contains the three cards.
`default_nettype none

module rogue_tb #(
    parameter BUS = 1,
    parameter SETUP = 8,
    parameter ROUTES = 3,
    parameter VOQ_WORDS = 4096,
    parameter DST_WORDS = 8192,
    parameter TIMEOUT = 65536
) (
    input  wire       rx_clk0  /* verilator public_flat_rw */,
    input  wire       rx_clk1  /* verilator public_flat_rw */,
    input  wire       rx_clk2  /* verilator public_flat_rw */,
    input  wire       tx_clk0  /* verilator public_flat_rw */,
    input  wire       tx_clk1  /* verilator public_flat_rw */,
    input  wire       tx_clk2  /* verilator public_flat_rw */,
    input  wire       sys_clk  /* verilator public_flat_rw */,
    input  wire       sys_rst  /* verilator public_flat_rw */,
    input  wire [3:0] link  /* verilator public_flat_rw */,
    output wire [3:0] irq  /* verilator public_flat_rd */
);
    wire [31:0] rxd, txd;
    wire [3:0] rx_dv, rx_er, tx_en, tx_er;
    tb_gmii gmii0 (.rx_clk(rx_clk0), .tx_clk(tx_clk0), .rst(sys_rst), .rxd(rxd[7:0]), .rx_dv(rx_dv[0]), .rx_er(rx_er[0]),
                   .txd(txd[7:0]), .tx_en(tx_en[0]), .tx_er(tx_er[0]));
    tb_gmii gmii1 (.rx_clk(rx_clk1), .tx_clk(tx_clk1), .rst(sys_rst), .rxd(rxd[15:8]), .rx_dv(rx_dv[1]), .rx_er(rx_er[1]),
                   .txd(txd[15:8]), .tx_en(tx_en[1]), .tx_er(tx_er[1]));
    tb_gmii gmii2 (.rx_clk(rx_clk2), .tx_clk(tx_clk2), .rst(sys_rst), .rxd(rxd[23:16]), .rx_dv(rx_dv[2]), .rx_er(rx_er[2]),
                   .txd(txd[23:16]), .tx_en(tx_en[2]), .tx_er(tx_er[2]));

    wire [4*8-1:0] l_awaddr, l_araddr;
    wire [4*32-1:0] l_wdata, l_rdata;
    wire [4*2-1:0] l_bresp, l_rresp;
    wire [3:0] l_awvalid, l_awready, l_wvalid, l_wready, l_bvalid, l_bready, l_arvalid, l_arready, l_rvalid, l_rready;
    tb_registers registers (
        .clk(sys_clk), .rst(sys_rst),
        .awaddr(l_awaddr), .awvalid(l_awvalid), .awready(l_awready),
        .wdata(l_wdata), .wvalid(l_wvalid), .wready(l_wready),
        .bresp(l_bresp), .bvalid(l_bvalid), .bready(l_bready),
        .araddr(l_araddr), .arvalid(l_arvalid), .arready(l_arready),
        .rdata(l_rdata), .rresp(l_rresp), .rvalid(l_rvalid), .rready(l_rready)
    );

    // The masters of the bus
    wire [4*32-1:0] s_awaddr, s_araddr;
    wire [4*8-1:0] s_awlen, s_arlen, s_wstrb;
    wire [4*64-1:0] s_wdata, s_rdata;
    wire [4*2-1:0] s_bresp, s_rresp;
    wire [3:0] s_awvalid, s_awready, s_wlast, s_wvalid, s_wready, s_bvalid, s_bready;
    wire [3:0] s_arvalid, s_arready, s_rlast, s_rvalid, s_rready;
    // Its slaves
    wire [5*4-1:0] m_awid;
    wire [5*32-1:0] m_awaddr;
    wire [5*8-1:0] m_awlen, m_wstrb;
    wire [5*64-1:0] m_wdata;
    wire [5*2-1:0] m_bresp;
    wire [4:0] m_awvalid, m_awready, m_wlast, m_wvalid, m_wready, m_bvalid, m_bready;
    wire [3:0] m_arid;
    wire [31:0] m_araddr;
    wire [7:0] m_arlen;
    wire m_arvalid, m_arready, m_rlast, m_rvalid, m_rready;
    wire [63:0] m_rdata;
    wire [1:0] m_rresp;

    wire [2:0] rx_clk = {rx_clk2, rx_clk1, rx_clk0};
    wire [2:0] tx_clk = {tx_clk2, tx_clk1, tx_clk0};
    genvar k;
    generate
        for (k = 0; k < 3; k = k + 1) begin : g_card
            hero_card #(
                .ROUTES(ROUTES), .VOQ_WORDS(VOQ_WORDS), .DST_WORDS(DST_WORDS), .TIMEOUT(TIMEOUT)
            ) card (
                .rx_clk(rx_clk[k]), .tx_clk(tx_clk[k]), .sys_clk(sys_clk), .sys_rst(sys_rst),
                .gmii_rxd(rxd[8*k+:8]), .gmii_rx_dv(rx_dv[k]), .gmii_rx_er(rx_er[k]),
                .gmii_txd(txd[8*k+:8]), .gmii_tx_en(tx_en[k]), .gmii_tx_er(tx_er[k]), .link(link[k]),
                .s_axil_awaddr(l_awaddr[8*k+:8]), .s_axil_awvalid(l_awvalid[k]), .s_axil_awready(l_awready[k]),
                .s_axil_wdata(l_wdata[32*k+:32]), .s_axil_wstrb(4'hf), .s_axil_wvalid(l_wvalid[k]),
                .s_axil_wready(l_wready[k]), .s_axil_bresp(l_bresp[2*k+:2]), .s_axil_bvalid(l_bvalid[k]),
                .s_axil_bready(l_bready[k]), .s_axil_araddr(l_araddr[8*k+:8]), .s_axil_arvalid(l_arvalid[k]),
                .s_axil_arready(l_arready[k]), .s_axil_rdata(l_rdata[32*k+:32]), .s_axil_rresp(l_rresp[2*k+:2]),
                .s_axil_rvalid(l_rvalid[k]), .s_axil_rready(l_rready[k]), .irq(irq[k]), .vectors(),
                .s_axi_awid(m_awid[4*k+:4]), .s_axi_awaddr(m_awaddr[32*k+:32]), .s_axi_awlen(m_awlen[8*k+:8]),
                .s_axi_awvalid(m_awvalid[k]), .s_axi_awready(m_awready[k]),
                .s_axi_wdata(m_wdata[64*k+:64]), .s_axi_wlast(m_wlast[k]),
                .s_axi_wvalid(m_wvalid[k]), .s_axi_wready(m_wready[k]), .s_axi_bid(), .s_axi_bresp(m_bresp[2*k+:2]),
                .s_axi_bvalid(m_bvalid[k]), .s_axi_bready(m_bready[k]),
                .m_axi_awid(), .m_axi_awaddr(s_awaddr[32*k+:32]), .m_axi_awlen(s_awlen[8*k+:8]), .m_axi_awsize(),
                .m_axi_awburst(), .m_axi_awlock(), .m_axi_awcache(), .m_axi_awprot(), .m_axi_awvalid(s_awvalid[k]),
                .m_axi_awready(s_awready[k]), .m_axi_wdata(s_wdata[64*k+:64]), .m_axi_wstrb(s_wstrb[8*k+:8]),
                .m_axi_wlast(s_wlast[k]), .m_axi_wvalid(s_wvalid[k]), .m_axi_wready(s_wready[k]), .m_axi_bid(4'd0),
                .m_axi_bresp(s_bresp[2*k+:2]), .m_axi_bvalid(s_bvalid[k]), .m_axi_bready(s_bready[k]),
                .m_axi_arid(), .m_axi_araddr(s_araddr[32*k+:32]), .m_axi_arlen(s_arlen[8*k+:8]), .m_axi_arsize(),
                .m_axi_arburst(), .m_axi_arlock(), .m_axi_arcache(), .m_axi_arprot(), .m_axi_arvalid(s_arvalid[k]),
                .m_axi_arready(s_arready[k]), .m_axi_rid(4'd0), .m_axi_rdata(s_rdata[64*k+:64]),
                .m_axi_rresp(s_rresp[2*k+:2]), .m_axi_rlast(s_rlast[k]), .m_axi_rvalid(s_rvalid[k]),
                .m_axi_rready(s_rready[k])
            );
        end
    endgenerate
    assign irq[3] = 0;

    tb_writer rogue (
        .clk(sys_clk), .rst(sys_rst),
        .awaddr(s_awaddr[96+:32]), .awlen(s_awlen[24+:8]), .awvalid(s_awvalid[3]), .awready(s_awready[3]),
        .wdata(s_wdata[192+:64]), .wstrb(s_wstrb[24+:8]), .wlast(s_wlast[3]), .wvalid(s_wvalid[3]), .wready(s_wready[3]),
        .bresp(s_bresp[6+:2]), .bvalid(s_bvalid[3]), .bready(s_bready[3])
    );
    assign s_araddr[96+:32] = 0;
    assign s_arlen[24+:8] = 0;
    assign s_arvalid[3] = 0;
    assign s_rready[3] = 1;
    tb_slave aperture (
        .clk(sys_clk), .rst(sys_rst),
        .awid(m_awid[12+:4]), .awaddr(m_awaddr[96+:32]), .awlen(m_awlen[24+:8]), .awvalid(m_awvalid[3]),
        .awready(m_awready[3]), .wdata(m_wdata[192+:64]), .wstrb(m_wstrb[24+:8]), .wlast(m_wlast[3]),
        .wvalid(m_wvalid[3]), .wready(m_wready[3]), .bid(), .bresp(m_bresp[6+:2]), .bvalid(m_bvalid[3]),
        .bready(m_bready[3]), .arid(4'd0), .araddr(32'd0), .arlen(8'd0), .arvalid(1'b0), .arready(), .rid(),
        .rdata(), .rresp(), .rlast(), .rvalid(), .rready(1'b0)
    );
    tb_slave memory (
        .clk(sys_clk), .rst(sys_rst),
        .awid(m_awid[16+:4]), .awaddr(m_awaddr[128+:32]), .awlen(m_awlen[32+:8]), .awvalid(m_awvalid[4]),
        .awready(m_awready[4]), .wdata(m_wdata[256+:64]), .wstrb(m_wstrb[32+:8]), .wlast(m_wlast[4]),
        .wvalid(m_wvalid[4]), .wready(m_wready[4]), .bid(), .bresp(m_bresp[8+:2]), .bvalid(m_bvalid[4]),
        .bready(m_bready[4]), .arid(m_arid), .araddr(m_araddr), .arlen(m_arlen), .arvalid(m_arvalid),
        .arready(m_arready), .rid(), .rdata(m_rdata), .rresp(m_rresp), .rlast(m_rlast), .rvalid(m_rvalid),
        .rready(m_rready)
    );

`define HERO_BUS_PORTS \
        .sys_clk(sys_clk), .sys_rst(sys_rst), \
        .s_axi_awaddr(s_awaddr), .s_axi_awlen(s_awlen), .s_axi_awvalid(s_awvalid), .s_axi_awready(s_awready), \
        .s_axi_wdata(s_wdata), .s_axi_wstrb(s_wstrb), .s_axi_wlast(s_wlast), .s_axi_wvalid(s_wvalid), \
        .s_axi_wready(s_wready), .s_axi_bresp(s_bresp), .s_axi_bvalid(s_bvalid), .s_axi_bready(s_bready), \
        .s_axi_araddr(s_araddr), .s_axi_arlen(s_arlen), .s_axi_arvalid(s_arvalid), .s_axi_arready(s_arready), \
        .s_axi_rdata(s_rdata), .s_axi_rresp(s_rresp), .s_axi_rlast(s_rlast), .s_axi_rvalid(s_rvalid), \
        .s_axi_rready(s_rready), \
        .m_axi_awid(m_awid), .m_axi_awaddr(m_awaddr), .m_axi_awlen(m_awlen), .m_axi_awvalid(m_awvalid), \
        .m_axi_awready(m_awready), .m_axi_wdata(m_wdata), .m_axi_wstrb(m_wstrb), .m_axi_wlast(m_wlast), \
        .m_axi_wvalid(m_wvalid), .m_axi_wready(m_wready), .m_axi_bresp(m_bresp), .m_axi_bvalid(m_bvalid), \
        .m_axi_bready(m_bready), .m_axi_arid(m_arid), .m_axi_araddr(m_araddr), .m_axi_arlen(m_arlen), \
        .m_axi_arvalid(m_arvalid), .m_axi_arready(m_arready), .m_axi_rdata(m_rdata), .m_axi_rresp(m_rresp), \
        .m_axi_rlast(m_rlast), .m_axi_rvalid(m_rvalid), .m_axi_rready(m_rready)
    generate
        if (BUS == 0) begin : g_pcix
            bus_pcix #(.SETUP(SETUP)) bus (`HERO_BUS_PORTS);
        end else begin : g_xbar
            axi_xbar bus (`HERO_BUS_PORTS);
        end
    endgenerate
endmodule

`default_nettype wire
