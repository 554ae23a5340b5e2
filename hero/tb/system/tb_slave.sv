// An AXI4 slave of 64 bits that passes whole transactions to Python, one write and one read at a time.
`default_nettype none

module tb_slave (
    input  wire        clk,
    input  wire        rst,
    input  wire [ 3:0] awid,
    input  wire [31:0] awaddr,
    input  wire [ 7:0] awlen,
    input  wire        awvalid,
    output wire        awready,
    input  wire [63:0] wdata,
    input  wire [ 7:0] wstrb,
    input  wire        wlast,
    input  wire        wvalid,
    output wire        wready,
    output reg  [ 3:0] bid,
    output reg  [ 1:0] bresp,
    output reg         bvalid,
    input  wire        bready,
    input  wire [ 3:0] arid,
    input  wire [31:0] araddr,
    input  wire [ 7:0] arlen,
    input  wire        arvalid,
    output wire        arready,
    output reg  [ 3:0] rid,
    output wire [63:0] rdata,
    output wire [ 1:0] rresp,
    output wire        rlast,
    output wire        rvalid,
    input  wire        rready
);
    // In this many of 256 cycles the channel is not ready or gives no data. Python writes these.
    reg [8:0] stall_aw  /* verilator public_flat_rw */ = 0;
    reg [8:0] stall_w  /* verilator public_flat_rw */ = 0;
    reg [8:0] stall_ar  /* verilator public_flat_rw */ = 0;
    reg [8:0] stall_r  /* verilator public_flat_rw */ = 0;
    // A write: `wr_put` toggles when it is there; Python toggles `wr_ack` with `wr_resp`.
    reg         wr_put  /* verilator public_flat_rw */ = 0;
    reg [ 31:0] wr_addr  /* verilator public_flat_rw */;
    reg [  3:0] wr_id  /* verilator public_flat_rw */;
    reg [  8:0] wr_beats  /* verilator public_flat_rw */;
    reg         wr_whole  /* verilator public_flat_rw */;  // all strobes set, last where it belongs
    reg [16383:0] wr_data  /* verilator public_flat_rw */;
    reg         wr_ack  /* verilator public_flat_rw */ = 0;
    reg [  1:0] wr_resp  /* verilator public_flat_rw */ = 0;
    // A read: `rd_put` toggles with the address; Python sets `rd_data` and `rd_resp` and toggles `rd_ack`.
    reg         rd_put  /* verilator public_flat_rw */ = 0;
    reg [ 31:0] rd_addr  /* verilator public_flat_rw */;
    reg [  3:0] rd_id  /* verilator public_flat_rw */;
    reg [  8:0] rd_beats  /* verilator public_flat_rw */;
    reg [16383:0] rd_data  /* verilator public_flat_rw */;
    reg         rd_ack  /* verilator public_flat_rw */ = 0;
    reg [  1:0] rd_resp  /* verilator public_flat_rw */ = 0;

    // xorshift, for the stalls
    reg  [31:0] dice;
    wire [31:0] dice1 = dice ^ (dice << 13);
    wire [31:0] dice2 = dice1 ^ (dice1 >> 17);
    always @(posedge clk) dice <= rst ? 32'd2463534242 : dice2 ^ (dice2 << 5);

    reg [1:0] wr_state;  // 0 address, 1 data, 2 Python, 3 response
    reg [8:0] wr_left;
    assign awready = wr_state == 0 && {1'b0, dice[7:0]} >= stall_aw;
    assign wready  = wr_state == 1 && {1'b0, dice[15:8]} >= stall_w;
    always @(posedge clk) begin
        if (rst) begin
            wr_state <= 0;
            bvalid   <= 0;
            wr_put   <= wr_ack;
        end else begin
            case (wr_state)
                0:
                if (awvalid && awready) begin
                    wr_addr  <= awaddr;
                    wr_id    <= awid;
                    wr_beats <= {1'b0, awlen} + 1;
                    wr_left  <= {1'b0, awlen} + 1;
                    wr_whole <= 1;
                    wr_state <= 1;
                end
                1:
                if (wvalid && wready) begin
                    wr_data[(wr_beats-wr_left)*64+:64] <= wdata;
                    wr_left <= wr_left - 1;
                    if (wstrb != 8'hff || wlast != (wr_left == 1)) wr_whole <= 0;
                    if (wr_left == 1) begin
                        wr_put   <= !wr_put;
                        wr_state <= 2;
                    end
                end
                2:
                if (wr_ack == wr_put) begin
                    bvalid   <= 1;
                    bid      <= wr_id;
                    bresp    <= wr_resp;
                    wr_state <= 3;
                end
                3:
                if (bready) begin
                    bvalid   <= 0;
                    wr_state <= 0;
                end
            endcase
        end
    end

    reg [1:0] rd_state;  // 0 address, 1 Python, 2 data
    reg [8:0] rd_left;
    reg       rd_valid;
    assign arready = rd_state == 0 && {1'b0, dice[23:16]} >= stall_ar;
    assign rvalid  = rd_valid;
    assign rdata   = rd_data[(rd_beats-rd_left)*64+:64];
    assign rresp   = rd_resp;
    assign rlast   = rd_left == 1;
    wire rd_go = {1'b0, dice[31:24]} >= stall_r;
    always @(posedge clk) begin
        if (rst) begin
            rd_state <= 0;
            rd_valid <= 0;
            rd_put   <= rd_ack;
        end else begin
            case (rd_state)
                0:
                if (arvalid && arready) begin
                    rd_addr  <= araddr;
                    rd_id    <= arid;
                    rid      <= arid;
                    rd_beats <= {1'b0, arlen} + 1;
                    rd_left  <= {1'b0, arlen} + 1;
                    rd_put   <= !rd_put;
                    rd_state <= 1;
                end
                1:
                if (rd_ack == rd_put) begin
                    rd_valid <= rd_go;
                    rd_state <= 2;
                end
                default:
                if (rd_valid && rready) begin
                    rd_left  <= rd_left - 1;
                    rd_valid <= rd_go && rd_left != 1;
                    if (rd_left == 1) rd_state <= 0;
                end else if (!rd_valid) rd_valid <= rd_go;
            endcase
        end
    end
endmodule

`default_nettype wire
