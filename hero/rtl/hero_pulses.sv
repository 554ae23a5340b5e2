// Serialises the pulses of several sources onto one wire; none is lost when they coincide.
`default_nettype none

module hero_pulses #(
    parameter N = 2  // sources, at most 7; on average less than one pulse a cycle
) (
    input  wire         clk,
    input  wire         rst,
    input  wire [N-1:0] in,
    output reg          out
);
    reg [5:0] waiting;
    reg [5:0] sum;
    integer i;
    always @* begin
        sum = waiting;
        for (i = 0; i < N; i = i + 1) sum = sum + {5'd0, in[i]};
    end
    always @(posedge clk) begin
        out <= sum != 6'd0;
        waiting <= sum != 6'd0 ? sum - 6'd1 : 6'd0;
        if (rst) begin
            out <= 1'b0;
            waiting <= 6'd0;
        end
    end
endmodule

`default_nettype wire
