/** The Grafana dashboard, made from a table of panels, the most important ones first. */

interface Panel {
  title: string;
  kind: 'stat' | 'timeseries';
  /** unit, by Grafana's name */
  unit: string;
  /** legend -> expression */
  queries: Readonly<Record<string, string>>;
  /** description of the panel */
  about?: string;
}

interface Row {
  title: string;
  panels: readonly Panel[];
}

const RATE = '[$__rate_interval]';
const quantile = (q: number, histogram: string, by = '') =>
  `histogram_quantile(${q}, sum by (le${by}) (rate(${histogram}_bucket${RATE})))`;

export const ROWS: readonly Row[] = [
  {
    title: 'Fleet',
    panels: [
      { title: 'Nodes', kind: 'stat', unit: 'short', queries: { '{{state}}': 'sum by (state) (skerry_nodes)' } },
      {
        title: 'Applications by Ready',
        kind: 'stat',
        unit: 'short',
        queries: { '{{ready}}': 'sum by (ready) (skerry_applications)' },
      },
      {
        title: 'Why applications are not ready',
        kind: 'timeseries',
        unit: 'short',
        queries: { '{{reason}}': 'sum by (reason) (skerry_applications{ready!="True"})' },
      },
      {
        title: 'Microservices by state',
        kind: 'timeseries',
        unit: 'short',
        queries: { '{{state}}': 'sum by (state) (skerry_microservices)' },
      },
      {
        title: 'Nodes by state',
        kind: 'timeseries',
        unit: 'short',
        queries: { '{{state}}': 'sum by (state) (skerry_nodes)' },
      },
      {
        title: 'Agents by version',
        kind: 'timeseries',
        unit: 'short',
        queries: { '{{version}}': 'sum by (version) (skerry_agent_versions)' },
      },
      {
        title: 'Updates of agents',
        kind: 'timeseries',
        unit: 'short',
        queries: { '{{reason}}': 'sum by (reason) (skerry_agent_updates)' },
        about: 'Under way by what they wait for, and failed.',
      },
      {
        title: 'Restarts after crashes',
        kind: 'timeseries',
        unit: 'short',
        queries: { restarts: 'sum(skerry_microservice_restarts)' },
        about: 'As the live nodes report them; falls when a microservice is rebuilt.',
      },
    ],
  },
  {
    title: 'How far agents lag',
    panels: [
      {
        title: 'Age of the last contact',
        kind: 'timeseries',
        unit: 's',
        queries: { 'quantile {{quantile}}': 'max by (quantile) (skerry_node_contact_age_seconds)' },
        about: 'Up to a minute is the rhythm of long polls.',
      },
      {
        title: 'Change seen to node told',
        kind: 'timeseries',
        unit: 's',
        queries: {
          median: quantile(0.5, 'skerry_agent_send_delay_seconds'),
          '99 %': quantile(0.99, 'skerry_agent_send_delay_seconds'),
        },
      },
      {
        title: 'Change of an application to Ready',
        kind: 'timeseries',
        unit: 's',
        queries: {
          median: quantile(0.5, 'skerry_application_ready_lag_seconds'),
          '99 %': quantile(0.99, 'skerry_application_ready_lag_seconds'),
        },
      },
      {
        title: 'Polls held',
        kind: 'timeseries',
        unit: 'short',
        queries: { '{{instance}}': 'skerry_agent_long_polls' },
      },
      {
        title: 'How long polls end',
        kind: 'timeseries',
        unit: 'ops',
        queries: { '{{outcome}}': `sum by (outcome) (rate(skerry_agent_long_polls_ended_total${RATE}))` },
      },
      {
        title: 'Requests of agents, and refusals',
        kind: 'timeseries',
        unit: 'reqps',
        queries: {
          '{{kind}}': `sum by (kind) (rate(skerry_agent_requests_total${RATE}))`,
          'refused: {{code}}': `sum by (code) (rate(skerry_agent_refusals_total${RATE}))`,
        },
      },
    ],
  },
  {
    title: 'Routers and services',
    panels: [
      {
        title: 'Services by Ready',
        kind: 'stat',
        unit: 'short',
        queries: { '{{ready}}': 'sum by (ready) (skerry_services)' },
      },
      {
        title: 'Why services are not ready',
        kind: 'timeseries',
        unit: 'short',
        queries: { '{{reason}}': 'sum by (reason) (skerry_services{ready!="True"})' },
      },
      {
        title: 'Listeners of services',
        kind: 'timeseries',
        unit: 'short',
        queries: { '{{state}}': 'sum by (state) (skerry_service_listeners)' },
        about: 'At the default router and at the nodes that select the services. Those of silent nodes are down.',
      },
      {
        title: 'Routers',
        kind: 'timeseries',
        unit: 'short',
        queries: {
          'nodes: {{state}}': 'sum by (state) (skerry_routers)',
          'default router: {{state}}': 'sum by (state) (skerry_router_hubs)',
        },
      },
    ],
  },
  {
    title: 'Controller',
    panels: [
      {
        title: 'Replicas, and who leads',
        kind: 'stat',
        unit: 'short',
        queries: { replicas: 'count(skerry_build_info)', leaders: 'sum(skerry_leader)' },
      },
      {
        title: 'Reconciles, 99 %',
        kind: 'timeseries',
        unit: 's',
        queries: { '{{controller}}': quantile(0.99, 'skerry_reconcile_duration_seconds', ', controller') },
      },
      {
        title: 'Reconciles by outcome',
        kind: 'timeseries',
        unit: 'ops',
        queries: { '{{outcome}}': `sum by (outcome) (rate(skerry_reconcile_duration_seconds_count${RATE}))` },
      },
      {
        title: 'Queue depth',
        kind: 'timeseries',
        unit: 'short',
        queries: { '{{name}}': 'max by (name) (workqueue_depth)' },
      },
      {
        title: 'Retries',
        kind: 'timeseries',
        unit: 'ops',
        queries: { '{{name}}': `sum by (name) (rate(workqueue_retries_total${RATE}))` },
      },
      {
        title: 'Wait in the queue, 99 %',
        kind: 'timeseries',
        unit: 's',
        queries: { '{{name}}': quantile(0.99, 'workqueue_queue_duration_seconds', ', name') },
      },
      {
        title: 'API server: requests by code',
        kind: 'timeseries',
        unit: 'reqps',
        queries: { '{{code}}': `sum by (code) (rate(skerry_apiserver_request_duration_seconds_count${RATE}))` },
      },
      {
        title: 'API server: watches begun again',
        kind: 'timeseries',
        unit: 'ops',
        queries: { '{{reason}}, {{next}}': `sum by (reason, next) (rate(skerry_watch_restarts_total${RATE}))` },
      },
      {
        title: 'REST: requests by code',
        kind: 'timeseries',
        unit: 'reqps',
        queries: { '{{code}}': `sum by (code) (rate(skerry_http_request_duration_seconds_count${RATE}))` },
      },
      {
        title: 'REST, 99 %',
        kind: 'timeseries',
        unit: 's',
        queries: { '{{method}}': quantile(0.99, 'skerry_http_request_duration_seconds', ', method') },
      },
      {
        title: 'Memory',
        kind: 'timeseries',
        unit: 'bytes',
        queries: { '{{instance}}': 'process_resident_memory_bytes and on(instance) skerry_build_info' },
      },
      {
        title: 'Budgets of what users store',
        kind: 'timeseries',
        unit: 'percentunit',
        queries: {
          '{{budget}}': 'max by (budget) (skerry_budget_used) / max by (budget) (skerry_budget_limit)',
        },
        about: 'At 100 % users can create nothing more.',
      },
      {
        title: 'Event loop lag, 99 %',
        kind: 'timeseries',
        unit: 's',
        queries: { '{{instance}}': 'nodejs_eventloop_lag_p99_seconds and on(instance) skerry_build_info' },
      },
    ],
  },
  {
    title: 'Logins',
    panels: [
      {
        title: 'Attempts by outcome',
        kind: 'timeseries',
        unit: 'ops',
        queries: { '{{outcome}}': `sum by (outcome) (rate(skerry_login_attempts_total${RATE}))` },
        about: 'refused: 429, before a password was compared. none: no such account, or it is locked.',
      },
      {
        title: 'Refreshes by outcome',
        kind: 'timeseries',
        unit: 'ops',
        queries: { '{{outcome}}': `sum by (outcome) (rate(skerry_token_refreshes_total${RATE}))` },
      },
      {
        title: 'Locked accounts, in an hour',
        kind: 'stat',
        unit: 'short',
        queries: { accounts: 'sum(increase(skerry_account_lockouts_total[1h]))' },
      },
      {
        title: 'Passwords that wait, 99 %',
        kind: 'timeseries',
        unit: 's',
        queries: { wait: quantile(0.99, 'skerry_password_wait_seconds') },
      },
      {
        title: 'Users and their logins',
        kind: 'timeseries',
        unit: 'short',
        queries: {
          users: 'sum(skerry_objects{kind="AuthUser"})',
          logins: 'sum(skerry_login_sessions)',
          'in the browser': 'sum(skerry_login_interactions)',
        },
      },
      {
        title: 'Age of the signing key',
        kind: 'stat',
        unit: 's',
        queries: { age: 'max(skerry_signing_key_age_seconds)' },
      },
      {
        title: 'OpenID provider',
        kind: 'stat',
        unit: 'short',
        queries: { '{{instance}}': 'skerry_identity_provider_up' },
        about: '1: it can be asked. With AUTH_MODE=external alone.',
      },
    ],
  },
  {
    title: 'Agents that are scraped',
    panels: [
      {
        title: 'Connected',
        kind: 'stat',
        unit: 'short',
        queries: {
          controller: 'sum(edge_agent_controller_connected)',
          engine: 'sum(edge_agent_engine_connected)',
          agents: 'count(edge_agent_build_info)',
        },
      },
      {
        title: 'Starts by reason',
        kind: 'timeseries',
        unit: 'ops',
        queries: { '{{reason}}': `sum by (reason) (rate(edge_agent_starts_total${RATE}))` },
      },
      {
        title: 'Pulls by outcome',
        kind: 'timeseries',
        unit: 'ops',
        queries: { '{{outcome}}': `sum by (outcome) (rate(edge_agent_pulls_total${RATE}))` },
      },
      {
        title: 'Pulls, 90 %',
        kind: 'timeseries',
        unit: 's',
        queries: { pull: quantile(0.9, 'edge_agent_pull_duration_seconds') },
      },
      {
        title: 'Disk free',
        kind: 'timeseries',
        unit: 'percentunit',
        queries: { '{{instance}}': 'edge_agent_disk_available_bytes / edge_agent_disk_size_bytes' },
      },
      {
        title: 'Clock offset',
        kind: 'timeseries',
        unit: 's',
        queries: { '{{instance}}': 'edge_agent_clock_offset_seconds' },
      },
      {
        title: 'Memory of the agent',
        kind: 'timeseries',
        unit: 'bytes',
        queries: { '{{instance}}': 'edge_agent_resident_memory_bytes' },
      },
    ],
  },
];

