// Crossbar: each slave can have one write and one read under way. Masters take turns at each slave, and never wait for
// another slave.
`default_nettype none

module axi_xbar (
    input  wire            sys_clk,
    input  wire            sys_rst,
    // From the cards, card k at k*width +: width
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
    input  wire [4*32-1:0] s_axi_araddr,
    input  wire [ 4*8-1:0] s_axi_arlen,
    input  wire [     3:0] s_axi_arvalid,
    output wire [     3:0] s_axi_arready,
    output wire [4*64-1:0] s_axi_rdata,
    output wire [ 4*2-1:0] s_axi_rresp,
    output wire [     3:0] s_axi_rlast,
    output wire [     3:0] s_axi_rvalid,
    input  wire [     3:0] s_axi_rready,
    // To the cards' apertures (0-3) and the host's memory (4); only memory is read
    output wire [ 5*4-1:0] m_axi_awid,
    output wire [5*32-1:0] m_axi_awaddr,
    output wire [ 5*8-1:0] m_axi_awlen,
    output wire [     4:0] m_axi_awvalid,
    input  wire [     4:0] m_axi_awready,
    output wire [5*64-1:0] m_axi_wdata,
    output wire [ 5*8-1:0] m_axi_wstrb,
    output wire [     4:0] m_axi_wlast,
    output wire [     4:0] m_axi_wvalid,
    input  wire [     4:0] m_axi_wready,
    input  wire [ 5*2-1:0] m_axi_bresp,
    input  wire [     4:0] m_axi_bvalid,
    output wire [     4:0] m_axi_bready,
    output wire [     3:0] m_axi_arid,
    output wire [    31:0] m_axi_araddr,
    output wire [     7:0] m_axi_arlen,
    output wire            m_axi_arvalid,
    input  wire            m_axi_arready,
    input  wire [    63:0] m_axi_rdata,
    input  wire [     1:0] m_axi_rresp,
    input  wire            m_axi_rlast,
    input  wire            m_axi_rvalid,
    output wire            m_axi_rready
);
    reg [5:0] w_open;
    reg [6*2-1:0] w_owner;
    reg [1:0] r_open;
    reg [3:0] r_owner;
    wire [5:0] w_done;
    wire [1:0] r_done;
    // Where each master's writes and reads go
    wire [4*3-1:0] w_slave, r_slave;
    genvar i, j;
    generate
        for (i = 0; i < 4; i = i + 1) begin : g_decode
            bus_decode w (
                .addr (s_axi_awaddr[32*i+:32]),
                .slave(w_slave[3*i+:3])
            );
            bus_decode r (
                .addr (s_axi_araddr[32*i+:32]),
                .slave(r_slave[3*i+:3])
            );
        end
    endgenerate

    // A master has at most one write and one read at a time.
    wire [3:0] w_busy, r_busy;
    generate
        for (i = 0; i < 4; i = i + 1) begin : g_busy
            wire [5:0] mine;
            for (j = 0; j < 6; j = j + 1) begin : g_of
                assign mine[j] = w_open[j] && w_owner[2*j+:2] == i;
            end
            assign w_busy[i] = |mine;
            assign r_busy[i] = (r_open[0] && r_owner[1:0] == i) || (r_open[1] && r_owner[3:2] == i);
        end

        for (j = 0; j < 6; j = j + 1) begin : g_write
            wire [3:0] req;
            wire [1:0] next;
            wire any;
            for (i = 0; i < 4; i = i + 1) begin : g_of
                assign req[i] = s_axi_awvalid[i] && !w_busy[i] && w_slave[3*i+:3] == j;
            end
            hero_rr #(
                .N(4),
                .W(2)
            ) turn (
                .req (req),
                .last(w_owner[2*j+:2]),
                .any (any),
                .pick(next)
            );
            always @(posedge sys_clk) begin
                if (w_open[j]) begin
                    if (w_done[j]) w_open[j] <= 0;
                end else if (any) begin
                    w_open[j] <= 1;
                    w_owner[2*j+:2] <= next;
                end
                if (sys_rst) begin
                    w_open[j] <= 0;
                    w_owner[2*j+:2] <= 0;
                end
            end
        end

        // Reads: the host's memory (0), and all other addresses (1)
        for (j = 0; j < 2; j = j + 1) begin : g_read
            wire [3:0] req;
            wire [1:0] next;
            wire any;
            for (i = 0; i < 4; i = i + 1) begin : g_of
                assign req[i] = s_axi_arvalid[i] && !r_busy[i] && (r_slave[3*i+:3] == 4) == (j == 0);
            end
            hero_rr #(
                .N(4),
                .W(2)
            ) turn (
                .req (req),
                .last(r_owner[2*j+:2]),
                .any (any),
                .pick(next)
            );
            always @(posedge sys_clk) begin
                if (r_open[j]) begin
                    if (r_done[j]) r_open[j] <= 0;
                end else if (any) begin
                    r_open[j] <= 1;
                    r_owner[2*j+:2] <= next;
                end
                if (sys_rst) begin
                    r_open[j] <= 0;
                    r_owner[2*j+:2] <= 0;
                end
            end
        end
    endgenerate

    axi_paths paths (
        .w_open(w_open),
        .w_owner(w_owner),
        .w_done(w_done),
        .r_open(r_open),
        .r_owner(r_owner),
        .r_done(r_done),
        .sys_clk(sys_clk),
        .sys_rst(sys_rst),
        .s_axi_awaddr(s_axi_awaddr),
        .s_axi_awlen(s_axi_awlen),
        .s_axi_awvalid(s_axi_awvalid),
        .s_axi_awready(s_axi_awready),
        .s_axi_wdata(s_axi_wdata),
        .s_axi_wstrb(s_axi_wstrb),
        .s_axi_wlast(s_axi_wlast),
        .s_axi_wvalid(s_axi_wvalid),
        .s_axi_wready(s_axi_wready),
        .s_axi_bresp(s_axi_bresp),
        .s_axi_bvalid(s_axi_bvalid),
        .s_axi_bready(s_axi_bready),
        .s_axi_araddr(s_axi_araddr),
        .s_axi_arlen(s_axi_arlen),
        .s_axi_arvalid(s_axi_arvalid),
        .s_axi_arready(s_axi_arready),
        .s_axi_rdata(s_axi_rdata),
        .s_axi_rresp(s_axi_rresp),
        .s_axi_rlast(s_axi_rlast),
        .s_axi_rvalid(s_axi_rvalid),
        .s_axi_rready(s_axi_rready),
        .m_axi_awid(m_axi_awid),
        .m_axi_awaddr(m_axi_awaddr),
        .m_axi_awlen(m_axi_awlen),
        .m_axi_awvalid(m_axi_awvalid),
        .m_axi_awready(m_axi_awready),
        .m_axi_wdata(m_axi_wdata),
        .m_axi_wstrb(m_axi_wstrb),
        .m_axi_wlast(m_axi_wlast),
        .m_axi_wvalid(m_axi_wvalid),
        .m_axi_wready(m_axi_wready),
        .m_axi_bresp(m_axi_bresp),
        .m_axi_bvalid(m_axi_bvalid),
        .m_axi_bready(m_axi_bready),
        .m_axi_arid(m_axi_arid),
        .m_axi_araddr(m_axi_araddr),
        .m_axi_arlen(m_axi_arlen),
        .m_axi_arvalid(m_axi_arvalid),
        .m_axi_arready(m_axi_arready),
        .m_axi_rdata(m_axi_rdata),
        .m_axi_rresp(m_axi_rresp),
        .m_axi_rlast(m_axi_rlast),
        .m_axi_rvalid(m_axi_rvalid),
        .m_axi_rready(m_axi_rready)
    );

`ifdef FORMAL
    // Several transactions at a time are possible
    always @(posedge sys_clk) c_two_writes: cover (!sys_rst && w_done[0] && w_done[4]);
    always @(posedge sys_clk) c_two_reads: cover (!sys_rst && r_open == 2'b11 && r_done == 2'b11);
`endif
endmodule

`default_nettype wire
