// Address decoder of the bus: 0-3 a card's aperture, 4 the host's memory, 5 unassigned.
`default_nettype none

module bus_decode (
    input  wire [31:0] addr,
    output wire [ 2:0] slave
);
    wire card = addr[31:22] == 10'h200;
    assign slave = card ? {1'b0, addr[21:20]} : addr[31] ? 3'd5 : 3'd4;

    wire unused = &{1'b0, addr[19:0]};
endmodule

`default_nettype wire
