// The card's host interface: between its AXI ports and the transaction layer of a PCIe core, whose streams have the form of
// verilog-pcie's (one segment, 64 bits; its pcie_us_if and others make them of a vendor's core).
//
// A stream: `valid`, `ready`, `sop`, `eop`, `hdr` (DW 0 in bits 127:96, with 3 DWs bits 31:0 are not used; looked
// at with sop only), `data` (the payload from its first DW on, in bits 31:0), `strb` (DWs of it). What has no payload is one word.
// BAR 0: registers, 4 KiB; BAR 2: aperture, 1 MiB, written in whole words; BAR 4: MSI-X, 4 KiB, three
// vectors: received, sent, others. The core keeps credits, configuration space, ordering and replay.
`default_nettype none

module hero_pcie #(
    parameter TAG_W = 4,
    parameter TIMEOUT = 65536
) (
    input  wire         sys_clk,
    input  wire         sys_rst,
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
    // The card's DMA master
    input  wire [ 31:0] s_axi_awaddr,
    input  wire [  7:0] s_axi_awlen,
    input  wire         s_axi_awvalid,
    output wire         s_axi_awready,
    input  wire [ 63:0] s_axi_wdata,
    input  wire [  7:0] s_axi_wstrb,
    input  wire         s_axi_wlast,
    input  wire         s_axi_wvalid,
    output wire         s_axi_wready,
    output wire [  1:0] s_axi_bresp,
    output wire         s_axi_bvalid,
    input  wire         s_axi_bready,
    input  wire [ 31:0] s_axi_araddr,
    input  wire [  7:0] s_axi_arlen,
    input  wire         s_axi_arvalid,
    output wire         s_axi_arready,
    output wire [ 63:0] s_axi_rdata,
    output wire [  1:0] s_axi_rresp,
    output wire         s_axi_rlast,
    output wire         s_axi_rvalid,
    input  wire         s_axi_rready,
    // Its registers
    output wire [  7:0] m_axil_awaddr,
    output wire         m_axil_awvalid,
    input  wire         m_axil_awready,
    output wire [ 31:0] m_axil_wdata,
    output wire [  3:0] m_axil_wstrb,
    output wire         m_axil_wvalid,
    input  wire         m_axil_wready,
    input  wire [  1:0] m_axil_bresp,
    input  wire         m_axil_bvalid,
    output wire         m_axil_bready,
    output wire [  7:0] m_axil_araddr,
    output wire         m_axil_arvalid,
    input  wire         m_axil_arready,
    input  wire [ 31:0] m_axil_rdata,
    input  wire [  1:0] m_axil_rresp,
    input  wire         m_axil_rvalid,
    output wire         m_axil_rready,
    // Its aperture
    output wire [ 31:0] m_axi_awaddr,
    output wire [  7:0] m_axi_awlen,
    output wire         m_axi_awvalid,
    input  wire         m_axi_awready,
    output wire [ 63:0] m_axi_wdata,
    output wire         m_axi_wlast,
    output wire         m_axi_wvalid,
    input  wire         m_axi_wready,
    input  wire [  1:0] m_axi_bresp,
    input  wire         m_axi_bvalid,
    output wire         m_axi_bready,
    input  wire [  2:0] irq,                // levels: received, sent, others
    output wire         rx_refused,         // pulses, for the core's error reporting
    output wire         unexpected,
    output wire         timed_out
);
    wire np_valid, np_ready, wr_valid, wr_ready, wr_sop, wr_eop, msix_valid, msix_ready, table_wr_en;
    wire [127:0] np_hdr, wr_hdr, msix_hdr;
    wire [63:0] wr_data;
    wire [31:0] msix_data, table_wr_data, table_rd_data;
    wire [9:0] table_wr_dw, table_rd_dw;
    wire [3:0] table_wr_be;
    wire [2:0] np_bar;
    wire [1:0] wr_strb;

    hero_pcie_rx rx (
            .sys_clk(sys_clk), .sys_rst(sys_rst), .tlp_valid(rx_req_valid), .tlp_ready(rx_req_ready), .tlp_sop(rx_req_sop),
            .tlp_eop(rx_req_eop), .tlp_hdr(rx_req_hdr), .tlp_bar(rx_req_bar), .tlp_data(rx_req_data), .tlp_strb(rx_req_strb),
            .np_valid(np_valid), .np_ready(np_ready), .np_hdr(np_hdr), .np_bar(np_bar), .m_axil_awaddr(m_axil_awaddr),
            .m_axil_awvalid(m_axil_awvalid), .m_axil_awready(m_axil_awready), .m_axil_wdata(m_axil_wdata),
            .m_axil_wstrb(m_axil_wstrb), .m_axil_wvalid(m_axil_wvalid), .m_axil_wready(m_axil_wready),
            .m_axil_bresp(m_axil_bresp), .m_axil_bvalid(m_axil_bvalid), .m_axil_bready(m_axil_bready),
            .m_axi_awaddr(m_axi_awaddr), .m_axi_awlen(m_axi_awlen), .m_axi_awvalid(m_axi_awvalid),
            .m_axi_awready(m_axi_awready), .m_axi_wdata(m_axi_wdata), .m_axi_wlast(m_axi_wlast), .m_axi_wvalid(m_axi_wvalid),
            .m_axi_wready(m_axi_wready), .m_axi_bresp(m_axi_bresp), .m_axi_bvalid(m_axi_bvalid), .m_axi_bready(m_axi_bready),
            .table_wr_en(table_wr_en), .table_wr_dw(table_wr_dw), .table_wr_data(table_wr_data), .table_wr_be(table_wr_be),
            .refused(rx_refused)
    );
    hero_pcie_cpl cpl (
            .sys_clk(sys_clk), .sys_rst(sys_rst), .id(cfg_id), .hold(msix_valid), .np_valid(np_valid), .np_ready(np_ready),
            .np_hdr(np_hdr), .np_bar(np_bar), .m_axil_araddr(m_axil_araddr), .m_axil_arvalid(m_axil_arvalid),
            .m_axil_arready(m_axil_arready), .m_axil_rdata(m_axil_rdata), .m_axil_rresp(m_axil_rresp),
            .m_axil_rvalid(m_axil_rvalid), .m_axil_rready(m_axil_rready), .table_rd_dw(table_rd_dw),
            .table_rd_data(table_rd_data), .tlp_valid(tx_cpl_valid), .tlp_ready(tx_cpl_ready), .tlp_sop(tx_cpl_sop),
            .tlp_eop(tx_cpl_eop), .tlp_hdr(tx_cpl_hdr), .tlp_data(tx_cpl_data), .tlp_strb(tx_cpl_strb)
    );
    hero_pcie_rd #(.TAG_W(TAG_W), .TIMEOUT(TIMEOUT)) rd (
            .sys_clk(sys_clk), .sys_rst(sys_rst), .id(cfg_id), .high(dma_high), .bus_master(cfg_bus_master),
            .max_request(cfg_max_request), .s_axi_araddr(s_axi_araddr), .s_axi_arlen(s_axi_arlen),
            .s_axi_arvalid(s_axi_arvalid), .s_axi_arready(s_axi_arready), .s_axi_rdata(s_axi_rdata),
            .s_axi_rresp(s_axi_rresp), .s_axi_rlast(s_axi_rlast), .s_axi_rvalid(s_axi_rvalid), .s_axi_rready(s_axi_rready),
            .req_valid(tx_rd_req_valid), .req_ready(tx_rd_req_ready), .req_hdr(tx_rd_req_hdr), .cpl_valid(rx_cpl_valid),
            .cpl_ready(rx_cpl_ready), .cpl_sop(rx_cpl_sop), .cpl_eop(rx_cpl_eop), .cpl_hdr(rx_cpl_hdr),
            .cpl_error(rx_cpl_error), .cpl_data(rx_cpl_data), .cpl_strb(rx_cpl_strb), .unexpected(unexpected),
            .timed_out(timed_out)
    );
    hero_pcie_wr wr (
            .sys_clk(sys_clk), .sys_rst(sys_rst), .id(cfg_id), .high(dma_high), .bus_master(cfg_bus_master),
            .max_payload(cfg_max_payload), .s_axi_awaddr(s_axi_awaddr), .s_axi_awlen(s_axi_awlen),
            .s_axi_awvalid(s_axi_awvalid), .s_axi_awready(s_axi_awready), .s_axi_wdata(s_axi_wdata),
            .s_axi_wstrb(s_axi_wstrb), .s_axi_wlast(s_axi_wlast), .s_axi_wvalid(s_axi_wvalid), .s_axi_wready(s_axi_wready),
            .s_axi_bresp(s_axi_bresp), .s_axi_bvalid(s_axi_bvalid), .s_axi_bready(s_axi_bready), .tlp_valid(wr_valid),
            .tlp_ready(wr_ready), .tlp_sop(wr_sop), .tlp_eop(wr_eop), .tlp_hdr(wr_hdr), .tlp_data(wr_data), .tlp_strb(wr_strb)
    );
    hero_pcie_msix msix (
            .sys_clk(sys_clk), .sys_rst(sys_rst), .id(cfg_id), .bus_master(cfg_bus_master), .enable(cfg_msix_enable),
            .function_mask(cfg_msix_mask), .irq(irq), .wr_en(table_wr_en), .wr_dw(table_wr_dw), .wr_data(table_wr_data),
            .wr_be(table_wr_be), .rd_dw(table_rd_dw), .rd_data(table_rd_data), .tlp_valid(msix_valid), .tlp_ready(msix_ready),
            .tlp_hdr(msix_hdr), .tlp_data(msix_data)
    );
    hero_pcie_tx tx (
            .sys_clk(sys_clk), .sys_rst(sys_rst), .wr_valid(wr_valid), .wr_ready(wr_ready), .wr_sop(wr_sop), .wr_eop(wr_eop),
            .wr_hdr(wr_hdr), .wr_data(wr_data), .wr_strb(wr_strb), .msix_valid(msix_valid), .msix_ready(msix_ready),
            .msix_hdr(msix_hdr), .msix_data(msix_data), .tlp_valid(tx_wr_req_valid), .tlp_ready(tx_wr_req_ready),
            .tlp_sop(tx_wr_req_sop), .tlp_eop(tx_wr_req_eop), .tlp_hdr(tx_wr_req_hdr), .tlp_data(tx_wr_req_data),
            .tlp_strb(tx_wr_req_strb)
    );
    assign tx_rd_req_sop = 1'b1;
    assign tx_rd_req_eop = 1'b1;
endmodule

`default_nettype wire
