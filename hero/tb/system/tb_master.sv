// Masters that make one transaction at a time for Python: a toggle of `put` starts it, then `done` toggles.
`default_nettype none

// AXI4-Lite, of four slaves the one numbered `card`.
module tb_registers (
    input  wire         clk,
    input  wire         rst,
    output wire [4*8-1:0] awaddr,
    output reg  [  3:0] awvalid,
    input  wire [  3:0] awready,
    output wire [4*32-1:0] wdata,
    output reg  [  3:0] wvalid,
    input  wire [  3:0] wready,
    input  wire [4*2-1:0] bresp,
    input  wire [  3:0] bvalid,
    output wire [  3:0] bready,
    output wire [4*8-1:0] araddr,
    output reg  [  3:0] arvalid,
    input  wire [  3:0] arready,
    input  wire [4*32-1:0] rdata,
    input  wire [4*2-1:0] rresp,
    input  wire [  3:0] rvalid,
    output wire [  3:0] rready
);
    reg        put  /* verilator public_flat_rw */ = 0;
    reg        write  /* verilator public_flat_rw */;
    reg [ 1:0] card  /* verilator public_flat_rw */;
    reg [ 7:0] addr  /* verilator public_flat_rw */;
    reg [31:0] data  /* verilator public_flat_rw */;
    reg        done  /* verilator public_flat_rw */ = 0;
    reg [31:0] value  /* verilator public_flat_rw */;
    reg [ 1:0] resp  /* verilator public_flat_rw */;

    assign awaddr = {4{addr}};
    assign araddr = {4{addr}};
    assign wdata  = {4{data}};
    assign bready = 4'hf;
    assign rready = 4'hf;

    reg busy;
    always @(posedge clk) begin
        awvalid <= awvalid & ~awready;
        wvalid  <= wvalid & ~wready;
        arvalid <= arvalid & ~arready;
        if (rst) begin
            {awvalid, wvalid, arvalid} <= 0;
            busy <= 0;
            done <= put;
        end else if (put != done && !busy) begin
            busy          <= 1;
            awvalid[card] <= write;
            wvalid[card]  <= write;
            arvalid[card] <= !write;
        end else if (busy && (bvalid[card] || rvalid[card])) begin
            busy  <= 0;
            done  <= put;
            value <= rdata[card*32+:32];
            resp  <= bvalid[card] ? bresp[card*2+:2] : rresp[card*2+:2];
        end
    end
endmodule

// AXI4, writes only.
module tb_writer (
    input  wire        clk,
    input  wire        rst,
    output wire [31:0] awaddr,
    output wire [ 7:0] awlen,
    output reg         awvalid,
    input  wire        awready,
    output wire [63:0] wdata,
    output wire [ 7:0] wstrb,
    output wire        wlast,
    output reg         wvalid,
    input  wire        wready,
    input  wire [ 1:0] bresp,
    input  wire        bvalid,
    output wire        bready
);
    reg         put  /* verilator public_flat_rw */ = 0;
    reg [ 31:0] addr  /* verilator public_flat_rw */;
    reg [  8:0] beats  /* verilator public_flat_rw */;
    reg [16383:0] data  /* verilator public_flat_rw */;
    reg         done  /* verilator public_flat_rw */ = 0;
    reg [  1:0] resp  /* verilator public_flat_rw */;

    reg       busy;
    reg [8:0] at;
    wire [8:0] last = beats - 1;
    assign awaddr = addr;
    assign awlen  = last[7:0];
    assign wdata  = data[at*64+:64];
    assign wstrb  = 8'hff;
    assign wlast  = at == last;
    assign bready = 1;
    always @(posedge clk) begin
        if (rst) begin
            awvalid <= 0;
            wvalid  <= 0;
            busy    <= 0;
            done    <= put;
        end else begin
            if (awready) awvalid <= 0;
            if (wvalid && wready) begin
                at <= at + 1;
                if (wlast) wvalid <= 0;
            end
            if (put != done && !busy) begin
                busy    <= 1;
                at      <= 0;
                awvalid <= 1;
                wvalid  <= 1;
            end else if (busy && bvalid) begin
                busy <= 0;
                done <= put;
                resp <= bresp;
            end
        end
    end
endmodule

`default_nettype wire
