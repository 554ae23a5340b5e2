//! `bora-test run`: what was typed over a plan, the ports, the report.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail, ensure};
use bora_network::Lab;
use bora_tester::measure::measure;
use bora_tester::plan::{Calibrate, Length, Plan, PortSection, Variant};
use bora_tester::port_bench::{self, PortBench};
use bora_tester::ports::{self, PortSpec};
use bora_tester::report;
use bora_tester::run::{Opened, Options, run, save};

use crate::arguments::{LengthArgument, TestRunOptions};
use crate::lab;
use crate::reports::WIDTH;
use bora_terminal::{print, remark, say};

pub(crate) fn test_run(options: TestRunOptions) -> anyhow::Result<ExitCode> {
    let (mut plan, mut text) = Plan::read(&options.plan)?;
    change(&mut plan, &options)?;
    let typed: Vec<String> = std::env::args().skip(1).collect();
    text += &format!("\n# carried out by: bora-test {}\n", typed.join(" "));
    // before the lab: what is interrupted must be cleaned up
    let stop = stop_on_signals()?;
    let lab = lab::build(&options.lab, &mut plan)?;
    let specs = match &lab {
        Some(lab) => lab::ports(lab, &options.lab),
        None => specs(&plan)?,
    };
    let mut device = lab::device(lab.as_ref(), &plan);
    device.set_stop(stop.clone());
    let how = Options {
        length: match options.duration {
            LengthArgument::Short => Length::Short,
            LengthArgument::Full => Length::Full,
        },
        receive_cpu: lab.as_ref().map(Lab::receive_cpu),
        stop: stop.clone(),
        ask,
    };
    let open = |specs: &[PortSpec]| open(specs, options.force, &stop);
    let facts = lab.as_ref().map(Lab::facts).transpose()?;
    // not after hours of measuring
    std::fs::create_dir_all(&options.output)
        .with_context(|| format!("cannot write to {}", options.output.display()))?;
    let (cases, notes) = plan.cases(&specs, how.length)?;
    for note in &notes {
        remark(format_args!("{note}"));
    }
    let mut display = report::Display::new(cases.len());
    let mut found = run(
        &plan,
        &specs,
        (cases, notes),
        &device,
        &how,
        &open,
        &mut |bench, device, job, test| {
            measure(bench, device, job, test, &mut |step| display.step(step))
        },
    )?;
    display.finish();
    found.plan = text;
    found.stopped = stop.load(Ordering::Relaxed);
    if let Some(facts) = facts {
        found.subject.splice(..0, facts);
    }
    let saved = save(&found, &options.output, &options.plan);
    match options.json {
        true => say!("{}", serde_json::to_string_pretty(&found)?)?,
        false => print(format_args!("{}", report::table(&found, WIDTH)))?,
    }
    for path in saved? {
        remark(format_args!("wrote {}", path.display()));
    }
    let dead = report::without_frames(&found).count();
    if dead > 0 {
        remark(format_args!(
            "no frame came through in {dead} of {} tests",
            found.tests.len()
        ));
    }
    Ok(match found.complete && dead == 0 {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The ports that were typed or that the plan has.
fn specs(plan: &Plan) -> anyhow::Result<Vec<PortSpec>> {
    let specs: anyhow::Result<Vec<PortSpec>> = plan.ports.iter().map(PortSection::spec).collect();
    let specs = specs?;
    ensure!(
        specs.len() >= 2,
        "{} ports; name at least two with --port or in [[port]] sections of the plan, or use --lab",
        specs.len()
    );
    Ok(specs)
}

/// Replaces parts of the plan by what was typed.
fn change(plan: &mut Plan, options: &TestRunOptions) -> anyhow::Result<()> {
    if !options.ports.is_empty() {
        plan.ports = options.ports.clone();
    }
    plan.seed = options.seed.unwrap_or(plan.seed);
    if options.no_calibration {
        plan.calibration = Calibrate::Off;
    }
    let router = &mut plan.router;
    router.shell = options.shell.clone().or(router.shell.take());
    router.restart = options.restart.clone().or(router.restart.take());
    if !options.only.is_empty() {
        let names: Vec<String> = plan.tests.iter().map(|test| test.name()).collect();
        if let Some(unknown) = options.only.iter().find(|only| !names.contains(only)) {
            bail!(
                "--only {unknown}: the plan has the tests {}",
                names.join(", ")
            );
        }
        plan.tests
            .retain(|test| options.only.contains(&test.name()));
    }
    if !options.sizes.is_empty() {
        plan.sizes = Variant::both(options.sizes.clone());
        for test in &mut plan.tests {
            test.sizes = None;
        }
    }
    // once more: places in the file would mislead now
    plan.check()
        .map_err(|problem| anyhow::anyhow!("with the options of the command line: {problem}"))
}

fn open(specs: &[PortSpec], force: bool, stop: &Arc<AtomicBool>) -> anyhow::Result<Opened> {
    let ports = ports::open(specs, Vec::new(), ports::Options { force })?;
    let options = port_bench::Options {
        stop: stop.clone(),
        ..port_bench::Options::default()
    };
    let bench = PortBench::new(ports, options);
    let ports = bench.ports().map(ports::PortInfo::record).collect();
    let bench = Box::new(bench);
    Ok(Opened { bench, ports })
}

/// Ctrl-C ends the run in order: what was measured is kept. A second one ends it at once.
fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            lab::abandon();
        }
        remark(format_args!(
            "stopping; what was measured is kept (again to end at once)"
        ));
    })
    .context("cannot handle signals")?;
    Ok(stop)
}

fn ask(text: &str) -> anyhow::Result<()> {
    remark(format_args!("{text} Then press Enter."));
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line)?;
    ensure!(read > 0, "nobody answered; use --no-calibration");
    Ok(())
}
