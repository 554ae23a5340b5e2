use super::*;
use crate::report::example;

fn report(samples: &[f64]) -> Report {
    let finding = Finding {
        metric: "throughput".into(),
        goal: "loss 0 %".into(),
        unit: "frames/s".into(),
        value: samples.first().copied(),
        samples: samples.to_vec(),
        more_is_better: Some(true),
        ..Finding::default()
    };
    Report {
        complete: true,
        tests: vec![Test {
            name: "t".into(),
            frames: "64".into(),
            findings: vec![finding],
            ..Test::default()
        }],
        ..Report::default()
    }
}

fn near(value: Option<f64>, expected: f64) -> bool {
    (value.unwrap() - expected).abs() < 1e-3
}

#[test]
fn welch_as_worked_out_by_hand() {
    let a = report(&[100.0, 102.0, 98.0, 101.0, 99.0]);
    let b = report(&[110.0, 114.0, 106.0, 112.0, 108.0]);
    let found = compare(&a, &b).differences.remove(0);
    // variances 2.5 and 10: standard error 1.5811, 5.8824 degrees of freedom, quantile 2.4589
    assert_eq!((found.a, found.b), (Some(100.0), Some(110.0)));
    assert!(near(found.change, 10.0));
    assert!(
        near(found.low, 6.1121) && near(found.high, 13.8879),
        "{found:?}"
    );
    assert_eq!(found.verdict, Verdict::Better);
    let back = compare(&b, &a).differences.remove(0);
    assert_eq!(back.verdict, Verdict::Worse);
    assert!(near(back.low, -13.8879 / 1.1), "{back:?}");
}

#[test]
fn noise_is_no_difference() {
    let a = report(&[100.0, 110.0, 90.0]);
    let b = report(&[104.0, 115.0, 93.0]);
    let comparison = compare(&a, &b);
    assert_eq!(
        comparison.differences[0].verdict,
        Verdict::NoDifferenceShown
    );
    assert_eq!(comparison.exit_code(), 0);
    let same = compare(&report(&[7.0, 7.0]), &report(&[7.0, 7.0]));
    assert_eq!(same.differences[0].verdict, Verdict::NoDifferenceShown);
}

/// About 5 in 100 of two sets from one population are said to differ: the interval is what it says.
#[test]
fn the_interval_holds_95_of_100() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut draw = |n: usize, width: f64| -> Vec<f64> {
        // a sum of uniforms is nearly normal
        let mut one = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        (0..n).map(|_| 1000.0 + width * one()).collect()
    };
    let differing = (0..2000)
        .filter(|_| {
            let (a, b) = (report(&draw(5, 1.0)), report(&draw(8, 4.0)));
            compare(&a, &b).differences[0].verdict != Verdict::NoDifferenceShown
        })
        .count();
    assert!((60..=140).contains(&differing), "{differing} of 2000");
}

#[test]
fn bounds_count_where_there_are_no_samples() {
    let bounded = |low, high| {
        let mut report = report(&[high]);
        let finding = &mut report.tests[0].findings[0];
        (finding.samples, finding.low, finding.high) = (Vec::new(), Some(low), Some(high));
        report
    };
    let verdict = |a: &Report, b: &Report| compare(a, b).differences[0].verdict;
    let a = bounded(95.0, 100.0);
    assert_eq!(verdict(&a, &bounded(101.0, 106.0)), Verdict::Better);
    assert_eq!(verdict(&a, &bounded(90.0, 94.0)), Verdict::Worse);
    assert_eq!(
        verdict(&a, &bounded(99.0, 104.0)),
        Verdict::NoDifferenceShown
    );
    let mut neither = bounded(200.0, 201.0);
    neither.tests[0].findings[0].more_is_better = None;
    assert_eq!(verdict(&neither, &a), Verdict::Different);
}

/// Plans with `family = "both"` have each test twice, under one name.
#[test]
fn families_are_told_apart() {
    let both = |v4: f64, v6: f64| {
        let mut all = report(&[v4, v4]);
        all.tests[0].family = "ipv4".into();
        let mut second = report(&[v6, v6]).tests.remove(0);
        second.family = "ipv6".into();
        all.tests.push(second);
        all
    };
    let found = compare(&both(100.0, 50.0), &both(100.0, 60.0));
    let verdicts: Vec<_> = found.differences.iter().map(|one| one.verdict).collect();
    assert_eq!(verdicts, [Verdict::NoDifferenceShown, Verdict::Better]);
    assert!(found.to_string().contains("64, IPv6"), "{found}");
    let mut only = both(100.0, 50.0);
    only.tests.remove(0);
    let found = compare(&only, &both(100.0, 60.0));
    assert_eq!(found.differences.len(), 1);
    assert_eq!(found.differences[0].verdict, Verdict::Better);
}

