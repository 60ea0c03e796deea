import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { createAgentMetrics, metricsPage } from '../agent/src/local-api/routes/probes/metrics-page.ts';
import { createMetrics } from '../src/telemetry/metrics.ts';
import { createOpsServer } from '../src/telemetry/ops-server.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { ROWS } from './dashboard.ts';
import { ROOT } from './paths.ts';
import { startClock } from './progress.ts';
import { findPromtool } from './promtool.ts';

/** Alert rules and dashboard, tested with promtool: they parse, and alerts fire when they should and only then. */
const RULES = join(ROOT, 'charts/skerry/monitoring/alerts.yaml');
let promtool: string;
const dir = temporaryFolder();

beforeAll(async () => {
  promtool = await findPromtool(startClock((text) => process.stderr.write(text)));
}, 900_000);

const run = (...args: string[]) =>
  new Promise<{ code: number; output: string }>((resolve) => {
    execFile(promtool, args, { cwd: dir, timeout: 120_000, maxBuffer: 16 * 1024 * 1024 }, (error, stdout, stderr) =>
      resolve({ code: error ? 1 : 0, output: stdout + stderr }),
    );
  });

type Series = Readonly<Record<string, string>>;
const UP = { 'skerry_build_info{version="1",instance="a"}': '1x120' };
const BUCKETS = 'skerry_agent_send_delay_seconds_bucket';

/**
 * Alert -> series, one sample per minute: a case in which it fires within the hour, and a similar one in which it does not.
 * `a+bxn` is a, a+b, ... n times, as promtool writes it.
 */
