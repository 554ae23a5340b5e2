// Read channels between four masters and two slaves, the host's memory and `axi_error`: each open slave is connected to its
// owner for one transaction.
`default_nettype none

module axi_read_path (
    input  wire            sys_clk,
    input  wire            sys_rst,
    // Bit 0: memory, 1: error. As in axi_write_path; `done`: the last word is taken.
    input  wire [     1:0] open,
    input  wire [     3:0] owner,
    output wire [     1:0] done,
    // Masters
    input  wire [4*32-1:0] s_axi_araddr,
    input  wire [ 4*8-1:0] s_axi_arlen,
    input  wire [     3:0] s_axi_arvalid,
    output wire [     3:0] s_axi_arready,
    output wire [4*64-1:0] s_axi_rdata,
    output wire [ 4*2-1:0] s_axi_rresp,
    output wire [     3:0] s_axi_rlast,
    output wire [     3:0] s_axi_rvalid,
    input  wire [     3:0] s_axi_rready,
    // The host's memory
    output wire [     3:0] m_axi_arid,
    output wire [    31:0] m_axi_araddr,
    output wire [     7:0] m_axi_arlen,
    output wire            m_axi_arvalid,
    input  wire            m_axi_arready,
    input  wire [    63:0] m_axi_rdata,
    input  wire [     1:0] m_axi_rresp,
    input  wire            m_axi_rlast,
    input  wire            m_axi_rvalid,
    output wire            m_axi_rready,
    // axi_error
    output wire [     7:0] error_arlen,
    output wire            error_arvalid,
    input  wire            error_arready,
    input  wire            error_rlast,
    input  wire            error_rvalid,
    output wire            error_rready
);
    localparam [1:0] DECERR = 3;

    reg [1:0] ar_done;
    wire [1:0] ar_open = open & ~ar_done;

    wire [1:0] memory = owner[1:0];
    assign m_axi_arid = {2'b0, memory};
    assign m_axi_araddr = s_axi_araddr[32*memory+:32];
    assign m_axi_arlen = s_axi_arlen[8*memory+:8];
    assign m_axi_arvalid = ar_open[0] && s_axi_arvalid[memory];
    assign m_axi_rready = open[0] && s_axi_rready[memory];

    wire [1:0] nobody = owner[3:2];
    assign error_arlen = s_axi_arlen[8*nobody+:8];
    assign error_arvalid = ar_open[1] && s_axi_arvalid[nobody];
    assign error_rready = open[1] && s_axi_rready[nobody];

    assign done = {error_rvalid && error_rready && error_rlast, m_axi_rvalid && m_axi_rready && m_axi_rlast};

    always @(posedge sys_clk) begin
        if (m_axi_arvalid && m_axi_arready) ar_done[0] <= 1;
        if (error_arvalid && error_arready) ar_done[1] <= 1;
        if (sys_rst || done[0]) ar_done[0] <= 0;
        if (sys_rst || done[1]) ar_done[1] <= 0;
    end

    genvar i;
    generate
        for (i = 0; i < 4; i = i + 1) begin : g_master
            wire [1:0] mine = {open[1] && nobody == i, open[0] && memory == i};
            assign s_axi_arready[i] = |(mine & ar_open & {error_arready, m_axi_arready});
            assign s_axi_rvalid[i] = |(mine & {error_rvalid, m_axi_rvalid});
            assign s_axi_rlast[i] = mine[1] ? error_rlast : m_axi_rlast;
            assign s_axi_rresp[2*i+:2] = mine[1] ? DECERR : m_axi_rresp;
            assign s_axi_rdata[64*i+:64] = mine[1] ? 64'd0 : m_axi_rdata;
        end
    endgenerate

`ifdef FORMAL
    reg past = 0;
    always @(posedge sys_clk) past <= 1;
    // Memory answers only requests.
    always @(posedge sys_clk)
        if (past) begin
            assume (!m_axi_rvalid || ar_done[0]);
            read_done_is_open: assert ((ar_done & ~open) == 0);
        end
`endif
endmodule

`default_nettype wire
