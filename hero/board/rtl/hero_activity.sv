// A light for events that are too short to be seen: on from the first one, for 2^BITS cycles after the last.
`default_nettype none

module hero_activity #(
    parameter BITS = 22
) (
    input  wire clk,
    input  wire active,
    output reg  on
);
    reg [BITS-1:0] left;
    always @(posedge clk) begin
        if (active) left <= {BITS{1'b1}};
        else if (left != 0) left <= left - 1'b1;
        on <= left != 0;
    end
endmodule

`default_nettype wire
