// Shared by both buses: the paths from four masters to five slaves, and an error slave for all other addresses. The bus
// decides which master is connected to which slave.
`default_nettype none

module axi_paths (
    // As in axi_write_path and axi_read_path; slave 5 (reads: 1) is the error slave
    input  wire [     5:0] w_open,
    input  wire [ 6*2-1:0] w_owner,
    output wire [     5:0] w_done,
    input  wire [     1:0] r_open,
    input  wire [     3:0] r_owner,
    output wire [     1:0] r_done,
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
    wire [3:0] error_awid;
    wire [31:0] error_awaddr;
    wire [7:0] error_awlen, error_wstrb, error_arlen;
    wire [63:0] error_wdata;
    wire error_awvalid, error_awready, error_wlast, error_wvalid, error_wready, error_bvalid, error_bready;
    wire error_arvalid, error_arready, error_rlast, error_rvalid, error_rready;
    wire unused = &{1'b0, error_awid, error_awaddr, error_awlen, error_wdata, error_wstrb};

    axi_write_path write_path (
        .sys_clk(sys_clk),
        .sys_rst(sys_rst),
        .open(w_open),
        .owner(w_owner),
        .done(w_done),
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
        .m_axi_awid({error_awid, m_axi_awid}),
        .m_axi_awaddr({error_awaddr, m_axi_awaddr}),
        .m_axi_awlen({error_awlen, m_axi_awlen}),
        .m_axi_awvalid({error_awvalid, m_axi_awvalid}),
        .m_axi_awready({error_awready, m_axi_awready}),
        .m_axi_wdata({error_wdata, m_axi_wdata}),
        .m_axi_wstrb({error_wstrb, m_axi_wstrb}),
        .m_axi_wlast({error_wlast, m_axi_wlast}),
        .m_axi_wvalid({error_wvalid, m_axi_wvalid}),
        .m_axi_wready({error_wready, m_axi_wready}),
        .m_axi_bresp({2'd3, m_axi_bresp}),
        .m_axi_bvalid({error_bvalid, m_axi_bvalid}),
        .m_axi_bready({error_bready, m_axi_bready})
    );

    axi_read_path read_path (
        .sys_clk(sys_clk),
        .sys_rst(sys_rst),
        .open(r_open),
        .owner(r_owner),
        .done(r_done),
        .s_axi_araddr(s_axi_araddr),
        .s_axi_arlen(s_axi_arlen),
        .s_axi_arvalid(s_axi_arvalid),
        .s_axi_arready(s_axi_arready),
        .s_axi_rdata(s_axi_rdata),
        .s_axi_rresp(s_axi_rresp),
        .s_axi_rlast(s_axi_rlast),
        .s_axi_rvalid(s_axi_rvalid),
        .s_axi_rready(s_axi_rready),
        .m_axi_arid(m_axi_arid),
        .m_axi_araddr(m_axi_araddr),
        .m_axi_arlen(m_axi_arlen),
        .m_axi_arvalid(m_axi_arvalid),
        .m_axi_arready(m_axi_arready),
        .m_axi_rdata(m_axi_rdata),
        .m_axi_rresp(m_axi_rresp),
        .m_axi_rlast(m_axi_rlast),
        .m_axi_rvalid(m_axi_rvalid),
        .m_axi_rready(m_axi_rready),
        .error_arlen(error_arlen),
        .error_arvalid(error_arvalid),
        .error_arready(error_arready),
        .error_rlast(error_rlast),
        .error_rvalid(error_rvalid),
        .error_rready(error_rready)
    );

    axi_error error (
        .sys_clk(sys_clk),
        .sys_rst(sys_rst),
        .awvalid(error_awvalid),
        .awready(error_awready),
        .wlast(error_wlast),
        .wvalid(error_wvalid),
        .wready(error_wready),
        .bvalid(error_bvalid),
        .bready(error_bready),
        .arlen(error_arlen),
        .arvalid(error_arvalid),
        .arready(error_arready),
        .rlast(error_rlast),
        .rvalid(error_rvalid),
        .rready(error_rready)
    );

`ifdef FORMAL
    // P9: while masters and slaves hold their signals, so does the bus.
    reg past = 0;
    always @(posedge sys_clk) past <= 1;
    initial assume (sys_rst);
    reg was_rst = 1;
    always @(posedge sys_clk) was_rst <= sys_rst;
    wire check = past && !was_rst && !sys_rst;
    genvar k;
    generate
        for (k = 0; k < 4; k = k + 1) begin : g_p9_master
            always @(posedge sys_clk)
                if (check) begin
                    if ($past(s_axi_awvalid[k] && !s_axi_awready[k]))
                        assume (s_axi_awvalid[k] && $stable(s_axi_awaddr[32*k+:32]) && $stable(s_axi_awlen[8*k+:8]));
                    if ($past(s_axi_wvalid[k] && !s_axi_wready[k]))
                        assume (s_axi_wvalid[k] && $stable(s_axi_wlast[k]) && $stable(s_axi_wdata[64*k+:64]));
                    if ($past(s_axi_arvalid[k] && !s_axi_arready[k]))
                        assume (s_axi_arvalid[k] && $stable(s_axi_araddr[32*k+:32]) && $stable(s_axi_arlen[8*k+:8]));
                end
        end
        for (k = 0; k < 5; k = k + 1) begin : g_p9_slave
            always @(posedge sys_clk)
                if (check) begin
                    if ($past(m_axi_bvalid[k] && !m_axi_bready[k]))
                        assume (m_axi_bvalid[k] && $stable(m_axi_bresp[2*k+:2]));
                end
        end
    endgenerate
    // Waiting signals of each port stay unchanged. One assertion covers all ports, because it can have only one name.
    integer p;
    reg [3:0] b_kept, r_kept;
    reg [4:0] aw_kept, w_kept;
    always @(posedge sys_clk) begin
        for (p = 0; p < 4; p = p + 1) begin
            b_kept[p] = !$past(s_axi_bvalid[p] && !s_axi_bready[p]) || s_axi_bvalid[p] && $stable(s_axi_bresp[2*p+:2]);
            r_kept[p] = !$past(s_axi_rvalid[p] && !s_axi_rready[p]) || s_axi_rvalid[p] && $stable(s_axi_rlast[p])
                && $stable(s_axi_rresp[2*p+:2]) && $stable(s_axi_rdata[64*p+:64]);
        end
        for (p = 0; p < 5; p = p + 1) begin
            aw_kept[p] = !$past(m_axi_awvalid[p] && !m_axi_awready[p]) || m_axi_awvalid[p] && $stable(m_axi_awaddr[32*p+:32])
                && $stable(m_axi_awlen[8*p+:8]) && $stable(m_axi_awid[4*p+:4]);
            w_kept[p] = !$past(m_axi_wvalid[p] && !m_axi_wready[p]) || m_axi_wvalid[p] && $stable(m_axi_wlast[p])
                && $stable(m_axi_wdata[64*p+:64]);
        end
        if (check) begin
            p9_response: assert (&b_kept);
            p9_read_data: assert (&r_kept);
            p9_write_address: assert (&aw_kept);
            p9_write_data: assert (&w_kept);
        end
    end
    always @(posedge sys_clk)
        if (check) begin
            if ($past(m_axi_rvalid && !m_axi_rready))
                assume (m_axi_rvalid && $stable(m_axi_rlast) && $stable(m_axi_rresp) && $stable(m_axi_rdata));
            if ($past(m_axi_arvalid && !m_axi_arready))
                p9_read_address: assert (m_axi_arvalid && $stable(m_axi_araddr) && $stable(m_axi_arlen) && $stable(m_axi_arid));
        end
    // Memory and error slave do answer.
    always @(posedge sys_clk)
        if (check) begin
            c_written: cover (w_done[4]);
            c_written_to_nobody: cover (w_done[5]);
            c_read: cover (r_done[0]);
            c_read_of_nobody: cover (r_done[1]);
        end
    // A master has at most one write and one read under way.
    wire [3:0] one_write;
    generate
        for (k = 0; k < 4; k = k + 1) begin : g_one
            wire [5:0] mine;
            for (genvar j = 0; j < 6; j = j + 1) begin : g_of
                assign mine[j] = w_open[j] && w_owner[2*j+:2] == k;
            end
            assign one_write[k] = (mine & (mine - 1'b1)) == 0;
        end
    endgenerate
    always @(posedge sys_clk)
        if (check) begin
            one_write_of_a_master: assert (&one_write);
            one_read_of_a_master: assert (r_open != 3 || r_owner[1:0] != r_owner[3:2]);
        end
`endif
endmodule

`default_nettype wire
