// The next of N requesters after the one served last; combinational.
`default_nettype none

module round_robin #(
    parameter N = 4,
    parameter W = 2  // bits of a requester's number
) (
    input  wire [N-1:0] req,
    input  wire [W-1:0] last,
    output reg  [W-1:0] next  // meaningful while `req` is not 0
);
    // Requesters behind `last` come first; without any, the lowest of all.
    wire [N-1:0] up_to_last = (({{(N-1){1'b0}}, 1'b1} << last) << 1) - 1'b1;
    wire [N-1:0] behind = req & ~up_to_last;
    wire [N-1:0] from = behind != 0 ? behind : req;

    integer i;
    always @* begin
        next = 0;
        for (i = N - 1; i >= 0; i = i - 1) if (from[i]) next = i[W-1:0];
    end
endmodule

`default_nettype wire
