//! Linux's rules of policy routing, as read.

use crate::message::{Rule, RuleAction};

/// The rules of an IP version, in the order in which Linux asks them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The rules.
    pub list: Vec<Rule>,
    /// Why they are not known; then only Linux can say where packets go.
    pub unread: Option<String>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            unread: Some("cannot read rules: not yet".into()),
        }
    }
}

impl Rules {
    /// The rules of a kernel without policy routing.
    pub(crate) fn linux_own(v6: bool) -> Self {
        let tables: &[_] = if v6 {
            &[(0, 255), (32766, 254)]
        } else {
            &[(0, 255), (32766, 254), (32767, 253)]
        };
        let rule = |&(priority, table)| Rule {
            priority,
            action: RuleAction::Table(table),
            ..Rule::default()
        };
        Self {
            list: tables.iter().map(rule).collect(),
            unread: None,
        }
    }
}
