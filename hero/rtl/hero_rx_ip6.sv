// The IPv6 header of a frame, from the words of hero_rx_input. What follows from all of it is there the cycle after its last
// word (which is not the frame's last one, because the shortest frame is longer).
`default_nettype none

module hero_rx_ip6 (
    input  wire         clk,
    input  wire         word_valid,
    input  wire [ 63:0] word,
    input  wire [  7:0] word_index,
    input  wire [ 15:0] octets,       // the frame has, at its end
    output wire         fits,         // at the frame's end: it holds the whole packet
    output wire         special,      // only the host knows what to do with it
    output reg  [  7:0] hop_limit,
    output reg  [  7:0] next_header,
    output reg  [127:0] dst
);
    localparam HOP_BY_HOP = 0;

    // Addresses that are never routed: multicast, and link-local (RFC 4291 2.5.6). Both begin in the highest octets of a word.
    wire local_or_group = word[55:48] == 8'hff || word[55:48] == 8'hfe && word[63:62] == 2'b10;

    // ::/64 holds the unspecified address, loopback, and IPv4-mapped addresses, with which a sender could pretend to be a
    // station of IPv4
    reg src_local, dst_local, src_zeros, dst_zeros;
    reg [15:0] payload;
    reg [16:0] needed_octets;
    assign fits = needed_octets <= {1'b0, octets};
    assign special = next_header == HOP_BY_HOP || src_local || dst_local || src_zeros || dst_zeros;

    integer i;
    always @(posedge clk) begin
        if (word_valid)
            case (word_index)
                2: begin
                    payload <= {word[23:16], word[31:24]};
                    next_header <= word[39:32];
                    hop_limit <= word[47:40];
                    src_local <= local_or_group;
                    src_zeros <= word[63:48] == 0;
                end
                3: src_zeros <= src_zeros && word[47:0] == 0;
                4: begin
                    dst[127:112] <= {word[55:48], word[63:56]};
                    dst_local <= local_or_group;
                    dst_zeros <= word[63:48] == 0;
                end
                5: begin
                    for (i = 0; i < 8; i = i + 1) dst[104-8*i+:8] <= word[8*i+:8];
                    dst_zeros <= dst_zeros && word[47:0] == 0;
                end
                6: for (i = 0; i < 6; i = i + 1) dst[40-8*i+:8] <= word[8*i+:8];
                default: ;
            endcase
        needed_octets <= {1'b0, payload} + 17'd54;
    end
endmodule

`default_nettype wire
