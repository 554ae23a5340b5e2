//! What is legal in a file, and most likely not meant.

use bora_worker::Mode;

use super::{File, FlowChoice, RuleAction, RuleSection};

/// Octets of nodes that a full Internet table needs, MiB.
const FULL_TABLE: u16 = 3;

/// One line each.
pub(super) fn of(file: &File) -> Vec<String> {
    let mut warnings = of_rules(&file.rules);
    if let [port] = &file.ports[..] {
        warnings.push(format!(
            "{} is the only port: Bora forwards between its VLAN devices only",
            port.name
        ));
    }
    if file.linux.bypass_netfilter {
        warnings.push("linux.bypass_netfilter: what Bora forwards passes no firewall rule, tc filter or IPsec policy of Linux".into());
    }
    if file.firewall.flows == FlowChoice::Always {
        warnings.push("firewall.flows = \"always\": rules that drop, limit or log single packets of established flows do so no more".into());
    }
    if file.linux.punt_budget == 0 {
        warnings.push("linux.punt_budget = 0: Linux answers nothing, such as `TTL exceeded`, and resolves no neighbour for what Bora forwards".into());
    }
    if file.fib.memory < FULL_TABLE {
        let memory = file.fib.memory;
        warnings.push(format!("fib.memory = {memory}: a full Internet table needs {FULL_TABLE}; without room Linux forwards"));
    }
    warnings.extend(all_cpus_poll(file));
    warnings.extend(file.api.warnings());
    warnings.extend(file.sflow.warnings());
    warnings
}

/// Rules behind one that everything matches, and one that drops everything.
fn of_rules(rules: &[RuleSection]) -> Vec<String> {
    let all = rules.iter().position(RuleSection::matches_everything);
    let Some(first) = all else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    let number = first + 1;
    if number < rules.len() {
        warnings.push(format!(
            "rule {number} has no condition: the {} behind it match nothing",
            rules.len() - number
        ));
    }
    if rules[first].action == RuleAction::Drop && first == 0 {
        warnings.push("rule 1 drops everything that the engine would forward".into());
    }
    warnings
}

fn all_cpus_poll(file: &File) -> Option<String> {
    let workers = file.workers.cores.len();
    if file.workers.mode != Mode::Poll || workers == 0 {
        return None;
    }
    let cpus = match std::thread::available_parallelism() {
        Ok(cpus) => usize::from(cpus),
        Err(error) => {
            return Some(format!(
                "workers: {workers} poll, and whether that leaves time to Linux is not known: {error}"
            ));
        }
    };
    (workers >= cpus).then(|| {
        format!("workers: {workers} poll on all {cpus} CPUs, and leave no time to Linux and its routing daemons")
    })
}

impl RuleSection {
    fn matches_everything(&self) -> bool {
        let conditions = Self {
            name: None,
            action: RuleAction::default(),
            class: None,
            output: None,
            ..self.clone()
        };
        conditions == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(text: &str) -> Vec<String> {
        of(&toml::from_str(text).unwrap())
    }

    const PORTS: &str = "[[port]]\nname = \"a\"\n[[port]]\nname = \"b\"\n";

    #[test]
    fn foolish_files() {
        assert_eq!(warnings(PORTS), Vec::<String>::new());
        for (text, word) in [
            ("[[port]]\nname = \"a\"\n", "only port"),
            ("linux.bypass_netfilter = true\n", "firewall"),
            ("firewall.flows = \"always\"\n", "rules"),
            ("linux.punt_budget = 0\n", "punt_budget"),
            ("fib.memory = 2\n", "full Internet table"),
            (
                "[[rule]]\nname = \"all\"\n[[rule]]\nprotocol = \"tcp\"\n",
                "1 behind it",
            ),
            ("[[rule]]\naction = \"drop\"\n", "drops everything"),
            (
                "api.listen = \"192.0.2.1:9179\"\napi.token_file = \"t\"\n",
                "in clear",
            ),
            (
                "sflow.collector = \"192.0.2.1\"\nsflow.sampling = 1\n",
                "more samples will be lost",
            ),
        ] {
            let text = match text.starts_with("[[port]]") {
                true => text.to_owned(),
                false => format!("{text}{PORTS}"),
            };
            let found = warnings(&text);
            assert!(
                found.len() == 1 && found[0].contains(word),
                "{text}: {found:?}"
            );
        }
        let last = format!("{PORTS}[[rule]]\nprotocol = \"tcp\"\n[[rule]]\naction = \"drop\"\n");
        assert_eq!(
            warnings(&last),
            Vec::<String>::new(),
            "a rule at the end for all others is good"
        );
    }
}
