// The card's AXI4 read master: one transaction at a time, its clients in round robin.
//
// A client holds `req`, `addr` and `beats` until `gnt`, then takes `beats` words; `err` is valid with the last one:
// SLVERR or DECERR anywhere in the transaction. It keeps a transaction within 4 KiB. `quiesce`, `quiet`: as hero_dma_wr.
`default_nettype none

module hero_dma_rd #(
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
    output reg  [   N-1:0] rvalid,
    input  wire [   N-1:0] rready,
    output wire [    63:0] rdata,
    output wire            rlast,
    output wire            err,
    output reg             failed,  // pulse: a transaction ended with `err`
    output wire [     3:0] m_axi_arid,
    output reg  [    31:0] m_axi_araddr,
    output reg  [     7:0] m_axi_arlen,
    output wire [     2:0] m_axi_arsize,
    output wire [     1:0] m_axi_arburst,
    output wire            m_axi_arlock,
    output wire [     3:0] m_axi_arcache,
    output wire [     2:0] m_axi_arprot,
    output reg             m_axi_arvalid,
    input  wire            m_axi_arready,
    input  wire [     3:0] m_axi_rid,
    input  wire [    63:0] m_axi_rdata,
    input  wire [     1:0] m_axi_rresp,
    input  wire            m_axi_rlast,
    input  wire            m_axi_rvalid,
    output wire            m_axi_rready
);
    localparam IDLE = 2'd0, TAKE = 2'd1, DATA = 2'd2;
    reg [1:0] state;
    reg [W-1:0] sel;
    reg bad;  // an earlier beat had an error

    wire any;
    wire [W-1:0] pick;
    hero_rr #(.N(N), .W(W)) rr (.req(req), .last(sel), .any(any), .pick(pick));

    wire valid, beat_bad;
    wire ready = rready[sel];
    hero_skid #(.WIDTH(66)) r_slice (
            .clk(sys_clk), .rst(sys_rst),
            .in_valid(m_axi_rvalid), .in_ready(m_axi_rready), .in_data({m_axi_rresp[1], m_axi_rlast, m_axi_rdata}),
            .out_valid(valid), .out_ready(ready), .out_data({beat_bad, rlast, rdata})
    );
    assign err = bad || beat_bad;
    wire taken = valid && ready;

    always @* begin
        gnt = {N{1'b0}};
        rvalid = {N{1'b0}};
        gnt[sel] = state == TAKE;
        rvalid[sel] = valid;
    end

    always @(posedge sys_clk) begin
        failed <= taken && rlast && err;
        if (m_axi_arready) m_axi_arvalid <= 1'b0;
        case (state)
            IDLE:
            if (any && !quiesce) begin
                sel <= pick;
                state <= TAKE;
            end
            TAKE: begin
                m_axi_araddr <= addr[sel*32+:32];
                m_axi_arlen <= beats[sel*9+:8] - 8'd1;  // 256 is 0 in eight bits: 255
                m_axi_arvalid <= 1'b1;
                bad <= 1'b0;
                state <= DATA;
            end
            default:
            if (taken) begin
                bad <= err;
                if (rlast) state <= IDLE;
            end
        endcase
        if (sys_rst) begin
            state <= IDLE;
            sel <= {W{1'b0}};
            m_axi_arvalid <= 1'b0;
            failed <= 1'b0;
        end
    end

    assign quiet = state == IDLE;
    assign m_axi_arid = 4'd0;
    assign m_axi_arsize = 3'd3;
    assign m_axi_arburst = 2'b01;
    assign m_axi_arlock = 1'b0;
    assign m_axi_arcache = 4'b0011;
    assign m_axi_arprot = 3'd0;
    wire unused = &{1'b0, m_axi_rid, m_axi_rresp[0], beats};

`ifdef FORMAL
    reg past = 0;
    reg was_rst = 1;
    always @(posedge sys_clk) begin
        past <= 1;
        was_rst <= sys_rst;
    end
    initial assume (sys_rst);

    // The slave: words for an address that it took, the last one marked, none behind it
    reg ar_taken = 0;
    always @(posedge sys_clk) begin
        assume (!m_axi_rvalid || ar_taken);
        ar_taken <= !sys_rst && (ar_taken || m_axi_arvalid && m_axi_arready)
                    && !(m_axi_rvalid && m_axi_rready && m_axi_rlast);
    end

    // P9; quiet means that the bus is at rest
    always @(posedge sys_clk)
        if (past && !was_rst && !sys_rst) begin
            if ($past(m_axi_arvalid && !m_axi_arready))
                p9_address: assert (m_axi_arvalid && $stable(m_axi_araddr) && $stable(m_axi_arlen));
            if (quiet) quiet_bus: assert (!m_axi_arvalid && !ar_taken);
            if ($past(quiet && quiesce)) quiet_stays: assert (quiet);
        end

    always @(posedge sys_clk)
        if (past && !sys_rst) begin
            c_read_by_each: cover (taken && rlast && sel != 0);
            c_failed: cover (failed);
            c_quiet_after_a_read: cover (quiet && quiesce && $past(!quiet));
        end
`endif
endmodule

`default_nettype wire
