// The CRC of Ethernet, an octet a cycle (IEEE 802.3 clause 3.2.9): `crc` is the register, the FCS its complement,
// octet 0 first.
`default_nettype none

module hero_crc32 (
    input  wire        clk,
    input  wire        clear,
    input  wire        valid,
    input  wire [ 7:0] data,
    output reg  [31:0] crc
);
    function [31:0] step;
        input [31:0] c;
        input [7:0] d;
        integer i;
        begin
            step = c ^ {24'b0, d};
            for (i = 0; i < 8; i = i + 1) step = {1'b0, step[31:1]} ^ (step[0] ? 32'hedb88320 : 32'h0);
        end
    endfunction

    always @(posedge clk)
        if (clear) crc <= 32'hffffffff;
        else if (valid) crc <= step(crc, data);
endmodule

`default_nettype wire
