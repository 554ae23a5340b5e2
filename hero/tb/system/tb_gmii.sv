// The far end of a card's Ethernet: whole frames to and from Python. `put`, `frame` ... are written by Python.
`default_nettype none

module tb_gmii #(
    parameter OCTETS = 2048
) (
    input  wire       rx_clk,  // of what the card receives
    input  wire       tx_clk,
    input  wire       rst,
    output reg  [7:0] rxd,
    output reg        rx_dv,
    output reg        rx_er,
    input  wire [7:0] txd,
    input  wire       tx_en,
    input  wire       tx_er
);
    // To the card: a frame is taken when `put` differs from `got`. Past OCTETS the last octet is repeated.
    reg                put  /* verilator public_flat_rw */ = 0;
    reg [OCTETS*8-1:0] frame  /* verilator public_flat_rw */;
    reg [        31:0] octets  /* verilator public_flat_rw */;
    reg [        31:0] error_at  /* verilator public_flat_rw */;
    reg [        15:0] gap  /* verilator public_flat_rw */;
    reg                got  /* verilator public_flat_rw */ = 0;
    // From the card: `seen` toggles after a frame, which stays until the next begins.
    reg                seen  /* verilator public_flat_rw */ = 0;
    reg [OCTETS*8-1:0] seen_frame  /* verilator public_flat_rw */;
    reg [        15:0] seen_octets  /* verilator public_flat_rw */;
    reg [        15:0] seen_gap  /* verilator public_flat_rw */;
    reg                seen_error  /* verilator public_flat_rw */;

    reg [31:0] at;
    reg [15:0] idle;
    always @(posedge rx_clk) begin
        rx_er <= 0;
        if (rst) begin
            got   <= put;
            rx_dv <= 0;
            rxd   <= 0;
            at    <= 0;
            idle  <= 0;
        end else if (put != got && idle == 0) begin
            rx_dv <= 1;
            rxd   <= frame[(at < OCTETS ? at : OCTETS - 1)*8+:8];
            rx_er <= at == error_at;
            at    <= at + 1;
            if (at + 1 == octets) begin
                got  <= put;
                at   <= 0;
                idle <= gap;
            end
        end else begin
            rx_dv <= 0;
            rxd   <= 0;
            if (idle != 0) idle <= idle - 1;
        end
    end

    reg [15:0] count;
    reg [15:0] pause;
    reg        error;
    always @(posedge tx_clk) begin
        if (rst) begin
            count <= 0;
            pause <= 16'hffff;
            error <= 0;
            seen_frame <= 0;
        end else if (tx_en) begin
            if (count == 0) seen_gap <= pause;
            if (count < OCTETS) seen_frame[count*8+:8] <= txd;
            count <= count + 1;
            pause <= 0;
            error <= (error && count != 0) || tx_er;
        end else begin
            if (count != 0) begin
                seen_octets <= count;
                seen_error  <= error;
                seen        <= !seen;  // last: who waits for it reads the others at once
            end
            count <= 0;
            error <= 0;
            if (pause != 16'hffff) pause <= pause + 1;
        end
    end
endmodule

`default_nettype wire