const WIDTH = 8;
const HEIGHT = 7;

/** The dashboard as Grafana imports it. */
export function dashboard(): object {
  const panels: object[] = [];
  let y = 0;
  for (const row of ROWS) {
    panels.push({
      type: 'row',
      id: panels.length + 1,
      title: row.title,
      gridPos: { x: 0, y, w: 24, h: 1 },
      panels: [],
    });
    y++;
    row.panels.forEach((panel, index) => {
      const gridPos = { x: (index % 3) * WIDTH, y: y + Math.floor(index / 3) * HEIGHT, w: WIDTH, h: HEIGHT };
      panels.push(panelOf(panel, panels.length + 1, gridPos));
    });
    y += Math.ceil(row.panels.length / 3) * HEIGHT;
  }
  return {
    title: 'Skerry',
    uid: 'skerry',
    tags: ['skerry'],
    timezone: 'browser',
    schemaVersion: 39,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    templating: { list: [{ name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Data source' }] },
    panels,
  };
}

function panelOf({ title, kind, unit, queries, about }: Panel, id: number, gridPos: object): object {
  const datasource = { type: 'prometheus', uid: '$datasource' };
  return {
    type: kind,
    id,
    title,
    ...(about && { description: about }),
    gridPos,
    datasource,
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    ...(kind === 'stat' && { options: { colorMode: 'none', textMode: 'value_and_name' } }),
    targets: Object.entries(queries).map(([legendFormat, expr], index) => ({
      refId: String.fromCharCode(65 + index),
      datasource,
      expr,
      legendFormat,
      ...(kind === 'stat' && { instant: true }),
    })),
  };
}