const CASES: Record<string, { fires: Series; silent: Series }> = {
  SkerryControllerDown: { fires: {}, silent: UP },
  SkerryNoLeader: {
    fires: { ...UP, 'skerry_leader{lease="skerry-controller",instance="a"}': '0x120' },
    silent: {
      ...UP,
      'skerry_build_info{version="1",instance="b"}': '1x120',
      'skerry_leader{lease="skerry-controller",instance="a"}': '1x120',
      'skerry_leader{lease="skerry-controller",instance="b"}': '0x120',
    },
  },
  SkerryBudgetNearlyUsedUp: {
    fires: { 'skerry_budget_used{budget="content"}': '71x120', 'skerry_budget_limit{budget="content"}': '100x120' },
    silent: {
      'skerry_budget_used{budget="content"}': '69x120',
      'skerry_budget_limit{budget="content"}': '100x120',
      'skerry_budget_used{budget="objects"}': '71x120',
      'skerry_budget_limit{budget="objects"}': '1000x120',
    },
  },
  SkerryWrongLogins: {
    fires: {
      'skerry_login_attempts_total{door="login",outcome="wrong"}': '0+20x120',
      'skerry_login_attempts_total{door="login",outcome="none"}': '0+20x120',
    },
    silent: {
      'skerry_login_attempts_total{door="login",outcome="wrong"}': '0+20x120',
      'skerry_login_attempts_total{door="login",outcome="passed"}': '0+600x120',
    },
  },
  SkerryAccountsLocked: {
    fires: { skerry_account_lockouts_total: '0+1x120' },
    silent: { skerry_account_lockouts_total: '0x45 1x75' },
  },
  SkerryLoginsRefused: {
    fires: { 'skerry_login_attempts_total{door="login",outcome="refused"}': '0+60x120' },
    silent: {
      'skerry_login_attempts_total{door="login",outcome="refused"}': '0+10x120',
      'skerry_login_attempts_total{door="login",outcome="wrong"}': '0+60x120',
    },
  },
  SkerryRefreshTokensReused: {
    fires: { 'skerry_token_refreshes_total{outcome="reuse"}': '0x45 1x75' },
    silent: { 'skerry_token_refreshes_total{outcome="late"}': '0+5x120' },
  },
  SkerrySigningKeyOld: {
    fires: { 'skerry_signing_key_age_seconds{instance="a"}': '40000000x120' },
    silent: { 'skerry_signing_key_age_seconds{instance="a"}': '30000000x120' },
  },
  SkerryIdentityProviderDown: {
    fires: {
      'skerry_identity_provider_up{instance="a"}': '1x120',
      'skerry_identity_provider_up{instance="b"}': '0x120',
    },
    silent: { 'skerry_identity_provider_up{instance="a"}': '1x120' },
  },
  SkerryMassSilence: {
    fires: { 'skerry_mass_silence{instance="a"}': '1x120' },
    silent: { 'skerry_mass_silence{instance="a"}': '0x120' },
  },
  SkerryNodesSilent: {
    fires: { 'skerry_nodes{state="RUNNING"}': '90x120', 'skerry_nodes{state="UNKNOWN"}': '10x120' },
    silent: {
      'skerry_nodes{state="RUNNING"}': '97x120',
      'skerry_nodes{state="UNKNOWN"}': '3x120',
      'skerry_nodes{state="NOT_PROVISIONED"}': '900x120',
    },
  },
  SkerryAgentUpdatesFailed: {
    fires: { 'skerry_agent_updates{reason="UpdateFailed"}': '1x120' },
    silent: { 'skerry_agent_updates{reason="Downloading"}': '7x120' },
  },
  SkerryCertificatesNotRenewed: {
    fires: { 'skerry_certificates{state="overdue"}': '1x120' },
    silent: { 'skerry_certificates{state="valid"}': '7x120', 'skerry_certificates{state="overdue"}': '0x120' },
  },
  SkerryNodePlatformsFailed: {
    fires: { 'skerry_node_platforms{phase="Failed"}': '2x120' },
    silent: { 'skerry_node_platforms{phase="Failed"}': '0x120', 'skerry_node_platforms{phase="Progressing"}': '9x120' },
  },
  SkerryBusHubBehind: {
    fires: { 'skerry_bus_hub_servers{state="behind"}': '1x120' },
    silent: { 'skerry_bus_hub_servers{state="behind"}': '0x120', 'skerry_bus_hub_servers{state="current"}': '3x120' },
  },
  SkerryBusAccountsNotReady: {
    fires: { 'skerry_bus_accounts{ready="False"}': '2x120' },
    silent: { 'skerry_bus_accounts{ready="True"}': '9x120', 'skerry_bus_accounts{ready="False"}': '0x120' },
  },
  SkerryBusFormerKeys: {
    fires: { skerry_bus_former_keys: '1x120' },
    silent: { skerry_bus_former_keys: '0x120' },
  },
  SkerryRouterHubBehind: {
    fires: { 'skerry_router_hubs{state="behind"}': '1x120' },
    silent: { 'skerry_router_hubs{state="current"}': '1x120' },
  },
  SkerryRoutersBehind: {
    fires: { 'skerry_routers{state="behind"}': '10x120', 'skerry_routers{state="current"}': '90x120' },
    silent: { 'skerry_routers{state="behind"}': '2x120', 'skerry_routers{state="current"}': '98x120' },
  },
  SkerryServicesNotReady: {
    fires: { 'skerry_services{ready="False",reason="RouterNone"}': '2x120' },
    silent: { 'skerry_services{ready="True",reason="Usable"}': '9x120' },
  },
  SkerryServiceListenersDown: {
    fires: { 'skerry_service_listeners{state="down"}': '20x120', 'skerry_service_listeners{state="up"}': '80x120' },
    silent: { 'skerry_service_listeners{state="down"}': '5x120', 'skerry_service_listeners{state="up"}': '95x120' },
  },
  SkerryApplicationsNotReady: {
    fires: { 'skerry_applications{ready="False",reason="CrashLooping"}': '2x120' },
    silent: { 'skerry_applications{ready="True",reason="AllRunning"}': '2x120' },
  },
  SkerryMicroservicesRestarting: {
    fires: { 'skerry_microservice_restarts{instance="a"}': '0+2x120' },
    silent: { 'skerry_microservice_restarts{instance="a"}': '500x120' },
  },
  SkerryChangesToldLate: {
    fires: {
      [`${BUCKETS}{le="1"}`]: '0+1x120',
      [`${BUCKETS}{le="5"}`]: '0+10x120',
      [`${BUCKETS}{le="+Inf"}`]: '0+10x120',
    },
    silent: {
      [`${BUCKETS}{le="1"}`]: '0+10x120',
      [`${BUCKETS}{le="5"}`]: '0+10x120',
      [`${BUCKETS}{le="+Inf"}`]: '0+10x120',
    },
  },
  SkerryAgentsRefused: {
    fires: { 'skerry_agent_refusals_total{code="AGENT_NODE_NOT_FOUND"}': '0+60x120' },
    silent: {
      'skerry_agent_refusals_total{code="AGENT_NODE_NOT_FOUND"}': '0+1x120',
      'skerry_agent_refusals_total{code="NOT_READY"}': '0+600x120',
    },
  },
  SkerryReconcileErrors: {
    fires: { 'skerry_reconcile_duration_seconds_count{controller="application",outcome="error"}': '0+60x120' },
    silent: { 'skerry_reconcile_duration_seconds_count{controller="application",outcome="conflict"}': '0+600x120' },
  },
  SkerryReconcileOverdue: {
    fires: { 'skerry_reconcile_overdue{controller="application"}': '1x120' },
    silent: { 'skerry_reconcile_overdue{controller="application"}': '0x120' },
  },
  SkerryQueueBacklog: {
    fires: { 'workqueue_depth{name="application"}': '500x120' },
    silent: { 'workqueue_depth{name="application"}': '5000x5 0x115' },
  },
  SkerryApiServerErrors: {
    fires: {
      'skerry_apiserver_request_duration_seconds_count{code="200"}': '0+10x120',
      'skerry_apiserver_request_duration_seconds_count{code="ECONNREFUSED"}': '0+10x120',
    },
    silent: {
      'skerry_apiserver_request_duration_seconds_count{code="200"}': '0+100x120',
      'skerry_apiserver_request_duration_seconds_count{code="409"}': '0+100x120',
      'skerry_apiserver_request_duration_seconds_count{code="500"}': '0+1x120',
    },
  },
  SkerryRelisting: {
    fires: { 'skerry_watch_restarts_total{resource="edgenodes",reason="expired",next="relist"}': '0+1x120' },
    silent: { 'skerry_watch_restarts_total{resource="edgenodes",reason="closed",next="resume"}': '0+1x120' },
  },
  SkerryUnhandledRejections: {
    fires: { 'skerry_unhandled_rejections_total{instance="a"}': '0x30 1x90' },
    silent: {
      'skerry_unhandled_rejections_total{instance="a"}': '0x120',
      'edge_agent_unhandled_rejections_total{instance="b"}': '3x120',
    },
  },
  SkerryRestErrors: {
    fires: {
      'skerry_http_request_duration_seconds_count{code="200"}': '0+10x120',
      'skerry_http_request_duration_seconds_count{code="503"}': '0+10x120',
    },
    silent: {
      'skerry_http_request_duration_seconds_count{code="200"}': '0+10x120',
      'skerry_http_request_duration_seconds_count{code="404"}': '0+90x120',
    },
  },
  SkerryControllerSaturated: {
    fires: { ...UP, 'nodejs_eventloop_lag_p99_seconds{instance="a"}': '0.8x120' },
    silent: { ...UP, 'nodejs_eventloop_lag_p99_seconds{instance="of somebody else"}': '0.8x120' },
  },
  SkerryAgentOffline: {
    fires: {
      'edge_agent_controller_connected{instance="m"}': '0x120',
      'edge_agent_provisioned{instance="m"}': '1x120',
    },
    silent: {
      'edge_agent_controller_connected{instance="m"}': '0x120',
      'edge_agent_provisioned{instance="m"}': '0x120',
    },
  },
  SkerryAgentEngineLost: {
    fires: { 'edge_agent_engine_connected{instance="m"}': '0x120' },
    silent: { 'edge_agent_engine_connected{instance="m"}': '1x120' },
  },
  SkerryAgentDiskFull: {
    fires: {
      'edge_agent_disk_available_bytes{instance="m"}': '5x120',
      'edge_agent_disk_size_bytes{instance="m"}': '100x120',
    },
    silent: {
      'edge_agent_disk_available_bytes{instance="m"}': '50x120',
      'edge_agent_disk_size_bytes{instance="m"}': '100x120',
    },
  },
  SkerryAgentStoreErrors: {
    fires: { 'edge_agent_store_errors_total{instance="m"}': '0x50 1x70' },
    silent: { 'edge_agent_store_errors_total{instance="m"}': '7x120' },
  },
  SkerryAgentClockOff: {
    fires: { 'edge_agent_clock_offset_seconds{instance="m"}': '-90x120' },
    silent: { 'edge_agent_clock_offset_seconds{instance="m"}': '20x120' },
  },
  SkerryAgentPullsFailing: {
    fires: { 'edge_agent_pulls_total{instance="m",outcome="ImageNotFound"}': '0+1x120' },
    silent: { 'edge_agent_pulls_total{instance="m",outcome="ok"}': '0+1x120' },
  },
};

