import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { AGENT_METRICS } from '../agent/src/local-api/routes/probes/metrics.ts';
import { createMetrics } from '../src/telemetry/metrics.ts';
import { CONTROLLER_METRICS } from '../src/telemetry/table.ts';
import { ROWS } from './dashboard.ts';
import { ROOT } from './paths.ts';

/** Dashboard, alerts, runbooks and metrics are consistent: none names what another one does not have. */
interface Rule {
  alert: string;
  expr: string;
  labels: { severity: string };
  annotations: Record<string, string>;
}
const RUNBOOKS = join(ROOT, 'docs/runbooks');
const { groups } = parse(readFileSync(join(ROOT, 'charts/skerry/monitoring/alerts.yaml'), 'utf8')) as {
  groups: { rules: Rule[] }[];
};
const rules = groups.flatMap((group) => group.rules);

const specs = [...Object.values(CONTROLLER_METRICS), ...Object.values(AGENT_METRICS)];
const ofTheProcess = (await createMetrics().registry.getMetricsAsJSON()).map(({ name }) => name);
/** series -> labels */
const known = new Map<string, string[]>(ofTheProcess.map((name) => [name, []]));
for (const { name, type, labels } of specs) {
  const names = Object.keys(labels);
  if (type !== 'histogram') known.set(name, names);
  else for (const suffix of ['bucket', 'sum', 'count']) known.set(`${name}_${suffix}`, names);
}

const seriesIn = (expression: string) => expression.match(/\b(skerry|edge_agent|workqueue|process|nodejs)_\w+/g) ?? [];

const expressions: [string, string][] = [
  ...rules.map(({ alert, expr }): [string, string] => [`alert ${alert}`, expr]),
  ...ROWS.flatMap(({ panels }) =>
    panels.flatMap(({ title, queries }) =>
      Object.values(queries).map((query): [string, string] => [`panel "${title}"`, query]),
    ),
  ),
];

test.each(expressions)('%s uses only metrics that exist', (_name, expression) => {
  const series = seriesIn(expression);
  expect(series.length).toBeGreaterThan(0);
  for (const name of series) expect([...known.keys()]).toContain(name);
});

test.each(expressions)('%s uses only labels that its metrics have', (_name, expression) => {
  const labels = new Set(seriesIn(expression).flatMap((name) => known.get(name) ?? []));
  const used = [
    ...[...expression.matchAll(/(\w+)\s*(?:=~|!~|!=|=)\s*"/g)].map(([, label = '']) => label),
    ...[...expression.matchAll(/\b(?:by|on)\s*\(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(',')),
  ].map((label) => label.trim());
  for (const label of used.filter((each) => each && each !== 'le' && each !== 'instance'))
    expect([...labels]).toContain(label);
});

test.each(rules.map((rule) => [rule.alert, rule] as const))(
  'the alert %s has a severity, a summary and a runbook',
  (alert, rule) => {
    expect(alert).toMatch(/^Skerry[A-Z]\w+$/);
    expect(['critical', 'warning']).toContain(rule.labels.severity);
    expect(rule.annotations.summary).toMatch(/^[A-Z]/);
    expect(rule.annotations.description).toMatch(/\.$/);
    expect(rule.annotations.runbook_url).toBe(`docs/runbooks/${alert}.md`);
  },
);

describe('runbooks', () => {
  const pages = readdirSync(RUNBOOKS).filter((name) => name.endsWith('.md'));

  test('exist for exactly the alerts', () => {
    expect(pages.sort()).toEqual(rules.map(({ alert }) => `${alert}.md`).sort());
  });

  test.each(pages)('%s has meaning, impact, diagnosis with commands, and mitigation', (page) => {
    const text = readFileSync(join(RUNBOOKS, page), 'utf8');
    expect(text).toMatch(
      /^# Skerry\w+\n\n## Meaning\n\n\S[\s\S]+\n## Impact\n\n\S[\s\S]+\n## Diagnosis\n\n {4}\S[\s\S]+\n## Mitigation\n\n- \S/,
    );
    for (const [, target = ''] of text.matchAll(/\]\(([^)#]+)/g))
      expect(existsSync(join(RUNBOOKS, target)), target).toBe(true);
  });
});
