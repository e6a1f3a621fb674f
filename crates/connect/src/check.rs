//! `check` and `status`.

use crate::{
    outlet::{mark_of, may_send},
    settings::{Settings, SourceSettings},
    source::{Finding, Health, Source},
};
use client::{Call, Service, paths::path_of};

/// Checks everything, and prints each finding. False if something is wrong. Changes nothing.
pub async fn check(settings: &Settings) -> anyhow::Result<bool> {
    let service = settings.reseq.service()?;
    let mut is_good = true;
    for source in &settings.sources {
        let mut found = Vec::new();
        for destination in &source.destinations {
            found.push(destination_of(&service, destination).await);
        }
        match source.sources(settings).await? {
            Ok(sources) => {
                for (_, mut opened) in sources {
                    found.extend(opened.check().await);
                }
            }
            Err(fault) => found.push(("the source".to_owned(), Some(fault.to_string()))),
        }
        is_good &= print(&source.name, found);
    }
    #[cfg(feature = "kafka")]
    for (sink, cluster) in settings.sinks()? {
        let found = crate::kafka::check_sink(sink, cluster, &service).await;
        is_good &= print(&sink.name, found);
    }
    Ok(is_good)
}

/// Prints findings. False if something is wrong.
fn print(name: &str, found: Vec<Finding>) -> bool {
    let mut is_good = true;
    for (what, problem) in found {
        is_good &= problem.is_none();
        match problem {
            None => println!("ok    {name}: {what}"),
            Some(problem) => println!("WRONG {name}: {what}: {problem}"),
        }
    }
    is_good
}

/// Whether the destination exists, and this token may read its marks and send to it.
async fn destination_of(service: &Service, destination: &str) -> Finding {
    let what = format!("destination {destination} at {}", service.url());
    if let Err(error) = service.call(Call::get(&path_of(destination, "sources"))).await {
        return (what, Some(format!("{error:#}")));
    }
    (what, may_send(service, destination).await.err().map(|fault| fault.to_string()))
}

/// Prints where each source is.
pub async fn status(settings: &Settings) -> anyhow::Result<()> {
    let service = settings.reseq.service()?;
    for source in &settings.sources {
        let opened = match source.sources(settings).await? {
            Ok(opened) => opened,
            Err(problem) => {
                println!("{}: {problem}", source.name);
                continue;
            }
        };
        for (label, mut opened) in opened {
            match status_of(&service, source, &label, opened.as_mut()).await {
                Ok(lines) => println!("{}", lines.join("\n")),
                Err(problem) => println!("{label}: {problem}"),
            }
        }
    }
    Ok(())
}

async fn status_of(
    service: &Service,
    settings: &SourceSettings,
    label: &str,
    source: &mut dyn Source,
) -> Result<Vec<String>, String> {
    let name = source.name().await.map_err(|fault| fault.to_string())?;
    let (mut lines, mut oldest) = (Vec::new(), None);
    for destination in &settings.destinations {
        let shown = match mark_of(service, destination, &name).await {
            Err(error) => format!("{error:#}"),
            Ok(mark) => {
                let shown = mark.clone().unwrap_or_else(|| "no mark".to_owned());
                oldest = oldest.into_iter().chain(mark).min();
                shown
            }
        };
        lines.push(format!("  {destination}: {shown}"));
    }
    let health = source.health(&oldest.unwrap_or_default()).await;
    let Health { lag, problem, halted } = health.map_err(|fault| fault.to_string())?;
    let problems = halted.into_iter().chain(problem).map(|problem| format!("  {problem}"));
    let first = format!("{label} ({name}): {lag} {} behind", source.unit());
    Ok([first].into_iter().chain(problems).chain(lines).collect())
}
