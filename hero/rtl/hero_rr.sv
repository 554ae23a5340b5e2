// Round robin: picks the first requester after the one served last. N is a power of two (tie unused requests to 0).
`default_nettype none

module hero_rr #(
    parameter N = 4,
    parameter W = 2  // log2(N)
) (
    input  wire [N-1:0] req,
    input  wire [W-1:0] last,
    output wire         any,
    output reg  [W-1:0] pick
);
    integer i;
    reg [W-1:0] k;
    assign any = |req;

    always @* begin
        pick = last;
        k = last;
        for (i = 0; i < N; i = i + 1) begin
            if (req[k]) pick = k;  // the last one seen wins: walk from `last` down to its successor
            k = k - 1'b1;
        end
    end
endmodule

`default_nettype wire
