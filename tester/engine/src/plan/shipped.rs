//! The plans that come with Bora.

/// Name and text of each.
pub const SHIPPED: [(&str, &str); 11] = [
    ("smoke", include_str!("../../plans/smoke.toml")),
    ("rfc2544", include_str!("../../plans/rfc2544.toml")),
    (
        "rfc2544-ipv6",
        include_str!("../../plans/rfc2544-ipv6.toml"),
    ),
    ("rfc2889", include_str!("../../plans/rfc2889.toml")),
    ("bianco05", include_str!("../../plans/bianco05.toml")),
    ("kth08", include_str!("../../plans/kth08.toml")),
    ("bolla08", include_str!("../../plans/bolla08.toml")),
    ("pels07", include_str!("../../plans/pels07.toml")),
    ("full-table", include_str!("../../plans/full-table.toml")),
    ("churn", include_str!("../../plans/churn.toml")),
    ("restart", include_str!("../../plans/restart.toml")),
];

/// The text of a plan by its name.
pub fn shipped(name: &str) -> Option<&'static str> {
    let found = SHIPPED.iter().find(|(shipped, _)| *shipped == name);
    found.map(|(_, text)| *text)
}