test('promtool accepts the alert rules', async () => {
  const { code, output } = await run('check', 'rules', '--lint-fatal', RULES);
  expect(code, output).toBe(0);
});

test('promtool accepts every query of the dashboard', async () => {
  const queries = ROWS.flatMap(({ panels }) => panels.flatMap((panel) => Object.values(panel.queries)));
  const rules = queries.map((query, index) => ({
    record: `panel:query:${index}`,
    expr: query.replaceAll('$__rate_interval', '5m'),
  }));
  await writeFile(join(dir, 'dashboard.yaml'), stringify({ groups: [{ name: 'dashboard', rules }] }));
  const { code, output } = await run('check', 'rules', '--lint=none', 'dashboard.yaml');
  expect(code, output).toBe(0);
  expect(output).toContain(`${queries.length} rules found`);
});

/** What promtool says of a page of metrics. */
function checked(page: string): Promise<{ code: number; output: string }> {
  const { promise, resolve } = Promise.withResolvers<{ code: number; output: string }>();
  const child = execFile(promtool, ['check', 'metrics'], { timeout: 60_000 }, (error, stdout, stderr) =>
    resolve({ code: Number(error?.code ?? 0), output: stdout + stderr }),
  );
  child.stdin?.end(page);
  return promise;
}

test('promtool reads what a leader serves to a scraper, and finds fault with names of the library alone', async () => {
  const metrics = createMetrics({ version: '1.2.3' });
  metrics.fleetFrom(() => ({
    nodes: new Map([['RUNNING', 9]]),
    nodesReady: [{ ready: 'True', reason: 'AgentRunning', count: 9 }],
    // Agents choose their versions.
    agentVersions: new Map([['1"2\n\\', 9]]),
    agentUpdates: new Map([['Downloading', 1]]),
    nodePlatforms: new Map([['Failed', 1]]),
    certificates: new Map([['overdue', 1]]),
    busServers: new Map([['behind', 1]]),
    busAccounts: new Map([['False', 1]]),
    busFormerKeys: 1,
    routers: new Map([['behind', 7]]),
    routerHubs: new Map([['behind', 1]]),
    services: new Map([['False RouterNone', 8]]),
    serviceListeners: new Map([['down', 9]]),
    contactAges: [1, 2],
    applications: [{ ready: 'True', reason: 'AllRunning', count: 1 }],
    microservices: new Map([['RUNNING', 5]]),
    microserviceRestarts: 3,
    objects: new Map([['EdgeNode', 9]]),
    storedBytes: new Map([['EdgeNode', 9_000]]),
    budgets: { content: { used: 0, limit: 64 } },
  }));
  metrics.httpRequest({ route: '/node-list', method: 'GET', code: '200' }, 0.2);
  metrics.reconciled({ controller: 'edge-node', outcome: 'done' }, 0.1);
  await using server = createOpsServer({ registry: metrics.registry, ready: async () => undefined, bound() {} });
  const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
  const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const { code, output } = await checked(page);
  // 3: it was read, and a name is not as promtool would have it.
  expect(code, output).toBe(3);
  const known = /^(nodejs_\w+_total non-counter|skerry_node_contact_age_seconds non-summary)/;
  expect(output.split('\n').filter((line) => line !== '' && !known.test(line))).toEqual([]);
  expect((await checked(`${page}skerry_nodes{state=} 1\n`)).code).toBe(1);
});

