// Sets DELAYF cells to a number of taps: they go back to their first value, from which each pulse of `move` is one tap
// more, or less with `down`.
`default_nettype none

module hero_delay #(
    parameter FIRST = 0  // DEL_VALUE of the cells
) (
    input  wire       clk,
    input  wire       rst,
    input  wire       set,      // pulse: go to `wanted`
    input  wire [6:0] wanted,
    output reg  [6:0] taps,     // where they are, or will be
    output wire       busy,
    // LOADN of the cells is no clocked input.
    // verilator lint_off SYNCASYNCNET
    output reg        load_n,
    // verilator lint_on SYNCASYNCNET
    output reg        move,
    output reg        down
);
    reg [6:0] left;  // taps to go
    reg [1:0] phase;  // of a tap: `move` is high in one half of it
    wire [7:0] way = {1'b0, wanted} - {1'b0, FIRST[6:0]};
    assign busy = left != 7'd0 || !load_n;

    always @(posedge clk) begin
        phase <= phase + 2'd1;
        if (set) begin
            load_n <= 1'b0;
            move <= 1'b0;
            left <= way[7] ? -way[6:0] : way[6:0];
            down <= way[7];
            taps <= wanted;
            phase <= 2'd0;
        end else if (phase == 2'd3) begin
            load_n <= 1'b1;
            move <= load_n && left != 7'd0 && !move;
            if (move) left <= left - 7'd1;
        end
        if (rst) begin
            load_n <= 1'b0;
            move <= 1'b0;
            down <= 1'b0;
            left <= 7'd0;
            taps <= FIRST[6:0];
            phase <= 2'd0;
        end
    end
endmodule

`default_nettype wire
