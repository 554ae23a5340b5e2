//! Bora with HERO's cards among its kinds of ports.
#![forbid(unsafe_code)]

use bora_daemon::{BroughtKind, bring};
use bora_hero::Options;

fn main() -> std::process::ExitCode {
    bring(vec![BroughtKind::new::<Options>("hero", Options::FIRST)]);
    bora::main()
}

#[cfg(test)]
mod tests {
    use bora_daemon::PortSection;

    use super::*;

    #[test]
    fn a_card_is_a_port_of_files_and_of_the_command_line() {
        bring(vec![BroughtKind::new::<Options>("hero", Options::FIRST)]);
        let text = "hero:1,wire=tap:eth0,offload=no";
        let keys = "kind = 'hero'\nname = 'hero1'\ncard = 1\nwire = 'tap:eth0'\noffload = false";
        let section: PortSection = text.parse().unwrap();
        assert_eq!(section, toml::from_str(keys).unwrap());
        let written = toml::to_string(&section).unwrap();
        assert_eq!(section, toml::from_str(&written).unwrap(), "{written}");
        let error = "hero:1".parse::<PortSection>().unwrap_err();
        assert!(error.contains("a card needs a cable"), "{error}");
        let error = toml::from_str::<PortSection>("kind = 'hero'\nname = 'a'\nspeed = 1");
        assert!(error.unwrap_err().to_string().contains("speed"));
    }
}
