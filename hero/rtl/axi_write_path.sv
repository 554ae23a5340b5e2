// Write channels between four masters and six slaves: each open slave is connected to its owner for one transaction.
`default_nettype none

module axi_write_path (
    input  wire            sys_clk,
    input  wire            sys_rst,
    // Opened by the arbiter, constant from there to `done` (pulse: the response is taken). A master owns
    // at most one open slave.
    input  wire [     5:0] open,
    input  wire [   6*2-1:0] owner,
    output wire [     5:0] done,
    // Masters
    input  wire [4*32-1:0] s_axi_awaddr,
    input  wire [ 4*8-1:0] s_axi_awlen,
    input  wire [     3:0] s_axi_awvalid,
    output wire [     3:0] s_axi_awready,
    input  wire [4*64-1:0] s_axi_wdata,
    input  wire [ 4*8-1:0] s_axi_wstrb,
    input  wire [     3:0] s_axi_wlast,
    input  wire [     3:0] s_axi_wvalid,
    output wire [     3:0] s_axi_wready,
    output wire [ 4*2-1:0] s_axi_bresp,
    output wire [     3:0] s_axi_bvalid,
    input  wire [     3:0] s_axi_bready,
    // Slaves
    output wire [ 6*4-1:0] m_axi_awid,
    output wire [6*32-1:0] m_axi_awaddr,
    output wire [ 6*8-1:0] m_axi_awlen,
    output wire [     5:0] m_axi_awvalid,
    input  wire [     5:0] m_axi_awready,
    output wire [6*64-1:0] m_axi_wdata,
    output wire [ 6*8-1:0] m_axi_wstrb,
    output wire [     5:0] m_axi_wlast,
    output wire [     5:0] m_axi_wvalid,
    input  wire [     5:0] m_axi_wready,
    input  wire [ 6*2-1:0] m_axi_bresp,
    input  wire [     5:0] m_axi_bvalid,
    output wire [     5:0] m_axi_bready
);
    // Whether address and last word have passed: a master may offer its next transaction before it has the response of this
    // one.
    reg [5:0] aw_done, w_done;
    wire [5:0] aw_open = open & ~aw_done;
    wire [5:0] w_open = open & ~w_done;

    genvar i;
    generate
        for (i = 0; i < 6; i = i + 1) begin : g_slave
            wire [1:0] o = owner[2*i+:2];
            assign m_axi_awid[4*i+:4] = {2'b0, o};
            assign m_axi_awaddr[32*i+:32] = s_axi_awaddr[32*o+:32];
            assign m_axi_awlen[8*i+:8] = s_axi_awlen[8*o+:8];
            assign m_axi_awvalid[i] = aw_open[i] && s_axi_awvalid[o];
            assign m_axi_wdata[64*i+:64] = s_axi_wdata[64*o+:64];
            assign m_axi_wstrb[8*i+:8] = s_axi_wstrb[8*o+:8];
            assign m_axi_wlast[i] = s_axi_wlast[o];
            assign m_axi_wvalid[i] = w_open[i] && s_axi_wvalid[o];
            assign m_axi_bready[i] = open[i] && s_axi_bready[o];
            assign done[i] = m_axi_bvalid[i] && m_axi_bready[i];

            always @(posedge sys_clk) begin
                if (m_axi_awvalid[i] && m_axi_awready[i]) aw_done[i] <= 1;
                if (m_axi_wvalid[i] && m_axi_wready[i] && m_axi_wlast[i]) w_done[i] <= 1;
                if (sys_rst || done[i]) begin
                    aw_done[i] <= 0;
                    w_done[i] <= 0;
                end
            end
        end

        for (i = 0; i < 4; i = i + 1) begin : g_master
            wire [5:0] mine, bresp0, bresp1;
            genvar j;
            for (j = 0; j < 6; j = j + 1) begin : g_of
                assign mine[j] = open[j] && owner[2*j+:2] == i;
                assign bresp0[j] = m_axi_bresp[2*j];
                assign bresp1[j] = m_axi_bresp[2*j+1];
            end
            assign s_axi_awready[i] = |(mine & aw_open & m_axi_awready);
            assign s_axi_wready[i] = |(mine & w_open & m_axi_wready);
            assign s_axi_bvalid[i] = |(mine & m_axi_bvalid);
            assign s_axi_bresp[2*i+:2] = {|(mine & bresp1), |(mine & bresp0)};
        end
    endgenerate

`ifdef FORMAL
    reg past = 0;
    always @(posedge sys_clk) past <= 1;
    // A slave answers only requests (5 is the error slave).
    always @(posedge sys_clk)
        if (past) begin
            assume ((m_axi_bvalid[4:0] & ~(aw_done[4:0] & w_done[4:0])) == 0);
            write_done_is_open: assert (((aw_done | w_done) & ~open) == 0);
        end
`endif
endmodule

`default_nettype wire
