// The board's own registers on AXI4-Lite; ../map.py says what they are. A port has four: 8 + 8 * port, and on.
`default_nettype none

module hero_board_regs #(
    parameter SYS_KHZ = 100000,
    parameter RX_TAPS = 39,
    parameter TX_TAPS = 0
) (
    input  wire        sys_clk,
    input  wire        sys_rst,
    input  wire        broken,          // pulse: a request over the serial line
    input  wire [ 7:0] s_axil_awaddr,
    input  wire        s_axil_awvalid,
    output wire        s_axil_awready,
    input  wire [31:0] s_axil_wdata,
    input  wire        s_axil_wvalid,
    output wire        s_axil_wready,
    output wire [ 1:0] s_axil_bresp,
    output reg         s_axil_bvalid,
    input  wire        s_axil_bready,
    input  wire [ 7:0] s_axil_araddr,
    input  wire        s_axil_arvalid,
    output wire        s_axil_arready,
    output reg  [31:0] s_axil_rdata,
    output wire [ 1:0] s_axil_rresp,
    output reg         s_axil_rvalid,
    input  wire        s_axil_rready,
    // Port k at k*width +: width
    output reg  [ 1:0] phy_reset,
    output reg  [ 1:0] hold,
    output reg  [ 9:0] address,
    output reg  [ 1:0] command,
    output reg  [26:0] what,
    input  wire [ 1:0] busy,
    input  wire [ 1:0] missing,
    input  wire [31:0] data,
    input  wire [ 1:0] link,
    input  wire [ 1:0] present,
    input  wire [31:0] status,
    // Delays of the inputs and of the sent clock
    output wire [ 1:0] rx_load_n,
    output wire [ 1:0] rx_move,
    output wire [ 1:0] rx_down,
    output wire [ 1:0] tx_load_n,
    output wire [ 1:0] tx_move,
    output wire [ 1:0] tx_down
);
    localparam [31:0] ID_VALUE = 32'h48425244;  // "HBRD"
    localparam [15:0] VERSION = 1;
    localparam TEN_KHZ = SYS_KHZ / 10;
    localparam [5:0] ID = 0, CLOCK = 1, BROKEN = 2, SCRATCH = 3;
    localparam [2:0] PHY = 0, MDIO = 1, DELAY = 2, STATE = 3;

    wire write = s_axil_awvalid && s_axil_wvalid && !s_axil_bvalid;
    assign s_axil_awready = write;
    assign s_axil_wready = write;
    assign s_axil_bresp = 2'b00;
    assign s_axil_rresp = 2'b00;
    assign s_axil_arready = !s_axil_rvalid;
    wire [5:0] wr_n = s_axil_awaddr[7:2];
    wire [5:0] n = s_axil_araddr[7:2];

    reg [31:0] scratch;
    reg [15:0] broken_count;
    reg [1:0] set_delay;
    wire [1:0] delay_busy;
    wire [2*14-1:0] taps;
    genvar k;
    generate
        for (k = 0; k < 2; k = k + 1) begin : g_delay
            wire rx_busy, tx_busy;
            hero_delay #(.FIRST(RX_TAPS)) rx (
                .clk(sys_clk), .rst(sys_rst), .set(set_delay[k]), .wanted(what[6:0]), .taps(taps[14*k+:7]), .busy(rx_busy),
                .load_n(rx_load_n[k]), .move(rx_move[k]), .down(rx_down[k])
            );
            hero_delay #(.FIRST(TX_TAPS)) tx (
                .clk(sys_clk), .rst(sys_rst), .set(set_delay[k]), .wanted(what[14:8]), .taps(taps[14*k+7+:7]), .busy(tx_busy),
                .load_n(tx_load_n[k]), .move(tx_move[k]), .down(tx_down[k])
            );
            assign delay_busy[k] = rx_busy || tx_busy || set_delay[k];
            wire mine = write && wr_n[5:3] == k + 1;
            always @(posedge sys_clk) begin
                command[k] <= mine && wr_n[2:0] == MDIO;
                set_delay[k] <= mine && wr_n[2:0] == DELAY;
                if (mine && wr_n[2:0] == PHY) {address[5*k+:5], hold[k], phy_reset[k]} <= {s_axil_wdata[12:8], s_axil_wdata[1:0]};
                if (sys_rst) begin
                    {command[k], set_delay[k], hold[k], phy_reset[k]} <= 4'd0;
                    address[5*k+:5] <= 5'd0;
                end
            end
        end
    endgenerate

    wire p = n[4];  // the port: 0 is at 8, 1 at 16
    always @(posedge sys_clk) begin
        if (write) what <= s_axil_wdata[26:0];
        if (write && wr_n == SCRATCH) scratch <= s_axil_wdata;
        if (broken && broken_count != 16'hffff) broken_count <= broken_count + 16'd1;
        if (s_axil_bready) s_axil_bvalid <= 1'b0;
        if (write) s_axil_bvalid <= 1'b1;
        if (s_axil_rready) s_axil_rvalid <= 1'b0;
        if (s_axil_arvalid && s_axil_arready) begin
            s_axil_rvalid <= 1'b1;
            s_axil_rdata <= 32'd0;
            if (n[5:3] == 3'd0)
                case (n)
                    ID: s_axil_rdata <= ID_VALUE;
                    CLOCK: s_axil_rdata <= {VERSION, TEN_KHZ[15:0]};
                    BROKEN: s_axil_rdata <= {16'd0, broken_count};
                    SCRATCH: s_axil_rdata <= scratch;
                    default: ;
                endcase
            else if (n[5:3] == 3'd1 || n[5:3] == 3'd2)
                case (n[2:0])
                    PHY: s_axil_rdata <= {19'd0, address[5*p+:5], 6'd0, hold[p], phy_reset[p]};
                    MDIO: s_axil_rdata <= {busy[p] || command[p], missing[p], 14'd0, data[16*p+:16]};
                    DELAY: s_axil_rdata <= {delay_busy[p], 16'd0, taps[14*p+7+:7], 1'b0, taps[14*p+:7]};
                    STATE: s_axil_rdata <= {status[16*p+:16], 14'd0, present[p], link[p]};
                    default: ;
                endcase
        end
        if (sys_rst) begin
            {s_axil_bvalid, s_axil_rvalid} <= 2'd0;
            scratch <= 32'd0;
            broken_count <= 16'd0;
        end
    end
    wire unused = &{1'b0, s_axil_awaddr[1:0], s_axil_araddr[1:0]};
endmodule

`default_nettype wire
