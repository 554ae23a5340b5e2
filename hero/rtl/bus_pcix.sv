// A shared bus like PCI-X: one transaction at a time, with SETUP cycles of arbitration and address before each. Masters take
// turns; their reads and writes are separate requesters.
`default_nettype none

module bus_pcix #(
    parameter SETUP = 8  // sys cycles
) (
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
    wire [5:0] w_open;
    wire [6*2-1:0] w_owner;
    wire [1:0] r_open;
    wire [3:0] r_owner;
    wire [5:0] w_done;
    wire [1:0] r_done;
    // Where each master's writes and reads go
    wire [4*3-1:0] w_slave, r_slave;
    genvar i;
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

    // Requesters: writes of the masters 0-3, reads 4-7
    wire [7:0] req = {s_axi_arvalid, s_axi_awvalid};
    reg [2:0] who;
    wire [2:0] next;
    wire any;
    hero_rr #(
        .N(8),
        .W(3)
    ) turn (
        .req (req),
        .last(who),
        .any (any),
        .pick(next)
    );

    localparam [1:0] IDLE = 0, WAIT = 1, RUN = 2;
    reg [1:0] state;
    reg [2:0] slave;
    reg [15:0] setup;

    always @(posedge sys_clk) begin
        case (state)
            IDLE:
            if (any) begin
                who <= next;
                slave <= next[2] ? r_slave[3*next[1:0]+:3] : w_slave[3*next[1:0]+:3];
                setup <= SETUP[15:0];
                state <= WAIT;
            end
            WAIT:
            if (setup <= 1) state <= RUN;
            else setup <= setup - 1;
            default: if (w_done != 0 || r_done != 0) state <= IDLE;
        endcase
        if (sys_rst) begin
            state <= IDLE;
            who <= 0;
        end
    end

    wire run_w = state == RUN && !who[2];
    wire run_r = state == RUN && who[2];
    assign w_open = run_w ? 6'd1 << slave : 6'd0;
    assign r_open = {run_r && slave != 4, run_r && slave == 4};
    assign w_owner = {6{who[1:0]}};
    assign r_owner = {2{who[1:0]}};

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
endmodule

`default_nettype wire
