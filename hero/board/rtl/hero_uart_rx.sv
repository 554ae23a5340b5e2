// Receiver of a serial line: a start bit, 8 bits, the lowest first, a stop bit.
`default_nettype none

module hero_uart_rx #(
    parameter DIVISOR = 100  // cycles a bit
) (
    input  wire       clk,
    input  wire       rst,
    input  wire       rx,
    output wire [7:0] data,
    output reg        valid,  // pulse
    output reg        broken  // pulse: no stop bit
);
    localparam W = $clog2(DIVISOR);
    (* keep, async_reg = "true" *) reg rx_meta, rx_sync;
    always @(posedge clk) {rx_sync, rx_meta} <= {rx_meta, rx};

    reg [W-1:0] count;  // cycles to the middle of the next bit
    reg [3:0] bits;  // to come, the stop bit included; 0: idle
    reg start;  // in the start bit's first half
    reg [7:0] shift;
    assign data = shift;

    always @(posedge clk) begin
        valid <= 1'b0;
        broken <= 1'b0;
        count <= count - 1'b1;
        if (bits == 4'd0 && !start) begin
            start <= !rx_sync;
            count <= DIVISOR[W:1] - 1'b1;
        end else if (count == 0) begin
            count <= DIVISOR[W-1:0] - 1'b1;
            start <= 1'b0;
            if (start) bits <= rx_sync ? 4'd0 : 4'd9;  // a spike is no start bit
            else begin
                bits <= bits - 4'd1;
                if (bits != 4'd1) shift <= {rx_sync, shift[7:1]};
                valid <= bits == 4'd1 && rx_sync;
                broken <= bits == 4'd1 && !rx_sync;
            end
        end
        if (rst) begin
            {start, valid, broken} <= 3'd0;
            bits <= 4'd0;
        end
    end
endmodule

`default_nettype wire
