// A bus with its four masters and five slaves apart, each with the signals of AXI4, so that cocotbext-axi can be all of
// them: `master[k].axi_*`, `slave[k].axi_*`; only slave 4 is read.
`default_nettype none

module bus_tb #(
    parameter BUS = 0,
    parameter SETUP = 8
) (
    input wire clk,
    input wire rst
);
    wire [4*32-1:0] s_awaddr, s_araddr;
    wire [4*8-1:0] s_awlen, s_wstrb, s_arlen;
    wire [4*64-1:0] s_wdata, s_rdata;
    wire [4*2-1:0] s_bresp, s_rresp;
    wire [3:0] s_awvalid, s_awready, s_wlast, s_wvalid, s_wready, s_bvalid, s_bready;
    wire [3:0] s_arvalid, s_arready, s_rlast, s_rvalid, s_rready;
    wire [5*4-1:0] m_awid;
    wire [5*32-1:0] m_awaddr;
    wire [5*8-1:0] m_awlen, m_wstrb;
    wire [5*64-1:0] m_wdata;
    wire [5*2-1:0] m_bresp;
    wire [4:0] m_awvalid, m_awready, m_wlast, m_wvalid, m_wready, m_bvalid, m_bready;
    wire [3:0] m_arid;
    wire [31:0] m_araddr;
    wire [7:0] m_arlen;
    wire [63:0] m_rdata;
    wire [1:0] m_rresp;
    wire m_arvalid, m_arready, m_rlast, m_rvalid, m_rready;

    genvar k;
    generate
        for (k = 0; k < 4; k = k + 1) begin : master
            reg [3:0] axi_awid, axi_bid, axi_arid, axi_rid;
            reg [31:0] axi_awaddr, axi_araddr;
            reg [7:0] axi_awlen, axi_arlen, axi_wstrb;
            reg [2:0] axi_awsize, axi_arsize;
            reg [1:0] axi_awburst, axi_arburst;
            reg [63:0] axi_wdata;
            reg axi_awvalid, axi_wlast, axi_wvalid, axi_bready, axi_arvalid, axi_rready;
            wire [63:0] axi_rdata = s_rdata[64*k+:64];
            wire [1:0] axi_bresp = s_bresp[2*k+:2];
            wire [1:0] axi_rresp = s_rresp[2*k+:2];
            wire axi_awready = s_awready[k];
            wire axi_wready = s_wready[k];
            wire axi_bvalid = s_bvalid[k];
            wire axi_arready = s_arready[k];
            wire axi_rlast = s_rlast[k];
            wire axi_rvalid = s_rvalid[k];
            assign s_awaddr[32*k+:32] = axi_awaddr;
            assign s_awlen[8*k+:8] = axi_awlen;
            assign s_awvalid[k] = axi_awvalid;
            assign s_wdata[64*k+:64] = axi_wdata;
            assign s_wstrb[8*k+:8] = axi_wstrb;
            assign s_wlast[k] = axi_wlast;
            assign s_wvalid[k] = axi_wvalid;
            assign s_bready[k] = axi_bready;
            assign s_araddr[32*k+:32] = axi_araddr;
            assign s_arlen[8*k+:8] = axi_arlen;
            assign s_arvalid[k] = axi_arvalid;
            assign s_rready[k] = axi_rready;
            // Constants on this bus; Icarus leaves out what nobody reads.
            wire odd = axi_awsize != 3 || axi_awburst != 1 || axi_arsize != 3 || axi_arburst != 1;
            // The bus has one transaction of a master under way: its identifier is the last one it took.
            always @(posedge clk) begin
                if (axi_awvalid && axi_awready) axi_bid <= axi_awid;
                if (axi_arvalid && axi_arready) axi_rid <= axi_arid;
            end
        end
        for (k = 0; k < 5; k = k + 1) begin : slave
            wire [3:0] axi_awid = m_awid[4*k+:4];
            wire [31:0] axi_awaddr = m_awaddr[32*k+:32];
            wire [7:0] axi_awlen = m_awlen[8*k+:8];
            wire [2:0] axi_awsize = 3;
            wire [1:0] axi_awburst = 1;
            wire [63:0] axi_wdata = m_wdata[64*k+:64];
            wire [7:0] axi_wstrb = m_wstrb[8*k+:8];
            wire axi_awvalid = m_awvalid[k];
            wire axi_wlast = m_wlast[k];
            wire axi_wvalid = m_wvalid[k];
            wire axi_bready = m_bready[k];
            reg [3:0] axi_bid;
            reg [1:0] axi_bresp;
            reg axi_awready, axi_wready, axi_bvalid;
            wire odd = axi_bid != axi_awid;
            assign m_awready[k] = axi_awready;
            assign m_wready[k] = axi_wready;
            assign m_bvalid[k] = axi_bvalid;
            assign m_bresp[2*k+:2] = axi_bresp;
        end
    endgenerate

    // The read side of slave 4
    wire [3:0] memory_arid = m_arid;
    wire [31:0] memory_araddr = m_araddr;
    wire [7:0] memory_arlen = m_arlen;
    wire [2:0] memory_arsize = 3;
    wire [1:0] memory_arburst = 1;
    wire memory_arvalid = m_arvalid;
    wire memory_rready = m_rready;
    reg [3:0] memory_rid;
    reg [63:0] memory_rdata;
    reg [1:0] memory_rresp;
    reg memory_arready, memory_rlast, memory_rvalid;
    wire odd = memory_rid != memory_arid;
    assign m_arready = memory_arready;
    assign m_rdata = memory_rdata;
    assign m_rresp = memory_rresp;
    assign m_rlast = memory_rlast;
    assign m_rvalid = memory_rvalid;

`define PORTS \
    .sys_clk(clk), .sys_rst(rst), \
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
            bus_pcix #(
                .SETUP(SETUP)
            ) bus (
                `PORTS
            );
        end else begin : g_xbar
            axi_xbar bus (`PORTS);
        end
    endgenerate
endmodule

`default_nettype wire
