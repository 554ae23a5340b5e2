// The registers and the card's reset: the device under test of test_regs.py.
`default_nettype none

module regs_bench #(
    parameter ROUTES = 3,
    parameter ROUTES6 = 0
) (
    input  wire         sys_clk,
    input  wire         sys_rst,
    input  wire         rx_clk,
    input  wire         tx_clk,
    input  wire         quiet,
    output wire         quiesce,
    output wire         core_rst,
    output wire         rx_rst,
    output wire         tx_rst,
    output wire         rx_half_rst,
    output wire         tx_half_rst,
    input  wire [  7:0] s_axil_awaddr,
    input  wire         s_axil_awvalid,
    output wire         s_axil_awready,
    input  wire [ 31:0] s_axil_wdata,
    input  wire [  3:0] s_axil_wstrb,
    input  wire         s_axil_wvalid,
    output wire         s_axil_wready,
    output wire [  1:0] s_axil_bresp,
    output wire         s_axil_bvalid,
    input  wire         s_axil_bready,
    input  wire [  7:0] s_axil_araddr,
    input  wire         s_axil_arvalid,
    output wire         s_axil_arready,
    output wire [ 31:0] s_axil_rdata,
    output wire [  1:0] s_axil_rresp,
    output wire         s_axil_rvalid,
    input  wire         s_axil_rready,
    output wire         irq,
    output wire [  7:0] irq_pending,
    output wire [  7:0] irq_mask,
    output wire         irq_read,
    output wire         rx_enable,
    output wire         tx_enable,
    output wire         fast_enable,
    output wire         promiscuous,
    output wire [ 47:0] mac,
    output wire [  1:0] card,
    output wire [31:13] cpl_base,
    output wire [ 95:0] peer_base,
    output wire         cfg_wr,
    output wire [  5:0] cfg_reg,
    output wire [ 31:0] cfg_data,
    output wire [  4:0] cfg_bank,
    output wire         cfg_commit,
    output wire [  2:0] give,
    output wire [ 31:0] vector,
    input  wire [  5:0] free,
    input  wire [ 15:0] held,
    input  wire         link,
    input  wire         fast_open,
    input  wire [  2:0] broken,
    input  wire [  8:0] tx_len,
    input  wire [ 95:0] req_in,
    input  wire [ 95:0] rsp_in,
    input  wire [  7:0] interrupts,
    input  wire         fwd,
    input  wire         fwd_host,
    input  wire [  5:0] fwd_route,
    input  wire [hero_pkg::COUNTERS-1:0] events
);
    wire [5:0] clear_n;
    wire ready, reset;
    hero_reset resets (.*, .start(reset));
    hero_regs #(.ROUTES(ROUTES), .ROUTES6(ROUTES6)) regs (.*, .receiving(!rx_half_rst));
endmodule

`default_nettype wire