#[test]
fn two_without_an_upper_bound_show_no_difference() {
    let open = |value: Option<f64>| {
        let mut report = report(&[]);
        let finding = &mut report.tests[0].findings[0];
        (finding.value, finding.low) = (value, Some(95.0));
        report
    };
    for value in [Some(100.0), None] {
        let found = compare(&open(value), &open(value));
        assert_eq!(found.differences[0].verdict, Verdict::NoDifferenceShown);
        assert_eq!(found.exit_code(), 0);
    }
    let mut bounded = open(Some(100.0));
    bounded.tests[0].findings[0].high = Some(101.0);
    let found = compare(&open(Some(100.0)), &bounded);
    assert_eq!(found.differences[0].verdict, Verdict::NotComparable);
    let mut other = open(None);
    other.tests[0].pattern = "both ways".into();
    let found = compare(&open(None), &other);
    assert_eq!(found.differences[0].verdict, Verdict::NotComparable);
}

#[test]
fn what_cannot_be_compared_says_why() {
    let a = report(&[1.0]);
    let reason = |change: &dyn Fn(&mut Report)| {
        let mut b = a.clone();
        change(&mut b);
        let comparison = compare(&a, &b);
        assert_eq!(comparison.differences[0].verdict, Verdict::NotComparable);
        assert_eq!(comparison.exit_code(), 2);
        comparison.differences[0].how.clone()
    };
    assert!(reason(&|_| ()).contains("neither repeated"));
    assert!(reason(&|b| b.tests[0].pattern = "both ways".into()).contains("different patterns"));
    assert!(reason(&|b| b.tests[0].findings[0].unit = "ms".into()).contains("different units"));
    assert!(reason(&|b| b.tests[0].findings[0].value = None).contains("in the second"));
}

#[test]
fn what_else_differs_is_noted() {
    let a = example::report();
    let mut b = a.clone();
    b.environment.kernel = "7.0".into();
    b.plan += "\n# longer";
    b.tests[0].frames = "65".into();
    let comparison = compare(&a, &b);
    let text = comparison.to_string();
    for part in [
        "different kernels",
        "different plans",
        "virtual links",
        "only in the first",
        "only in the second",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn a_report_does_not_differ_from_itself() {
    let report = example::report();
    let comparison = compare(&report, &report);
    assert_eq!(comparison.exit_code(), 0, "{comparison}");
    let text = comparison.to_string();
    assert!(text.contains("no difference shown"), "{text}");
    let lines = text
        .lines()
        .filter(|line| line.starts_with("not comparable: frame-loss, "));
    assert_eq!(lines.count(), 1, "{text}");
}

/// One that lost nothing is not the same as one that duplicates and reorders.
#[test]
fn faults_are_compared() {
    let with = |faults: &[(u64, u64)]| {
        let mut report = report(&[100.0, 101.0]);
        let test = &mut report.tests[0];
        test.method = "latency".into();
        test.trials = faults
            .iter()
            .map(|&(lost, reordered)| crate::result::TrialRecord {
                sent: 10_000,
                lost,
                reordered,
                valid: true,
                ..Default::default()
            })
            .collect();
        let mut second = test.findings[0].clone();
        second.metric = "another of the same trials".into();
        test.findings.push(second);
        for finding in &mut test.findings {
            finding.trials = (0..faults.len()).collect();
        }
        report
    };
    let found = |a: &Report, b: &Report| -> Vec<(String, Verdict)> {
        let differences = compare(a, b).differences.into_iter().skip(1);
        let faults = differences.filter(|one| one.metric.starts_with("frames "));
        faults.map(|one| (one.metric, one.verdict)).collect()
    };
    let (lost, reordered) = ("frames lost".to_string(), "frames reordered".to_string());
    let clean = with(&[(0, 0)]);
    assert_eq!(found(&clean, &clean), []);
    assert_eq!(
        found(&clean, &with(&[(30, 0)])),
        [(lost.clone(), Verdict::Worse)]
    );
    assert_eq!(
        found(&with(&[(0, 900)]), &clean),
        [(reordered, Verdict::Better)]
    );
    assert_eq!(
        found(&clean, &with(&[(1, 0)])),
        [(lost.clone(), Verdict::NoDifferenceShown)]
    );
    let noisy = found(&with(&[(0, 0), (90, 0)]), &with(&[(80, 0), (10, 0)]));
    assert_eq!(noisy, [(lost, Verdict::NoDifferenceShown)]);
    assert_eq!(compare(&clean, &with(&[(30, 0)])).exit_code(), 1);
}

#[test]
fn what_the_tester_limited_is_no_difference_but_is_shown() {
    let limited = |low: Option<f64>, high: Option<f64>| {
        let mut report = report(&[]);
        let finding = &mut report.tests[0].findings[0];
        (finding.low, finding.high, finding.valid) = (low, high, false);
        report
    };
    let (a, b) = (limited(Some(362e3), None), limited(Some(378e3), None));
    let text = compare(&a, &b).to_string();
    assert!(
        text.contains("at least 362 k") && text.contains("at least 378 k"),
        "{text}"
    );
    assert_eq!(compare(&a, &b).exit_code(), 0);
    let late = limited(None, Some(5.0));
    assert_eq!(compare(&late, &late).exit_code(), 0);
    for (a, b, which) in [
        (&a, &report(&[1.0, 2.0]), "of the first report"),
        (&report(&[1.0, 2.0]), &a, "of the second report"),
        (&a, &late, "of both"),
    ] {
        let found = compare(a, b);
        assert_eq!(found.differences[0].verdict, Verdict::NotComparable);
        assert!(found.to_string().contains(which), "{found}");
    }
}
