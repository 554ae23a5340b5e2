//! Where the log goes.

/// Sends the log to systemd's journal with fields of their own (`journalctl -u bora WHO=alice`), if that is where standard error goes;
/// else as lines on standard error.
pub(crate) fn log_to_the_right_place(verbose: bool) {
    let level = if verbose { "debug" } else { "info" };
    let asked = std::env::var("RUST_LOG");
    if systemd_journal_logger::connected_to_journal()
        && let Ok(level) = asked.as_deref().unwrap_or(level).parse()
        && let Ok(journal) = systemd_journal_logger::JournalLog::new()
        && journal
            .with_syslog_identifier("bora".into())
            .install()
            .is_ok()
    {
        log::set_max_level(level);
        return;
    }
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(level))
        .format_timestamp_millis()
        .format_target(false)
        .init();
}
