// hero_system between four Ethernet links, the host's memory and the host's register accesses, which Python plays.
`default_nettype none

module system_tb #(
    parameter BUS = 1,
    parameter SETUP = 8,
    parameter ROUTES = 3,
    parameter ROUTES6 = 0,
    parameter VOQ_WORDS = 4096,
    parameter DST_WORDS = 8192,
    parameter TIMEOUT = 65536
) (
    input  wire       rx_clk0  /* verilator public_flat_rw */,
    input  wire       rx_clk1  /* verilator public_flat_rw */,
    input  wire       rx_clk2  /* verilator public_flat_rw */,
    input  wire       rx_clk3  /* verilator public_flat_rw */,
    input  wire       tx_clk0  /* verilator public_flat_rw */,
    input  wire       tx_clk1  /* verilator public_flat_rw */,
    input  wire       tx_clk2  /* verilator public_flat_rw */,
    input  wire       tx_clk3  /* verilator public_flat_rw */,
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
    tb_gmii gmii3 (.rx_clk(rx_clk3), .tx_clk(tx_clk3), .rst(sys_rst), .rxd(rxd[31:24]), .rx_dv(rx_dv[3]), .rx_er(rx_er[3]),
                   .txd(txd[31:24]), .tx_en(tx_en[3]), .tx_er(tx_er[3]));

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

    wire [3:0] awid, bid, arid, rid;
    wire [31:0] awaddr, araddr;
    wire [7:0] awlen, wstrb, arlen;
    wire [63:0] wdata, rdata;
    wire [1:0] bresp, rresp;
    wire awvalid, awready, wlast, wvalid, wready, bvalid, bready, arvalid, arready, rlast, rvalid, rready;
    tb_slave memory (
        .clk(sys_clk), .rst(sys_rst),
        .awid(awid), .awaddr(awaddr), .awlen(awlen), .awvalid(awvalid), .awready(awready),
        .wdata(wdata), .wstrb(wstrb), .wlast(wlast), .wvalid(wvalid), .wready(wready),
        .bid(bid), .bresp(bresp), .bvalid(bvalid), .bready(bready),
        .arid(arid), .araddr(araddr), .arlen(arlen), .arvalid(arvalid), .arready(arready),
        .rid(rid), .rdata(rdata), .rresp(rresp), .rlast(rlast), .rvalid(rvalid), .rready(rready)
    );

    hero_system #(
        .BUS(BUS), .SETUP(SETUP), .ROUTES(ROUTES), .ROUTES6(ROUTES6), .VOQ_WORDS(VOQ_WORDS), .DST_WORDS(DST_WORDS), .TIMEOUT(TIMEOUT)
    ) dut (
        .rx_clk({rx_clk3, rx_clk2, rx_clk1, rx_clk0}), .tx_clk({tx_clk3, tx_clk2, tx_clk1, tx_clk0}), .sys_clk(sys_clk), .sys_rst(sys_rst),
        .gmii_rxd(rxd), .gmii_rx_dv(rx_dv), .gmii_rx_er(rx_er),
        .gmii_txd(txd), .gmii_tx_en(tx_en), .gmii_tx_er(tx_er), .link(link),
        .s_axil_awaddr(l_awaddr), .s_axil_awvalid(l_awvalid), .s_axil_awready(l_awready),
        .s_axil_wdata(l_wdata), .s_axil_wstrb(16'hffff), .s_axil_wvalid(l_wvalid), .s_axil_wready(l_wready),
        .s_axil_bresp(l_bresp), .s_axil_bvalid(l_bvalid), .s_axil_bready(l_bready),
        .s_axil_araddr(l_araddr), .s_axil_arvalid(l_arvalid), .s_axil_arready(l_arready),
        .s_axil_rdata(l_rdata), .s_axil_rresp(l_rresp), .s_axil_rvalid(l_rvalid), .s_axil_rready(l_rready),
        .irq(irq),
        .m_axi_awid(awid), .m_axi_awaddr(awaddr), .m_axi_awlen(awlen), .m_axi_awsize(), .m_axi_awburst(),
        .m_axi_awlock(), .m_axi_awcache(), .m_axi_awprot(), .m_axi_awvalid(awvalid), .m_axi_awready(awready),
        .m_axi_wdata(wdata), .m_axi_wstrb(wstrb), .m_axi_wlast(wlast), .m_axi_wvalid(wvalid), .m_axi_wready(wready),
        .m_axi_bid(bid), .m_axi_bresp(bresp), .m_axi_bvalid(bvalid), .m_axi_bready(bready),
        .m_axi_arid(arid), .m_axi_araddr(araddr), .m_axi_arlen(arlen), .m_axi_arsize(), .m_axi_arburst(),
        .m_axi_arlock(), .m_axi_arcache(), .m_axi_arprot(), .m_axi_arvalid(arvalid), .m_axi_arready(arready),
        .m_axi_rid(rid), .m_axi_rdata(rdata), .m_axi_rresp(rresp), .m_axi_rlast(rlast), .m_axi_rvalid(rvalid),
        .m_axi_rready(rready)
    );
endmodule

`default_nettype wire
