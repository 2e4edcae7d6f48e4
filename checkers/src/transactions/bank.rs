//! Transfers between accounts: every read of all balances sums to the same total.

use std::collections::BTreeSet;

use deposed_history::{Call, History, Outcome, ValueRef};
use serde_json::json;

use super::planted::{Bug, planted};
use crate::{Analysis, Anomaly, Budget, Checker, Exhausted, Undecided};

/// Anomalies of one name that are shown; all are counted.
const SHOWN_MAX: usize = 8;

/// Judges `read` calls, whose completed value is a map of accounts to balances. Transfers are not
/// looked at: whatever they do, they must not change the total.
#[derive(Debug, Clone, Default)]
pub struct Bank {
    /// The total; that of the first read if `None`.
    pub total: Option<i64>,
    /// Whether balances may be negative.
    pub negative_balances: bool,
}

/// What is wrong with a read, in the order it is looked for.
enum Wrong<'h> {
    NotBalances(ValueRef<'h>),
    UnexpectedKey(ValueRef<'h>),
    NilBalance(ValueRef<'h>),
    Total(i128),
    Negative(ValueRef<'h>, i64),
}

/// What every read is compared with.
struct Expected {
    total: i128,
    accounts: BTreeSet<String>,
    /// The read it comes from, if it was not given.
    first: u32,
}

impl Checker for Bank {
    fn name(&self) -> &str {
        "bank"
    }

    fn check(&self, history: &History, budget: &Budget) -> Analysis {
        self.judge(history, budget)
            .unwrap_or_else(|why| Analysis::exhausted(self.name(), history, why))
    }
}

impl Bank {
    fn judge(&self, history: &History, budget: &Budget) -> Result<Analysis, Exhausted> {
        let (mut expected, mut reads, mut wrong) = (None, 0u64, 0u64);
        let mut anomalies: Vec<Anomaly> = Vec::new();
        for call in budget.pace(history.calls()) {
            let call = call?;
            let acknowledged = call.outcome() == Outcome::Ok || planted(Bug::UnfinishedReadsJudged);
            let Some(complete) = call.complete().filter(|_| acknowledged) else { continue };
            if history.op(call.invoke).f() != "read" && !planted(Bug::TransfersJudged) {
                continue;
            }
            reads += 1;
            let value = history.op(complete).value();
            let found = match &expected {
                Some(expected) if !planted(Bug::TotalForgotten) => self.wrong(value, expected),
                _ => {
                    let given = self.total.filter(|_| !planted(Bug::GivenTotalIgnored));
                    let first = Expected {
                        total: given.map_or_else(|| sum(value), i128::from),
                        accounts: accounts(value),
                        first: call.invoke,
                    };
                    let found = self.wrong(value, &first);
                    let broken =
                        matches!(found, Some(Wrong::NotBalances(_) | Wrong::NilBalance(_)));
                    if !broken || planted(Bug::BrokenReadTrusted) {
                        expected = Some(first);
                    }
                    found
                }
            };
            let Some(found) = found else { continue };
            wrong += 1;
            let anomaly = self.anomaly(history, call.invoke, &found, expected.as_ref());
            let alike = anomalies.iter().filter(|known| known.name == anomaly.name).count();
            if alike < SHOWN_MAX {
                anomalies.push(anomaly);
            }
        }
        let undecided = if reads == 0 {
            vec![Undecided::untested(history, "no read of the balances succeeded")]
        } else {
            Vec::new()
        };
        let summary = format!("{reads} reads of all balances, {wrong} of them wrong");
        let total = expected.map(|expected| expected.total.to_string());
        let analysis = Analysis {
            details: json!({ "reads": reads, "total": total, "wrong": wrong }),
            anomaly_count: wrong,
            ..Analysis::from_findings(self.name(), summary, anomalies, undecided)
        };
        Ok(analysis.verified(history, budget, |anomaly| self.stands(history, anomaly)))
    }

    fn wrong<'h>(&self, value: ValueRef<'h>, expected: &Expected) -> Option<Wrong<'h>> {
        let Some(map) = value.as_map() else {
            return Some(Wrong::NotBalances(value)).filter(|_| !planted(Bug::BalancesOfAnyKind));
        };
        if let Some((key, _)) =
            map.iter().find(|(key, _)| !expected.accounts.contains(&account(*key)))
            && !planted(Bug::NewAccountsIgnored)
        {
            return Some(Wrong::UnexpectedKey(key));
        }
        if let Some((key, balance)) = map.iter().find(|(_, balance)| balance.as_int().is_none()) {
            return if balance.is_nil() {
                Some(Wrong::NilBalance(key)).filter(|_| !planted(Bug::NilBalancesIgnored))
            } else {
                Some(Wrong::NotBalances(value)).filter(|_| !planted(Bug::BalancesOfAnyKind))
            };
        }
        let total = sum(value);
        if total != expected.total && !planted(Bug::TotalsIgnored) {
            return Some(Wrong::Total(total));
        }
        let negative =
            |&(_, balance): &(ValueRef<'h>, ValueRef<'h>)| balance.as_int().is_some_and(|n| n < 0);
        let allowed = self.negative_balances && !planted(Bug::DebtsForbidden);
        match map.iter().find(negative) {
            Some((key, balance)) if !allowed && !planted(Bug::DebtsIgnored) => {
                Some(Wrong::Negative(key, balance.as_int().unwrap_or_default()))
            }
            _ => None,
        }
    }

    fn anomaly(
        &self,
        history: &History,
        read: u32,
        wrong: &Wrong<'_>,
        expected: Option<&Expected>,
    ) -> Anomaly {
        let op = history.op(read);
        let who = format!("process {} (op {})", op.process(), op.index());
        let mut witness = vec![read];
        let (name, summary) = match wrong {
            Wrong::NotBalances(value) => {
                ("not-balances", format!("{who} read {value}, which is no map of balances"))
            }
            Wrong::UnexpectedKey(key) => {
                ("unexpected-key", format!("{who} read an account {key} that was not there before"))
            }
            Wrong::NilBalance(key) => {
                ("nil-balance", format!("{who} read no balance of account {key}"))
            }
            Wrong::Total(total) => {
                let should = expected.map(|expected| expected.total).unwrap_or_default();
                ("wrong-total", format!("{who} read balances that sum to {total} and not {should}"))
            }
            Wrong::Negative(key, balance) => {
                ("negative-value", format!("{who} read a balance of {balance} of account {key}"))
            }
        };
        let mut sentences = Vec::new();
        let compared = matches!(wrong, Wrong::Total(_)) && self.total.is_none()
            || matches!(wrong, Wrong::UnexpectedKey(_));
        if let Some(first) =
            expected.map(|expected| expected.first).filter(|&f| compared && f != read)
        {
            let op = history.op(first);
            sentences.push(format!(
                "The first read, by process {} (op {}), says what accounts there are and what they \
                 sum to.",
                op.process(),
                op.index()
            ));
            witness.insert(0, first);
        }
        sentences.push(format!("Then {summary}: no transfer can do that."));
        Anomaly { name: name.into(), key: None, summary, sentences, witness, edges: Vec::new() }
    }

    /// Whether an anomaly follows from the reads of its witness alone, looked at once more.
    pub(super) fn stands(&self, history: &History, anomaly: &Anomaly) -> bool {
        let balances = |call: &Call| {
            let is_read = call.outcome() == Outcome::Ok && history.op(call.invoke).f() == "read";
            call.complete().filter(|_| is_read).map(|complete| history.op(complete).value())
        };
        let total = |value: ValueRef<'_>| {
            let balances = value.as_map()?.iter().map(|(_, balance)| balance.as_int());
            balances.map(|balance| balance.map(i128::from)).sum::<Option<i128>>()
        };
        let found = |at: u32| history.calls().iter().find(|call| call.invoke == at);
        let (first, read) = match anomaly.witness[..] {
            [read] => (None, found(read).and_then(balances)),
            [first, read] => {
                // The first read that is one of balances tells what the others have to be like.
                let tells = |call: &&Call| balances(call).and_then(total).is_some();
                let told = history.calls().iter().find(tells).filter(|call| call.invoke == first);
                let Some(told) = told.and_then(balances) else { return false };
                (Some(told), found(read).and_then(balances))
            }
            _ => return false,
        };
        let Some(read) = read else { return false };
        let Some(map) = read.as_map() else { return anomaly.name == "not-balances" };
        let numbers = || map.iter().map(|(_, balance)| balance.as_int());
        let names = |value: ValueRef<'_>| -> Option<BTreeSet<String>> {
            let name =
                |key: ValueRef<'_>| key.as_str().map_or_else(|| key.to_string(), str::to_owned);
            Some(value.as_map()?.iter().map(|(key, _)| name(key)).collect())
        };
        match anomaly.name.as_str() {
            "not-balances" => {
                map.iter().any(|(_, balance)| balance.as_int().is_none() && !balance.is_nil())
            }
            "nil-balance" => map.iter().any(|(_, balance)| balance.is_nil()),
            "negative-value" => !self.negative_balances && numbers().flatten().any(|n| n < 0),
            "unexpected-key" => first
                .and_then(names)
                .zip(names(read))
                .is_some_and(|(known, told)| !told.is_subset(&known)),
            "wrong-total" => {
                let expected = self.total.map(i128::from).or_else(|| total(first?));
                expected.zip(total(read)).is_some_and(|(expected, told)| expected != told)
            }
            _ => false,
        }
    }
}

fn sum(value: ValueRef<'_>) -> i128 {
    let balances = value.as_map().into_iter().flat_map(|map| map.iter());
    balances.filter_map(|(_, balance)| balance.as_int().map(i128::from)).sum()
}

/// The accounts of a read. `1`, `"1"` and `:1` are one account: JSON has only text for keys.
fn accounts(value: ValueRef<'_>) -> BTreeSet<String> {
    value.as_map().into_iter().flat_map(|map| map.iter()).map(|(key, _)| account(key)).collect()
}

fn account(key: ValueRef<'_>) -> String {
    if planted(Bug::AccountsByKind) {
        return format!("{key:?}");
    }
    key.as_str().map_or_else(|| key.to_string(), str::to_owned)
}
