// What is wrong with the deployment, and what to do about it.
import { api, ask } from "../api.ts";
import { count, time } from "../format.ts";
import { Button, Empty, ErrorNotice, Head, Panel, Table, useLoad } from "../ui.tsx";

export function DoctorPage() {
  const { value: report, error, isBusy, again } = useLoad(() => ask(api.GET("/v1/doctor")), []);
  const missing = new Map((report?.not_checked ?? []).map((one) => [one.check, one.reason]));
  return (
    <>
      <Head title="Doctor" sub={report ? `${count(report.checks.length)} checks by pod ${report.pod}, Reseq ${report.version}, at ${time(report.checked_at)}` : error ? "" : "Reading …"}>
        <Button kind="main" disabled={isBusy} onClick={again}>Check again</Button>
      </Head>
      <ErrorNotice error={error} />
      {report && (
        <>
          <Panel title="Findings">
            {report.findings.length === 0 ? <Empty>{missing.size ? `${count(report.checks.length - missing.size)} checks have passed, and ${count(missing.size)} could not be made.` : "All checks have passed."}</Empty> : (
              <Table label="Findings">
                <thead><tr><th>Severity</th><th>Check</th><th>About</th><th>Found</th><th>What to do</th></tr></thead>
                <tbody>
                  {report.findings.map((one, at) => (
                    <tr key={at}>
                      <td><span class={`tag ${one.severity === "error" ? "is-bad" : ""}`}>{one.severity}</span></td>
                      <td><code>{one.check}</code></td>
                      <td><code>{one.subject}</code></td>
                      <td>{one.summary}</td>
                      <td>{one.action}</td>
                    </tr>
                  ))}
                </tbody>
              </Table>
            )}
          </Panel>
          <Panel title="Checks">
            <ul class="checks">
              {report.checks.map((check) => {
                const found = report.findings.filter((one) => one.check === check);
                const isBad = found.some((one) => one.severity === "error");
                return (
                  <li key={check}>
                    <code>{check}</code>{" "}
                    {found.length > 0 && <span class={`tag ${isBad ? "is-bad" : ""}`}>{count(found.length)} found</span>}
                    {missing.has(check) ? <span class="not-checked">not checked: {missing.get(check)}</span> : found.length === 0 && <span class="muted">passed</span>}
                  </li>
                );
              })}
            </ul>
          </Panel>
        </>
      )}
    </>
  );
}
