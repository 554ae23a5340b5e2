// Register slice of a valid/ready channel: no combinational path between its sides, one word each cycle.
`default_nettype none

module hero_skid #(
    parameter WIDTH = 64
) (
    input  wire             clk,
    input  wire             rst,
    input  wire             in_valid,
    output wire             in_ready,
    input  wire [WIDTH-1:0] in_data,
    output reg              out_valid,
    input  wire             out_ready,
    output reg  [WIDTH-1:0] out_data
);
    reg held;  // a word came while the output waited
    reg [WIDTH-1:0] hold;
    assign in_ready = !held;
    wire move = out_ready || !out_valid;

    always @(posedge clk) begin
        if (move) out_data <= held ? hold : in_data;
        if (!held) hold <= in_data;
        if (rst) begin
            out_valid <= 1'b0;
            held <= 1'b0;
        end else begin
            if (move) out_valid <= held || in_valid;
            held <= !move && (held || in_valid);
        end
    end
endmodule

`default_nettype wire
