// One complete card: the NIC core and its Ethernet MACs.
`default_nettype none

module hero_card #(
    parameter ROUTES = 3,
    parameter ROUTES6 = 0,
    parameter VOQ_WORDS = 4096,
    parameter DST_WORDS = 8192,
    parameter SLOW_TX_WORDS = 2048,
    parameter CDC_WORDS = 256,
    parameter MTU = 1500,
    parameter TIMEOUT = 65536
) (
    input  wire        rx_clk,  // with gmii_rx*, from the PHY; it may stand still
    input  wire        tx_clk,  // with gmii_tx*
    input  wire        sys_clk,
    input  wire        sys_rst,
    input  wire [ 7:0] gmii_rxd,
    input  wire        gmii_rx_dv,
    input  wire        gmii_rx_er,
    output wire [ 7:0] gmii_txd,
    output wire        gmii_tx_en,
    output wire        gmii_tx_er,
    input  wire        link,
    // Registers: AXI4-Lite
    input  wire [ 7:0] s_axil_awaddr,
    input  wire        s_axil_awvalid,
    output wire        s_axil_awready,
    input  wire [31:0] s_axil_wdata,
    input  wire [ 3:0] s_axil_wstrb,
    input  wire        s_axil_wvalid,
    output wire        s_axil_wready,
    output wire [ 1:0] s_axil_bresp,
    output wire        s_axil_bvalid,
    input  wire        s_axil_bready,
    input  wire [ 7:0] s_axil_araddr,
    input  wire        s_axil_arvalid,
    output wire        s_axil_arready,
    output wire [31:0] s_axil_rdata,
    output wire [ 1:0] s_axil_rresp,
    output wire        s_axil_rvalid,
    input  wire        s_axil_rready,
    output wire        irq,
    output wire [ 2:0] vectors,
    // Aperture for the other cards: AXI4, write only, whole words in increasing order
    input  wire [ 3:0] s_axi_awid,
    input  wire [31:0] s_axi_awaddr,
    input  wire [ 7:0] s_axi_awlen,
    input  wire        s_axi_awvalid,
    output wire        s_axi_awready,
    input  wire [63:0] s_axi_wdata,
    input  wire        s_axi_wlast,
    input  wire        s_axi_wvalid,
    output wire        s_axi_wready,
    output wire [ 3:0] s_axi_bid,
    output wire [ 1:0] s_axi_bresp,
    output wire        s_axi_bvalid,
    input  wire        s_axi_bready,
    // To host memory and the other cards: AXI4
    output wire [ 3:0] m_axi_awid,
    output wire [31:0] m_axi_awaddr,
    output wire [ 7:0] m_axi_awlen,
    output wire [ 2:0] m_axi_awsize,
    output wire [ 1:0] m_axi_awburst,
    output wire        m_axi_awlock,
    output wire [ 3:0] m_axi_awcache,
    output wire [ 2:0] m_axi_awprot,
    output wire        m_axi_awvalid,
    input  wire        m_axi_awready,
    output wire [63:0] m_axi_wdata,
    output wire [ 7:0] m_axi_wstrb,
    output wire        m_axi_wlast,
    output wire        m_axi_wvalid,
    input  wire        m_axi_wready,
    input  wire [ 3:0] m_axi_bid,
    input  wire [ 1:0] m_axi_bresp,
    input  wire        m_axi_bvalid,
    output wire        m_axi_bready,
    output wire [ 3:0] m_axi_arid,
    output wire [31:0] m_axi_araddr,
    output wire [ 7:0] m_axi_arlen,
    output wire [ 2:0] m_axi_arsize,
    output wire [ 1:0] m_axi_arburst,
    output wire        m_axi_arlock,
    output wire [ 3:0] m_axi_arcache,
    output wire [ 2:0] m_axi_arprot,
    output wire        m_axi_arvalid,
    input  wire        m_axi_arready,
    input  wire [ 3:0] m_axi_rid,
    input  wire [63:0] m_axi_rdata,
    input  wire [ 1:0] m_axi_rresp,
    input  wire        m_axi_rlast,
    input  wire        m_axi_rvalid,
    output wire        m_axi_rready
);
    wire rx_rst, tx_rst;
    wire [7:0] rx_data, tx_data;
    wire rx_valid, rx_last, rx_bad, tx_valid, tx_ready, tx_last;

    hero_mac_rx mac_rx (
        .clk(rx_clk), .rst(rx_rst), .gmii_rxd(gmii_rxd), .gmii_rx_dv(gmii_rx_dv), .gmii_rx_er(gmii_rx_er),
        .m_axis_tdata(rx_data), .m_axis_tvalid(rx_valid), .m_axis_tlast(rx_last), .m_axis_tuser(rx_bad)
    );
    hero_mac_tx mac_tx (
        .clk(tx_clk), .rst(tx_rst),
        .s_axis_tdata(tx_data), .s_axis_tvalid(tx_valid), .s_axis_tready(tx_ready), .s_axis_tlast(tx_last),
        .gmii_txd(gmii_txd), .gmii_tx_en(gmii_tx_en), .gmii_tx_er(gmii_tx_er)
    );

    wire rx_ready;  // unused: Ethernet cannot wait, and the gap between frames is enough for hero_rx_input
    hero_nic #(
        .ROUTES(ROUTES), .ROUTES6(ROUTES6), .VOQ_WORDS(VOQ_WORDS), .DST_WORDS(DST_WORDS), .SLOW_TX_WORDS(SLOW_TX_WORDS),
        .CDC_WORDS(CDC_WORDS), .MTU(MTU), .TIMEOUT(TIMEOUT)
    ) nic (
        .rx_clk(rx_clk), .tx_clk(tx_clk), .sys_clk(sys_clk), .sys_rst(sys_rst),
        .s_axis_tdata(rx_data), .s_axis_tvalid(rx_valid), .s_axis_tready(rx_ready), .s_axis_tlast(rx_last),
        .s_axis_tuser(rx_bad),
        .m_axis_tdata(tx_data), .m_axis_tvalid(tx_valid), .m_axis_tready(tx_ready), .m_axis_tlast(tx_last),
        .rx_rst(rx_rst), .tx_rst(tx_rst), .link(link),
        .s_axil_awaddr(s_axil_awaddr), .s_axil_awvalid(s_axil_awvalid), .s_axil_awready(s_axil_awready),
        .s_axil_wdata(s_axil_wdata), .s_axil_wstrb(s_axil_wstrb), .s_axil_wvalid(s_axil_wvalid),
        .s_axil_wready(s_axil_wready), .s_axil_bresp(s_axil_bresp), .s_axil_bvalid(s_axil_bvalid),
        .s_axil_bready(s_axil_bready), .s_axil_araddr(s_axil_araddr), .s_axil_arvalid(s_axil_arvalid),
        .s_axil_arready(s_axil_arready), .s_axil_rdata(s_axil_rdata), .s_axil_rresp(s_axil_rresp),
        .s_axil_rvalid(s_axil_rvalid), .s_axil_rready(s_axil_rready), .irq(irq), .vectors(vectors), .s_axi_awid(s_axi_awid),
        .s_axi_awaddr(s_axi_awaddr), .s_axi_awlen(s_axi_awlen), .s_axi_awvalid(s_axi_awvalid),
        .s_axi_awready(s_axi_awready), .s_axi_wdata(s_axi_wdata), .s_axi_wlast(s_axi_wlast),
        .s_axi_wvalid(s_axi_wvalid), .s_axi_wready(s_axi_wready), .s_axi_bid(s_axi_bid), .s_axi_bresp(s_axi_bresp),
        .s_axi_bvalid(s_axi_bvalid), .s_axi_bready(s_axi_bready), .m_axi_awid(m_axi_awid),
        .m_axi_awaddr(m_axi_awaddr), .m_axi_awlen(m_axi_awlen), .m_axi_awsize(m_axi_awsize),
        .m_axi_awburst(m_axi_awburst), .m_axi_awlock(m_axi_awlock), .m_axi_awcache(m_axi_awcache),
        .m_axi_awprot(m_axi_awprot), .m_axi_awvalid(m_axi_awvalid), .m_axi_awready(m_axi_awready),
        .m_axi_wdata(m_axi_wdata), .m_axi_wstrb(m_axi_wstrb), .m_axi_wlast(m_axi_wlast), .m_axi_wvalid(m_axi_wvalid),
        .m_axi_wready(m_axi_wready), .m_axi_bid(m_axi_bid), .m_axi_bresp(m_axi_bresp), .m_axi_bvalid(m_axi_bvalid),
        .m_axi_bready(m_axi_bready), .m_axi_arid(m_axi_arid), .m_axi_araddr(m_axi_araddr), .m_axi_arlen(m_axi_arlen),
        .m_axi_arsize(m_axi_arsize), .m_axi_arburst(m_axi_arburst), .m_axi_arlock(m_axi_arlock),
        .m_axi_arcache(m_axi_arcache), .m_axi_arprot(m_axi_arprot), .m_axi_arvalid(m_axi_arvalid),
        .m_axi_arready(m_axi_arready), .m_axi_rid(m_axi_rid), .m_axi_rdata(m_axi_rdata), .m_axi_rresp(m_axi_rresp),
        .m_axi_rlast(m_axi_rlast), .m_axi_rvalid(m_axi_rvalid), .m_axi_rready(m_axi_rready)
    );
    wire unused = &{1'b0, rx_ready};
endmodule

`default_nettype wire
