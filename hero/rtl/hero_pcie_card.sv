// One card with PCI Express: the card, its host interface and the function level reset, between the Ethernet's GMII and the
// streams of a PCIe core (of which hero_pcie.sv tells). Bursts for another card are memory writes to its BAR 2.
`default_nettype none

module hero_pcie_card #(
    parameter ROUTES = 3,
    parameter ROUTES6 = 0,
    parameter VOQ_WORDS = 4096,
    parameter DST_WORDS = 8192,
    parameter SLOW_TX_WORDS = 2048,
    parameter CDC_WORDS = 256,
    parameter MTU = 1500,
    parameter TIMEOUT = 65536,      // the fast path's, in cycles
    parameter CPL_TIMEOUT = 65536,  // PCIe's completions'
    parameter TAG_W = 4
) (
    input  wire         rx_clk,             // with gmii_rx*, from the PHY; it may stand still
    input  wire         tx_clk,             // with gmii_tx*
    input  wire [  7:0] gmii_rxd,
    input  wire         gmii_rx_dv,
    input  wire         gmii_rx_er,
    output wire [  7:0] gmii_txd,
    output wire         gmii_tx_en,
    output wire         gmii_tx_er,
    input  wire         link,
    input  wire         sys_clk,            // the core's, for all but the lines
    input  wire         sys_rst,
    input  wire         flr,                // function level reset, from the core until `flr_done`
    output wire         flr_done,
    // From the core's configuration space
    input  wire [ 15:0] cfg_id,             // bus, device, function
    input  wire         cfg_bus_master,
    input  wire [  2:0] cfg_max_payload,    // 128 octets << it
    input  wire [  2:0] cfg_max_request,
    input  wire         cfg_msix_enable,
    input  wire         cfg_msix_mask,      // function mask
    input  wire [ 31:0] dma_high,           // upper half of all addresses that the card reads and writes
    // Requests of others
    input  wire         rx_req_valid,
    output wire         rx_req_ready,
    input  wire         rx_req_sop,
    input  wire         rx_req_eop,
    input  wire [127:0] rx_req_hdr,
    input  wire [  2:0] rx_req_bar,
    input  wire [ 63:0] rx_req_data,
    input  wire [  1:0] rx_req_strb,
    // Completions of our reads
    input  wire         rx_cpl_valid,
    output wire         rx_cpl_ready,
    input  wire         rx_cpl_sop,
    input  wire         rx_cpl_eop,
    input  wire [127:0] rx_cpl_hdr,
    input  wire [  3:0] rx_cpl_error,
    input  wire [ 63:0] rx_cpl_data,
    input  wire [  1:0] rx_cpl_strb,
    // Our reads
    output wire         tx_rd_req_valid,
    input  wire         tx_rd_req_ready,
    output wire         tx_rd_req_sop,
    output wire         tx_rd_req_eop,
    output wire [127:0] tx_rd_req_hdr,
    // Our writes and MSI-X messages, in their order
    output wire         tx_wr_req_valid,
    input  wire         tx_wr_req_ready,
    output wire         tx_wr_req_sop,
    output wire         tx_wr_req_eop,
    output wire [127:0] tx_wr_req_hdr,
    output wire [ 63:0] tx_wr_req_data,
    output wire [  1:0] tx_wr_req_strb,
    // Completions of others' reads
    output wire         tx_cpl_valid,
    input  wire         tx_cpl_ready,
    output wire         tx_cpl_sop,
    output wire         tx_cpl_eop,
    output wire [127:0] tx_cpl_hdr,
    output wire [ 63:0] tx_cpl_data,
    output wire [  1:0] tx_cpl_strb,
    output wire         rx_refused,         // pulses, for the core's error reporting
    output wire         unexpected,
    output wire         timed_out
);
    // From the card's DMA master (dma_), to its registers (reg_) and its aperture (ap_)
    wire [31:0] dma_awaddr, dma_araddr, reg_wdata, reg_rdata, ap_awaddr;
    wire [7:0] dma_awlen, dma_wstrb, dma_arlen, reg_awaddr, reg_araddr, ap_awlen;
    wire dma_awvalid, dma_awready, dma_wlast, dma_wvalid, dma_wready, dma_bvalid, dma_bready, dma_arvalid,
        dma_arready, dma_rlast, dma_rvalid, dma_rready, reg_awvalid, reg_awready, reg_wvalid, reg_wready, reg_bvalid,
        reg_bready, reg_arvalid, reg_arready, reg_rvalid, reg_rready, ap_awvalid, ap_awready, ap_wlast, ap_wvalid,
        ap_wready, ap_bvalid, ap_bready;
    wire [63:0] dma_wdata, dma_rdata, ap_wdata;
    wire [1:0] dma_bresp, dma_rresp, reg_bresp, reg_rresp, ap_bresp;
    wire [3:0] reg_wstrb;
    // What only the card has
    wire irq, dma_awlock, dma_arlock;
    wire [3:0] dma_awid, dma_arid, dma_awcache, dma_arcache, ap_bid;
    wire [2:0] dma_awsize, dma_arsize, dma_awprot, dma_arprot, vectors;
    wire [1:0] dma_awburst, dma_arburst;

    wire card_rst;
    wire [2:0] tx_valid, tx_ready;  // completions, writes, reads
    wire [1:0] rx_valid, rx_ready;  // requests, completions
    hero_pcie_flr resets (
        .sys_clk(sys_clk), .sys_rst(sys_rst), .flr(flr), .done(flr_done), .card_rst(card_rst),
        .tx_valid(tx_valid), .tx_ready(tx_ready), .tx_eop({tx_cpl_eop, tx_wr_req_eop, tx_rd_req_eop}),
        .core_tx_valid({tx_cpl_valid, tx_wr_req_valid, tx_rd_req_valid}),
        .core_tx_ready({tx_cpl_ready, tx_wr_req_ready, tx_rd_req_ready}),
        .core_rx_valid({rx_req_valid, rx_cpl_valid}), .core_rx_ready({rx_req_ready, rx_cpl_ready}),
        .core_rx_eop({rx_req_eop, rx_cpl_eop}), .rx_valid(rx_valid), .rx_ready(rx_ready)
    );

    hero_pcie #(.TAG_W(TAG_W), .TIMEOUT(CPL_TIMEOUT)) pcie (
        .sys_clk(sys_clk), .sys_rst(card_rst), .cfg_id(cfg_id), .cfg_bus_master(cfg_bus_master),
        .cfg_max_payload(cfg_max_payload), .cfg_max_request(cfg_max_request), .cfg_msix_enable(cfg_msix_enable),
        .cfg_msix_mask(cfg_msix_mask), .dma_high(dma_high), .rx_req_valid(rx_valid[1]), .rx_req_ready(rx_ready[1]),
        .rx_req_sop(rx_req_sop), .rx_req_eop(rx_req_eop), .rx_req_hdr(rx_req_hdr), .rx_req_bar(rx_req_bar),
        .rx_req_data(rx_req_data), .rx_req_strb(rx_req_strb), .rx_cpl_valid(rx_valid[0]), .rx_cpl_ready(rx_ready[0]),
        .rx_cpl_sop(rx_cpl_sop), .rx_cpl_eop(rx_cpl_eop), .rx_cpl_hdr(rx_cpl_hdr), .rx_cpl_error(rx_cpl_error),
        .rx_cpl_data(rx_cpl_data), .rx_cpl_strb(rx_cpl_strb), .tx_rd_req_valid(tx_valid[0]),
        .tx_rd_req_ready(tx_ready[0]), .tx_rd_req_sop(tx_rd_req_sop), .tx_rd_req_eop(tx_rd_req_eop),
        .tx_rd_req_hdr(tx_rd_req_hdr), .tx_wr_req_valid(tx_valid[1]), .tx_wr_req_ready(tx_ready[1]),
        .tx_wr_req_sop(tx_wr_req_sop), .tx_wr_req_eop(tx_wr_req_eop), .tx_wr_req_hdr(tx_wr_req_hdr),
        .tx_wr_req_data(tx_wr_req_data), .tx_wr_req_strb(tx_wr_req_strb), .tx_cpl_valid(tx_valid[2]),
        .tx_cpl_ready(tx_ready[2]), .tx_cpl_sop(tx_cpl_sop), .tx_cpl_eop(tx_cpl_eop), .tx_cpl_hdr(tx_cpl_hdr),
        .tx_cpl_data(tx_cpl_data), .tx_cpl_strb(tx_cpl_strb), .s_axi_awaddr(dma_awaddr), .s_axi_awlen(dma_awlen),
        .s_axi_awvalid(dma_awvalid), .s_axi_awready(dma_awready), .s_axi_wdata(dma_wdata), .s_axi_wstrb(dma_wstrb),
        .s_axi_wlast(dma_wlast), .s_axi_wvalid(dma_wvalid), .s_axi_wready(dma_wready), .s_axi_bresp(dma_bresp),
        .s_axi_bvalid(dma_bvalid), .s_axi_bready(dma_bready), .s_axi_araddr(dma_araddr), .s_axi_arlen(dma_arlen),
        .s_axi_arvalid(dma_arvalid), .s_axi_arready(dma_arready), .s_axi_rdata(dma_rdata), .s_axi_rresp(dma_rresp),
        .s_axi_rlast(dma_rlast), .s_axi_rvalid(dma_rvalid), .s_axi_rready(dma_rready), .m_axil_awaddr(reg_awaddr),
        .m_axil_awvalid(reg_awvalid), .m_axil_awready(reg_awready), .m_axil_wdata(reg_wdata),
        .m_axil_wstrb(reg_wstrb), .m_axil_wvalid(reg_wvalid), .m_axil_wready(reg_wready), .m_axil_bresp(reg_bresp),
        .m_axil_bvalid(reg_bvalid), .m_axil_bready(reg_bready), .m_axil_araddr(reg_araddr),
        .m_axil_arvalid(reg_arvalid), .m_axil_arready(reg_arready), .m_axil_rdata(reg_rdata),
        .m_axil_rresp(reg_rresp), .m_axil_rvalid(reg_rvalid), .m_axil_rready(reg_rready), .m_axi_awaddr(ap_awaddr),
        .m_axi_awlen(ap_awlen), .m_axi_awvalid(ap_awvalid), .m_axi_awready(ap_awready), .m_axi_wdata(ap_wdata),
        .m_axi_wlast(ap_wlast), .m_axi_wvalid(ap_wvalid), .m_axi_wready(ap_wready), .m_axi_bresp(ap_bresp),
        .m_axi_bvalid(ap_bvalid), .m_axi_bready(ap_bready), .irq(vectors), .rx_refused(rx_refused),
        .unexpected(unexpected), .timed_out(timed_out)
    );

    hero_card #(
        .ROUTES(ROUTES), .ROUTES6(ROUTES6), .VOQ_WORDS(VOQ_WORDS), .DST_WORDS(DST_WORDS), .SLOW_TX_WORDS(SLOW_TX_WORDS),
        .CDC_WORDS(CDC_WORDS), .MTU(MTU), .TIMEOUT(TIMEOUT)
    ) card (
        .rx_clk(rx_clk), .tx_clk(tx_clk), .sys_clk(sys_clk), .sys_rst(card_rst), .gmii_rxd(gmii_rxd),
        .gmii_rx_dv(gmii_rx_dv), .gmii_rx_er(gmii_rx_er), .gmii_txd(gmii_txd), .gmii_tx_en(gmii_tx_en),
        .gmii_tx_er(gmii_tx_er), .link(link), .s_axil_awaddr(reg_awaddr), .s_axil_awvalid(reg_awvalid),
        .s_axil_awready(reg_awready), .s_axil_wdata(reg_wdata), .s_axil_wstrb(reg_wstrb), .s_axil_wvalid(reg_wvalid),
        .s_axil_wready(reg_wready), .s_axil_bresp(reg_bresp), .s_axil_bvalid(reg_bvalid), .s_axil_bready(reg_bready),
        .s_axil_araddr(reg_araddr), .s_axil_arvalid(reg_arvalid), .s_axil_arready(reg_arready),
        .s_axil_rdata(reg_rdata), .s_axil_rresp(reg_rresp), .s_axil_rvalid(reg_rvalid), .s_axil_rready(reg_rready),
        .irq(irq), .vectors(vectors), .s_axi_awid(4'd0), .s_axi_awaddr(ap_awaddr), .s_axi_awlen(ap_awlen),
        .s_axi_awvalid(ap_awvalid), .s_axi_awready(ap_awready), .s_axi_wdata(ap_wdata), .s_axi_wlast(ap_wlast),
        .s_axi_wvalid(ap_wvalid), .s_axi_wready(ap_wready), .s_axi_bid(ap_bid), .s_axi_bresp(ap_bresp),
        .s_axi_bvalid(ap_bvalid), .s_axi_bready(ap_bready), .m_axi_awid(dma_awid), .m_axi_awaddr(dma_awaddr),
        .m_axi_awlen(dma_awlen), .m_axi_awsize(dma_awsize), .m_axi_awburst(dma_awburst), .m_axi_awlock(dma_awlock),
        .m_axi_awcache(dma_awcache), .m_axi_awprot(dma_awprot), .m_axi_awvalid(dma_awvalid),
        .m_axi_awready(dma_awready), .m_axi_wdata(dma_wdata), .m_axi_wstrb(dma_wstrb), .m_axi_wlast(dma_wlast),
        .m_axi_wvalid(dma_wvalid), .m_axi_wready(dma_wready), .m_axi_bid(4'd0), .m_axi_bresp(dma_bresp),
        .m_axi_bvalid(dma_bvalid), .m_axi_bready(dma_bready), .m_axi_arid(dma_arid), .m_axi_araddr(dma_araddr),
        .m_axi_arlen(dma_arlen), .m_axi_arsize(dma_arsize), .m_axi_arburst(dma_arburst), .m_axi_arlock(dma_arlock),
        .m_axi_arcache(dma_arcache), .m_axi_arprot(dma_arprot), .m_axi_arvalid(dma_arvalid),
        .m_axi_arready(dma_arready), .m_axi_rid(4'd0), .m_axi_rdata(dma_rdata), .m_axi_rresp(dma_rresp),
        .m_axi_rlast(dma_rlast), .m_axi_rvalid(dma_rvalid), .m_axi_rready(dma_rready)
    );
    // Constant for all transactions: whole words in increasing order
    wire unused = &{1'b0, irq, dma_awlock, dma_arlock, dma_awid, dma_arid, dma_awcache, dma_arcache, ap_bid, dma_awsize,
                    dma_arsize, dma_awprot, dma_arprot, dma_awburst, dma_arburst};
endmodule

`default_nettype wire
