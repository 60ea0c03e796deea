import { describe, expect, test } from 'vitest';
import { AGENT_METRICS } from '../../agent/src/local-api/routes/probes/metrics.ts';

import type { MetricSpec } from '../lib/metric-table.ts';

import { createMetrics, type FleetFigures } from './metrics.ts';
import { CONTROLLER_METRICS } from './table.ts';

/** What Prometheus asks of names, and what we promise of the page. */
const TABLES: Record<string, readonly MetricSpec[]> = {
  controller: Object.values(CONTROLLER_METRICS),
  agent: Object.values(AGENT_METRICS),
};

for (const [program, specs] of Object.entries(TABLES))
  describe(`metrics of the ${program}`, () => {
    test('have unique names', () => {
      expect(new Set(specs.map(({ name }) => name)).size).toBe(specs.length);
    });
    for (const { name, type, labels, unit, help, buckets } of specs)
      test(`${name} follows the conventions`, () => {
        expect(name).toMatch(program === 'agent' ? /^edge_agent_[a-z_]+$/ : /^(skerry|workqueue)_[a-z_]+$/);
        expect(name.endsWith('_total'), 'counters alone end in _total').toBe(type === 'counter');
        if (unit.startsWith('seconds')) expect(name).toMatch(/_seconds(_total)?$/);
        if (unit === 'bytes') expect(name).toMatch(/_bytes(_total)?$/);
        expect(name).not.toMatch(/milli|_ms|minutes|percent|_mib|_gib/);
        expect(help).toMatch(/^[A-Z0-9].*\.$/);
        expect(buckets !== undefined, 'histograms alone have buckets').toBe(type === 'histogram');
        expect([...(buckets ?? [])].sort((a, b) => a - b)).toEqual(buckets ?? []);
        for (const label of Object.keys(labels)) expect(label).toMatch(/^[a-z]+$/);
        // Names of objects would make as many series as there are objects; on one machine they are few.
        if (program === 'controller')
          for (const label of Object.keys(labels)) expect(['node', 'uuid', 'application', 'pod']).not.toContain(label);
      });
  });

const figures: FleetFigures = {
  nodes: new Map([
    ['RUNNING', 998],
    ['UNKNOWN', 2],
  ]),
  nodesReady: [{ ready: 'Unknown', reason: 'NodeUnreachable', count: 2 }],
  agentVersions: new Map([['0.2.0', 990]]),
  agentUpdates: new Map([['Downloading', 1]]),
  contactAges: Array.from({ length: 100 }, (_, index) => index + 1),
  applications: [{ ready: 'True', reason: 'AllRunning', count: 7 }],
  microservices: new Map([['RUNNING', 5000]]),
  microserviceRestarts: 3,
  nodePlatforms: new Map([['Failed', 3]]),
  certificates: new Map([['overdue', 4]]),
  busServers: new Map([['behind', 2]]),
  busAccounts: new Map([['False', 5]]),
  busFormerKeys: 6,
  routers: new Map([['behind', 7]]),
  routerHubs: new Map([['behind', 1]]),
  services: new Map([['False RouterNone', 8]]),
  serviceListeners: new Map([['down', 9]]),
  objects: new Map([['EdgeNode', 1000]]),
  storedBytes: new Map([['EdgeNode', 2_000_000]]),
  budgets: { objects: { used: 2_000_000, limit: 64_000_000 } },
};

test('a leader computes the metrics of the fleet at each scrape', async () => {
  const metrics = createMetrics({ version: '1.2.3' });
  let asked = 0;
  metrics.fleetFrom(() => {
    asked++;
    return figures;
  });
  expect(asked).toBe(0);
  const page = await metrics.registry.metrics();
  expect(asked).toBe(1);
  for (const line of [
    'skerry_nodes{state="RUNNING"} 998',
    'skerry_nodes{state="UNKNOWN"} 2',
    'skerry_nodes_by_ready{ready="Unknown",reason="NodeUnreachable"} 2',
    'skerry_agent_versions{version="0.2.0"} 990',
    'skerry_agent_updates{reason="Downloading"} 1',
    'skerry_node_contact_age_seconds{quantile="0.5"} 50',
    'skerry_node_contact_age_seconds{quantile="0.99"} 99',
    'skerry_node_contact_age_seconds{quantile="1"} 100',
    'skerry_applications{ready="True",reason="AllRunning"} 7',
    'skerry_microservices{state="RUNNING"} 5000',
    'skerry_microservice_restarts 3',
    'skerry_node_platforms{phase="Failed"} 3',
    'skerry_certificates{state="overdue"} 4',
    'skerry_bus_hub_servers{state="behind"} 2',
    'skerry_bus_accounts{ready="False"} 5',
    'skerry_bus_former_keys 6',
    'skerry_routers{state="behind"} 7',
    'skerry_router_hubs{state="behind"} 1',
    'skerry_services{ready="False",reason="RouterNone"} 8',
    'skerry_service_listeners{state="down"} 9',
    'skerry_objects{kind="EdgeNode"} 1000',
    'skerry_stored_bytes{kind="EdgeNode"} 2000000',
    'skerry_budget_used{budget="objects"} 2000000',
    'skerry_budget_limit{budget="objects"} 64000000',
    'skerry_build_info{version="1.2.3"} 1',
  ])
    expect(page).toContain(`${line}\n`);
});

test('a replica that no longer leads has no metrics of the fleet', async () => {
  const metrics = createMetrics();
  let now: FleetFigures | undefined = figures;
  metrics.fleetFrom(() => now);
  await metrics.registry.metrics();
  now = undefined;
  const page = await metrics.registry.metrics();
  expect(page).not.toMatch(
    /^skerry_(nodes|nodes_by_ready|agent_versions|agent_updates|node_contact_age_seconds|applications|microservices|microservice_restarts|routers|router_hubs|services|service_listeners|objects|stored_bytes|budget_used|budget_limit)[ {]/m,
  );
});

test('the served metrics are those of the table', async () => {
  const page = await createMetrics().registry.metrics();
  for (const { name, type } of Object.values(CONTROLLER_METRICS)) expect(page).toContain(`# TYPE ${name} ${type}\n`);
  const own = [...page.matchAll(/^# TYPE (\S+)/gm)]
    .map(([, name = '']) => name)
    .filter((name) => !/^(process|nodejs)_/.test(name));
  expect(own.sort()).toEqual(
    Object.values(CONTROLLER_METRICS)
      .map(({ name }) => name)
      .sort(),
  );
});

test('each event of the agent channel and of reconcilers is counted by its metric', async () => {
  const metrics = createMetrics();
  metrics.agent('poll');
  metrics.agent('provision');
  metrics.agent('provision', 'new');
  metrics.agent('refused', 'AGENT_JWT_EXPIRED');
  metrics.agent('desired-state', 'computed');
  metrics.reconciled({ controller: 'application', outcome: 'conflict' }, 0.1);
  metrics.reconciled({ controller: 'application', outcome: 'done' }, 0.1);
  const page = await metrics.registry.metrics();
  for (const line of [
    'skerry_agent_requests_total{kind="poll"} 1',
    'skerry_agent_requests_total{kind="provision"} 1',
    'skerry_provisionings_total{outcome="new"} 1',
    'skerry_agent_refusals_total{code="AGENT_JWT_EXPIRED"} 1',
    'skerry_desired_states_total{source="computed"} 1',
    'workqueue_retries_total{name="application"} 1',
  ])
    expect(page).toContain(`${line}\n`);
});
