// Cards with PCI Express, of which Python plays the PCIe cores, and the far ends of their Ethernet.
`default_nettype none

module pcie_card_tb #(
    parameter CARDS = 1,
    parameter VOQ_WORDS = 256,
    parameter DST_WORDS = 512,
    parameter SLOW_TX_WORDS = 512,
    parameter TIMEOUT = 4096,
    parameter CPL_TIMEOUT = 600
) (
    input wire sys_clk,
    input wire sys_rst,
    input wire rx_clk,
    input wire tx_clk
);
    genvar k;
    generate
        for (k = 0; k < CARDS; k = k + 1) begin : g_slot
            pcie_slot #(
                .VOQ_WORDS(VOQ_WORDS), .DST_WORDS(DST_WORDS), .SLOW_TX_WORDS(SLOW_TX_WORDS), .TIMEOUT(TIMEOUT), .CPL_TIMEOUT(CPL_TIMEOUT)
            ) slot (
                .sys_clk(sys_clk), .sys_rst(sys_rst), .rx_clk(rx_clk), .tx_clk(tx_clk)
            );
        end
    endgenerate
endmodule

// What Python writes are registers here.
module pcie_slot #(
    parameter VOQ_WORDS = 0,
    parameter DST_WORDS = 0,
    parameter SLOW_TX_WORDS = 0,
    parameter TIMEOUT = 0,
    parameter CPL_TIMEOUT = 0
) (
    input wire sys_clk,
    input wire sys_rst,
    input wire rx_clk,
    input wire tx_clk
);
    reg flr = 0, link = 1, cfg_bus_master = 0, cfg_msix_enable = 0, cfg_msix_mask = 0;
    reg [15:0] cfg_id = 0;
    reg [2:0] cfg_max_payload = 0, cfg_max_request = 2;
    reg [31:0] dma_high = 0;
    reg rx_req_valid = 0, rx_req_sop, rx_req_eop, rx_cpl_valid = 0, rx_cpl_sop, rx_cpl_eop;
    reg [127:0] rx_req_hdr, rx_cpl_hdr;
    reg [2:0] rx_req_bar;
    reg [63:0] rx_req_data, rx_cpl_data;
    reg [1:0] rx_req_strb, rx_cpl_strb;
    reg [3:0] rx_cpl_error;
    reg tx_rd_req_ready = 0, tx_wr_req_ready = 0, tx_cpl_ready = 0;

    wire flr_done, rx_req_ready, rx_cpl_ready, rx_refused, unexpected, timed_out;
    wire tx_rd_req_valid, tx_rd_req_sop, tx_rd_req_eop, tx_wr_req_valid, tx_wr_req_sop, tx_wr_req_eop, tx_cpl_valid, tx_cpl_sop, tx_cpl_eop;
    wire [127:0] tx_rd_req_hdr, tx_wr_req_hdr, tx_cpl_hdr;
    wire [63:0] tx_wr_req_data, tx_cpl_data;
    wire [1:0] tx_wr_req_strb, tx_cpl_strb;

    wire [7:0] gmii_rxd, gmii_txd;
    wire gmii_rx_dv, gmii_rx_er, gmii_tx_en, gmii_tx_er;
    tb_gmii gmii (.rx_clk(rx_clk), .tx_clk(tx_clk), .rst(sys_rst), .rxd(gmii_rxd), .rx_dv(gmii_rx_dv), .rx_er(gmii_rx_er),
                  .txd(gmii_txd), .tx_en(gmii_tx_en), .tx_er(gmii_tx_er));
    hero_pcie_card #(
        .VOQ_WORDS(VOQ_WORDS), .DST_WORDS(DST_WORDS), .SLOW_TX_WORDS(SLOW_TX_WORDS), .TIMEOUT(TIMEOUT), .CPL_TIMEOUT(CPL_TIMEOUT)
    ) card (.*);
endmodule

`default_nettype wire