test('promtool reads what an agent serves, and finds no fault', async () => {
  const page = await metricsPage({
    metrics: createAgentMetrics(),
    startedAt: 0,
    clockOffset: 0,
    identity: {},
    connection: { state: 'OK', lastContact: 1 },
    supervisor: { engine: { state: 'connected' }, pending: 0 },
    machine: { measure: async () => ({ systemAvailableDisk: 1, systemTotalDisk: 2, diskUsage: 1 }) },
    artifacts: () => [],
    microservices: () => [{ id: '1', status: 'RUNNING', application: 'a"b', name: 'c\\d' }],
  });
  expect(await checked(page)).toEqual({ code: 0, output: '' });
});

test('every alert has a test case', async () => {
  const { groups } = parse(await readFile(RULES, 'utf8')) as { groups: { rules: { alert: string }[] }[] };
  expect(Object.keys(CASES).sort()).toEqual(groups.flatMap(({ rules }) => rules.map(({ alert }) => alert)).sort());
});

test('each alert fires in its case, and not in the similar one', async () => {
  const tests = Object.entries(CASES).flatMap(([alert, { fires, silent }]) =>
    [['fires', fires, 1] as const, ['stays silent', silent, 0] as const].map(([how, series, want]) => ({
      name: `${alert} ${how}`,
      interval: '1m',
      input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
      promql_expr_test: [
        {
          expr: `(count(ALERTS{alertname="${alert}",alertstate="firing"}) > bool 0) or vector(0)`,
          eval_time: '55m',
          exp_samples: [{ labels: '{}', value: want }],
        },
      ],
    })),
  );
  await writeFile(join(dir, 'tests.yaml'), stringify({ rule_files: [RULES], evaluation_interval: '1m', tests }));
  const { code, output } = await run('test', 'rules', 'tests.yaml');
  expect(code, output).toBe(0);
}, 180_000);
