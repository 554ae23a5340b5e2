// Sender of a serial line: a start bit, 8 bits, the lowest first, a stop bit.
`default_nettype none

module hero_uart_tx #(
    parameter DIVISOR = 100  // cycles a bit
) (
    input  wire       clk,
    input  wire       rst,
    input  wire [7:0] data,
    input  wire       valid,
    output wire       ready,
    output wire       tx
);
    localparam W = $clog2(DIVISOR);
    reg [W-1:0] count;
    reg [3:0] bits;  // to come, the one on the line included
    reg [9:0] shift;
    assign ready = bits == 4'd0;
    assign tx = shift[0];

    always @(posedge clk) begin
        count <= count == 0 ? DIVISOR[W-1:0] - 1'b1 : count - 1'b1;
        if (ready) begin
            count <= DIVISOR[W-1:0] - 1'b1;
            if (valid) begin
                shift <= {1'b1, data, 1'b0};
                bits <= 4'd10;
            end
        end else if (count == 0) begin
            shift <= {1'b1, shift[9:1]};
            bits <= bits - 4'd1;
        end
        if (rst) begin
            shift <= 10'h3ff;
            bits <= 4'd0;
        end
    end
endmodule

`default_nettype wire
