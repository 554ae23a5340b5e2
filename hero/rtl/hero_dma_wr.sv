// The card's AXI4 write master: one transaction at a time, its clients in round robin.
//
// A client holds `req`, `addr` and `beats` until `gnt`, gives exactly `beats` words, and gets `done` (with `err`: SLVERR or
// DECERR). It keeps a transaction within 4 KiB. With `quiesce` no transaction begins; `quiet`: none is under way.
`default_nettype none

module hero_dma_wr #(
    parameter N = 4,  // clients, a power of two
    parameter W = 2   // log2(N)
) (
    input  wire            sys_clk,
    input  wire            sys_rst,
    input  wire            quiesce,
    output wire            quiet,
    input  wire [   N-1:0] req,
    input  wire [N*32-1:0] addr,
    input  wire [ N*9-1:0] beats,
    output reg  [   N-1:0] gnt,
    input  wire [   N-1:0] wvalid,
    output reg  [   N-1:0] wready,
    input  wire [N*64-1:0] wdata,
    output reg  [   N-1:0] done,
    output reg             err,
    output wire            failed,  // pulse: a transaction ended with `err`
    output wire [     3:0] m_axi_awid,
    output reg  [    31:0] m_axi_awaddr,
    output reg  [     7:0] m_axi_awlen,
    output wire [     2:0] m_axi_awsize,
    output wire [     1:0] m_axi_awburst,
    output wire            m_axi_awlock,
    output wire [     3:0] m_axi_awcache,
    output wire [     2:0] m_axi_awprot,
    output reg             m_axi_awvalid,
    input  wire            m_axi_awready,
    output wire [    63:0] m_axi_wdata,
    output wire [     7:0] m_axi_wstrb,
    output wire            m_axi_wlast,
    output wire            m_axi_wvalid,
    input  wire            m_axi_wready,
    input  wire [     3:0] m_axi_bid,
    input  wire [     1:0] m_axi_bresp,
    input  wire            m_axi_bvalid,
    output wire            m_axi_bready
);
    localparam IDLE = 2'd0, TAKE = 2'd1, DATA = 2'd2, RESPONSE = 2'd3;
    reg [1:0] state;
    reg [W-1:0] sel;
    reg [8:0] left;

    wire any;
    wire [W-1:0] pick;
    hero_rr #(.N(N), .W(W)) rr (.req(req), .last(sel), .any(any), .pick(pick));

    wire slice_ready;
    wire slice_valid = state == DATA && wvalid[sel];
    wire last = left == 9'd1;
    hero_skid #(.WIDTH(65)) w_slice (
            .clk(sys_clk), .rst(sys_rst),
            .in_valid(slice_valid), .in_ready(slice_ready), .in_data({last, wdata[sel*64+:64]}),
            .out_valid(m_axi_wvalid), .out_ready(m_axi_wready), .out_data({m_axi_wlast, m_axi_wdata})
    );

    always @* begin
        gnt = {N{1'b0}};
        wready = {N{1'b0}};
        gnt[sel] = state == TAKE;
        wready[sel] = state == DATA && slice_ready;
    end

    always @(posedge sys_clk) begin
        done <= {N{1'b0}};
        err <= m_axi_bresp[1];
        if (m_axi_awready) m_axi_awvalid <= 1'b0;
        case (state)
            IDLE:
            if (any && !quiesce) begin
                sel <= pick;
                state <= TAKE;
            end
            TAKE: begin
                m_axi_awaddr <= addr[sel*32+:32];
                m_axi_awlen <= beats[sel*9+:8] - 8'd1;  // 256 is 0 in eight bits: 255
                m_axi_awvalid <= 1'b1;
                left <= beats[sel*9+:9];
                state <= DATA;
            end
            DATA:
            if (slice_valid && slice_ready) begin
                left <= left - 9'd1;
                if (last) state <= RESPONSE;
            end
            RESPONSE:
            if (m_axi_bvalid) begin
                done[sel] <= 1'b1;
                state <= IDLE;
            end
        endcase
        if (sys_rst) begin
            state <= IDLE;
            sel <= {W{1'b0}};
            done <= {N{1'b0}};
            m_axi_awvalid <= 1'b0;
        end
    end

    assign failed = |done && err;
    assign quiet = state == IDLE;
    assign m_axi_bready = state == RESPONSE;
    assign m_axi_awid = 4'd0;
    assign m_axi_awsize = 3'd3;
    assign m_axi_awburst = 2'b01;
    assign m_axi_awlock = 1'b0;
    assign m_axi_awcache = 4'b0011;
    assign m_axi_awprot = 3'd0;
    assign m_axi_wstrb = 8'hff;
    wire unused = &{1'b0, m_axi_bid, m_axi_bresp[0]};

`ifdef FORMAL
    reg past = 0;
    reg was_rst = 1;
    always @(posedge sys_clk) begin
        past <= 1;
        was_rst <= sys_rst;
    end
    initial assume (sys_rst);

    // Assumptions: the slave answers when it has the address and the last word; clients ask for 1 to 256 beats.
    reg aw_taken = 0, w_taken = 0;
    reg [8:0] written = 0;  // words that left
    wire answered = m_axi_bvalid && m_axi_bready;
    always @(posedge sys_clk) begin
        assume (!m_axi_bvalid || aw_taken && w_taken);
        if (state == TAKE) assume (beats[sel*9+:9] != 0 && beats[sel*9+:9] <= 256);
        aw_taken <= !sys_rst && (aw_taken || m_axi_awvalid && m_axi_awready) && !answered;
        w_taken <= !sys_rst && (w_taken || m_axi_wvalid && m_axi_wready && m_axi_wlast) && !answered;
        if (m_axi_wvalid && m_axi_wready) written <= written + 9'd1;
        if (sys_rst || answered) written <= 0;
    end

    // P9; as many words as announced; `quiet` means that the bus is idle
    always @(posedge sys_clk)
        if (past && !was_rst && !sys_rst) begin
            if ($past(m_axi_awvalid && !m_axi_awready))
                p9_address: assert (m_axi_awvalid && $stable(m_axi_awaddr) && $stable(m_axi_awlen));
            if ($past(m_axi_wvalid && !m_axi_wready))
                p9_data: assert (m_axi_wvalid && $stable(m_axi_wdata) && $stable(m_axi_wlast));
            if (m_axi_wvalid) as_many_as_announced: assert (m_axi_wlast == (written == m_axi_awlen));
            if (quiet) quiet_bus: assert (!m_axi_awvalid && !m_axi_wvalid && !aw_taken && !w_taken);
            if ($past(quiet && quiesce)) quiet_stays: assert (quiet);
        end

    always @(posedge sys_clk)
        if (past && !sys_rst) begin
            c_two_words: cover (done[1] && m_axi_awlen == 8'd1);
            c_failed: cover (failed);
            c_quiet_after_a_write: cover (quiet && quiesce && $past(!quiet));
        end
`endif
endmodule

`default_nettype wire
