// The card's posted TLPs in one stream: DMA writes, and between them MSI-X messages.
`default_nettype none

module hero_pcie_tx (
    input  wire         sys_clk,
    input  wire         sys_rst,
    input  wire         wr_valid,
    output wire         wr_ready,
    input  wire         wr_sop,
    input  wire         wr_eop,
    input  wire [127:0] wr_hdr,
    input  wire [ 63:0] wr_data,
    input  wire [  1:0] wr_strb,
    input  wire         msix_valid,
    output wire         msix_ready,
    input  wire [127:0] msix_hdr,
    input  wire [ 31:0] msix_data,
    output wire         tlp_valid,
    input  wire         tlp_ready,
    output wire         tlp_sop,
    output wire         tlp_eop,
    output wire [127:0] tlp_hdr,
    output wire [ 63:0] tlp_data,
    output wire [  1:0] tlp_strb
);
    localparam NONE = 2'd0, WRITE = 2'd1, MSIX = 2'd2;
    reg [1:0] owner;
    always @(posedge sys_clk)
        if (sys_rst) owner <= NONE;
        else if (owner == NONE) owner <= msix_valid ? MSIX : wr_valid ? WRITE : NONE;
        else if (tlp_valid && tlp_ready && tlp_eop) owner <= NONE;

    wire message = owner == MSIX;
    assign wr_ready = owner == WRITE && tlp_ready;
    assign msix_ready = message && tlp_ready;
    assign tlp_valid = owner == WRITE && wr_valid || message && msix_valid;
    assign tlp_sop = message || wr_sop;
    assign tlp_eop = message || wr_eop;
    assign tlp_hdr = message ? msix_hdr : wr_hdr;
    assign tlp_data = message ? {32'd0, msix_data} : wr_data;
    assign tlp_strb = message ? 2'b01 : wr_strb;
endmodule

`default_nettype wire
