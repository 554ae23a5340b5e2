// A step of CRC-8 (x^8 + x^2 + x + 1), the highest bit first.
`default_nettype none

module hero_crc8 (
    input  wire [7:0] crc,
    input  wire [7:0] data,
    output wire [7:0] next
);
    wire [7:0] s[0:8];
    assign s[0] = crc ^ data;
    genvar k;
    generate
        for (k = 0; k < 8; k = k + 1) begin : g_bit
            assign s[k+1] = {s[k][6:0], 1'b0} ^ (s[k][7] ? 8'h07 : 8'h00);
        end
    endgenerate
    assign next = s[8];
endmodule

`default_nettype wire
