//! The commands `check` and `status`.

use client::Service;
use futures::{TryFutureExt, future::try_join_all};

use crate::{
    outlet::{all_or_none, is_not_replaced, mark_of, marks_of, may_send},
    settings::{Settings, SourceSettings},
    source::{Fault, Finding, Health, Source},
};

/// Checks everything, and prints each finding. False if there is a problem. Changes nothing.
pub async fn check(settings: &Settings) -> anyhow::Result<bool> {
    let service = settings.reseq.service()?;
    let mut is_good = true;
    for source in &settings.sources {
        let mut found = Vec::new();
        for destination in &source.destinations {
            let what = format!("destination {destination} at {}", service.url());
            let read = marks_of(&service, destination, None);
            let sent = read.and_then(|_| may_send(&service, destination));
            found.push((what, sent.await.err()));
        }
        let opened = source.sources(settings).await.unwrap_or_else(|problem| {
            found.push(("the source".to_owned(), Some(Fault::Halted(problem.to_string()))));
            Vec::new()
        });
        for (_, mut opened) in opened {
            let (oldest, problem) = examine_marks(&service, source, opened.as_mut()).await;
            found.push(("its marks".to_owned(), problem));
            found.extend(opened.check(oldest.as_deref()).await);
        }
        is_good &= print(&source.name, found);
    }
    #[cfg(feature = "kafka")]
    for sink in &settings.sinks {
        let found = crate::kafka::check_sink(sink, settings.kafka()?, &service).await;
        is_good &= print(&sink.name, found);
    }
    Ok(is_good)
}

/// The oldest mark of a source, if a destination has one; and why a run would not go on from the marks, if so.
async fn examine_marks(
    service: &Service,
    settings: &SourceSettings,
    source: &mut dyn Source,
) -> (Option<String>, Option<Fault>) {
    let destinations = &settings.destinations;
    let read = async {
        let name = source.name().await?;
        let all = destinations.iter().map(|destination| mark_of(service, destination, &name));
        let marks = try_join_all(all).await?;
        Ok((name, marks))
    };
    let (name, marks) = match read.await {
        Ok(read) => read,
        Err(fault) => return (None, Some(fault)),
    };
    let mut problem = all_or_none(&name, destinations, &marks).err();
    let oldest = marks.into_iter().flatten().min();
    if oldest.is_none() {
        let replaced = destinations.iter().map(|one| is_not_replaced(service, one, &name));
        problem = try_join_all(replaced).await.err();
    }
    (oldest, problem)
}

/// Prints findings. False if there is a problem.
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

/// Prints how far each source is.
pub async fn status(settings: &Settings) -> anyhow::Result<()> {
    let service = settings.reseq.service()?;
    for source in &settings.sources {
        let opened = source.sources(settings).await.unwrap_or_else(|problem| {
            println!("{}: {problem}", source.name);
            Vec::new()
        });
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
) -> Result<Vec<String>, Fault> {
    let name = source.name().await?;
    let (mut lines, mut oldest) = (Vec::new(), None);
    for destination in &settings.destinations {
        let shown = match mark_of(service, destination, &name).await {
            Err(fault) => fault.to_string(),
            Ok(mark) => {
                oldest = oldest.into_iter().chain(mark.clone()).min();
                mark.unwrap_or_else(|| "no mark".to_owned())
            }
        };
        lines.push(format!("  {destination}: {shown}"));
    }
    let Health { lag, unit, problem, halted, .. } =
        source.health(&oldest.unwrap_or_default()).await?;
    let problems = halted.into_iter().chain(problem).map(|problem| format!("  {problem}"));
    let first = format!("{label} ({name}): {lag} {unit} behind");
    Ok([first].into_iter().chain(problems).chain(lines).collect())
}
