import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { API_VERSION } from '../src/api/names.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { findTools } from './binaries.ts';
import { findKubeScore, scoreChart } from './chart-score.ts';
import { type ControlPlane, installCrds, startControlPlane } from './control-plane.ts';
import { findHelm } from './helm.ts';
import { type Kube, type KubeObject, kubeFromFile } from './kube.ts';
import { LAST_CHART } from './last-release.ts';
import { ROOT } from './paths.ts';
import { startClock } from './progress.ts';
import { waitFor } from './wait.ts';

/**
 * The chart with a real helm, on a cluster of its own: lint, template, install and uninstall. Nothing there runs jobs; what
 * those of the chart do is in e2e/installation.test.ts and e2e/cluster.test.ts.
 */
const run = promisify(execFile);
const CHART = join(ROOT, 'charts/skerry');
let helm: string;
let cluster: ControlPlane;
let kube: Kube;
const dir = temporaryFolder();

beforeAll(async () => {
  helm = await findHelm(startClock((text) => process.stderr.write(text)));
  cluster = await startControlPlane({ dir, namespace: 'edge' });
  kube = await kubeFromFile(cluster.kubeconfig);
  await installCrds(cluster.kubeconfig);
}, 900_000);
afterAll(async () => {
  kube?.close();
  await cluster?.stop();
});

const helmWith = async (...args: string[]) => {
  const env = {
    ...process.env,
    KUBECONFIG: cluster.kubeconfig,
    HELM_CACHE_HOME: dir,
    HELM_CONFIG_HOME: dir,
    HELM_DATA_HOME: dir,
  };
  const { stdout } = await run(helm, args, { env });
  return stdout;
};
const render = async (...args: string[]): Promise<KubeObject[]> => {
  const text = await helmWith('template', 'skerry', CHART, '--namespace', 'edge', ...args);
  return parseAllDocuments(text).map((document) => document.toJS() as KubeObject);
};

/** Values that the schema has and the chart does not: Helm gives `global` to every chart of a larger one. */
const NOT_IN_THE_CHART = { global: 'for charts that this one is part of' };

interface Setting {
  path: string[];
  value: unknown;
}

/** The settings of a values file; lists and objects without members are one setting. */
const leavesOf = (value: unknown, path: string[] = []): Setting[] =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0
    ? Object.entries(value).flatMap(([name, member]) => leavesOf(member, [...path, name]))
    : [{ path, value }];

function otherThan(value: unknown): unknown {
  if (typeof value === 'boolean') return !value;
  if (typeof value === 'number') return value - 1;
  return typeof value === 'string' ? 'other' : undefined;
}

const ROUTER = 'relay.router.hosts=["router"]';
const TUNNEL = ['tunnel.host="bastion"', 'tunnel.username="tunnel"', 'tunnel.secretName="tunnels"'];
const PROVIDER = [
  'auth.provider.issuerUrl="https://login.example"',
  'auth.provider.clientId="skerry"',
  'auth.existingSecret="login"',
];
const EXTERNAL = [...PROVIDER, 'auth.mode="external"'];
/** Another value of a setting, where its type alone does not give one, and the settings that it needs beside it. */
const SETTINGS: Readonly<Record<string, { to?: unknown; beside?: readonly string[] }>> = {
  'image.pullPolicy': { to: 'Always' },
  imagePullSecrets: { to: [{ name: 'pull' }] },
  controlPlane: { to: 'remote' },
  logLevel: { to: 'debug' },
  releasesUrl: { to: 'https://releases.example' },
  releasesKey: { to: '-----BEGIN PUBLIC KEY-----' },
  releasesVolume: { to: { emptyDir: {} } },
  systemImages: { to: { bus: { arm: 'mirror.example/bus:1' } } },
  'bus.hub.create': { to: false, beside: ['bus.enabled=true'] },
  'bus.hub.replicas': { to: 1, beside: ['bus.enabled=true'] },
  'bus.hub.image': { to: 'mirror.example/nats:1', beside: ['bus.enabled=true'] },
  'bus.hub.serviceType': { to: 'NodePort', beside: ['bus.enabled=true'] },
  'bus.hub.storageClass': { to: 'fast', beside: ['bus.enabled=true'] },
  'routers.hub.create': { to: false, beside: ['routers.enabled=true'] },
  'routers.hub.image': { to: 'mirror.example/router:1', beside: ['routers.enabled=true'] },
  'routers.hub.serviceType': { to: 'NodePort', beside: ['routers.enabled=true'] },
  'routers.bridgePorts': { to: '20000-30000', beside: ['routers.enabled=true'] },
  'routers.serviceTag': { to: 'plant/service', beside: ['routers.enabled=true'] },
  'routers.dialServices': { beside: ['routers.enabled=true'] },
  'service.type': { to: 'NodePort' },
  'service.nodePort': { to: 30_001, beside: ['service.type="NodePort"'] },
  'service.externalTrafficPolicy': { to: 'Cluster', beside: ['service.type="NodePort"'] },
  'service.annotations': { to: { a: 'b' } },
  'networkPolicy.metricsFrom': { to: [{ namespaceSelector: {} }] },
  'tls.certificate.hosts': { to: ['a.example'], beside: ['tls.certificate.create=true'] },
  'tls.authorityKey': { to: 'ca.crt', beside: ['tls.secretName="tls"'] },
  'tls.intermediateKey': { to: 'between.crt', beside: ['tls.secretName="tls"'] },
  'auth.mode': { to: 'external', beside: PROVIDER },
  'auth.consoleUrl': { to: 'https://console.example' },
  'auth.existingSecret': { beside: EXTERNAL },
  'auth.bootstrap.username': { to: 'root', beside: ['auth.existingSecret="login"'] },
  'auth.rateLimit.enabled': {},
  'auth.rateLimit.maxRequests': { to: 30 },
  'auth.rateLimit.windowMs': { to: 30_000 },
  'auth.accessTokenSeconds': { to: 300 },
  'auth.refreshTokenSeconds': { to: 7200 },
  'auth.provider.issuerUrl': { to: 'https://other.example', beside: EXTERNAL },
  'auth.provider.clientId': { beside: EXTERNAL },
  'auth.provider.authorityKey': { to: 'ca.crt', beside: EXTERNAL },
  'relay.defaultRouter': { beside: ['routers.enabled=true'] },
  'relay.router.hosts': { to: ['router'] },
  'relay.router.secretName': { to: 'router', beside: [ROUTER] },
  'relay.bus.urls': { to: ['nats://bus:4222'] },
  'relay.bus.secretName': { to: 'bus', beside: ['relay.bus.urls=["nats://bus:4222"]'] },
  'relay.bus.key': { beside: ['relay.bus.urls=["nats://bus:4222"]', 'relay.bus.secretName="bus"'] },
  'relay.required': { beside: [ROUTER] },
  'relay.failFast': { beside: [ROUTER] },
  'tunnel.host': { beside: TUNNEL.slice(1) },
  'tunnel.username': { beside: TUNNEL },
  'tunnel.secretName': { beside: TUNNEL },
  'tunnel.ports': { to: '3000-3004', beside: TUNNEL },
  'tunnel.localPort': { beside: TUNNEL },
  nodeSelector: { to: { a: 'b' } },
  tolerations: { to: [{ operator: 'Exists' }] },
  affinity: { to: { nodeAffinity: {} } },
  'monitoring.labels': { to: { a: 'b' }, beside: ['monitoring.dashboard=true'] },
  'monitoring.runbooks': { beside: ['monitoring.rulesConfigMap=true'] },
};

test('helm lint accepts the chart', async () => {
  expect(await helmWith('lint', '--strict', CHART)).toContain('0 chart(s) failed');
});

test('kube-score finds nothing in the chart but what is left out on purpose', async () => {
  const kubeScore = await findKubeScore(startClock((text) => process.stderr.write(text)));
  expect(scoreChart({ helm, kubeScore })).toBeUndefined();
}, 600_000);

describe('the notes after an installation', () => {
  const notes = async (...args: string[]) => {
    const text = await helmWith(
      'install',
      'skerry',
      CHART,
      '--namespace',
      'edge',
      '--dry-run=client',
      '--no-hooks',
      ...args,
    );
    return text.slice(text.indexOf('NOTES:'));
  };

  test('name the next steps: the replicas, the jobs, and the first machine with the address that it reaches', async () => {
    const values = [
      'publicUrl=https://skerry.example:30121',
      'releasesUrl=https://r.example',
      'tls.authorityKey=ca.crt',
    ];
    const text = await notes(...values.flatMap((value) => ['--set', value]));
    for (const command of [
      'kubectl -n edge rollout status deployment/skerry-controller',
      'kubectl -n edge logs job/skerry-crds',
      'kubectl skerry provision NODE --create --namespace edge --controller https://skerry.example:30121 --ca ca.crt',
    ])
      expect(text).toContain(`  ${command}\n`);
    expect(text).not.toContain('releasesVolume');
  });

  test('say that machines need an address, and that there are no packages for them', async () => {
    const text = await notes();
    expect(text).toContain('--controller https://HOST:PORT\n');
    expect(text).toContain('publicUrl is not set');
    expect(text).toContain('Neither releasesVolume nor releasesUrl is set');
  });
});

describe('the chart renders', () => {
  test.each(['NodePort', 'LoadBalancer'])(
    'a new Service of type %s that shows the controller the addresses of clients',
    async (type) => {
      const policy = async (...args: string[]) =>
        (await render('--set', `service.type=${type}`, ...args)).find(({ kind }) => kind === 'Service')?.spec as object;
      expect(await policy()).toMatchObject({ externalTrafficPolicy: 'Local' });
      expect(await policy('--set', 'service.externalTrafficPolicy=Cluster')).toMatchObject({
        externalTrafficPolicy: 'Cluster',
      });
    },
  );

  test('everything into the namespace of the release', async () => {
    const objects = await render();
    const kinds = new Set(objects.map(({ kind }) => kind));
    for (const kind of [
      'Deployment',
      'Service',
      'ServiceAccount',
      'Role',
      'RoleBinding',
      'ClusterRole',
      'ValidatingAdmissionPolicy',
    ])
      expect(kinds).toContain(kind);
    const namespaces = new Set(objects.map(({ metadata }) => metadata.namespace).filter(Boolean));
    expect([...namespaces]).toEqual(['edge']);
    expect(JSON.stringify(objects)).not.toContain('of-the-release');
  });

  test('no roles and policies when they are disabled', async () => {
    const names = (await render('--set', 'roles.create=false', '--set', 'admissionPolicies.create=false')).map(
      ({ metadata }) => metadata.name,
    );
    expect(names).not.toContain('skerry-viewer');
    expect(names).toContain('skerry-controller');
  });

  test('roles that are bound to the groups of its values', async () => {
    const text = JSON.stringify(await render('--set', 'roles.groups=shore'));
    expect(text).toContain('"shore:admin"');
    expect(text).not.toContain('skerry:admin');
  });

  test("a controller that trusts a proxy's address of the client only when the values enable it", async () => {
    const env = async (...args: string[]) =>
      JSON.stringify((await render(...args)).filter(({ kind }) => kind === 'Deployment'));
    expect(await env()).not.toContain('TRUST_PROXY');
    expect(await env('--set', 'trustProxy=true')).toContain('{"name":"TRUST_PROXY","value":"true"}');
    expect(await env('--set', 'tokenAudience=plant')).toContain('{"name":"SKERRY_TOKEN_AUDIENCE","value":"plant"}');
  });

  test('the place of releases when the values name it', async () => {
    const env = async (...args: string[]) =>
      JSON.stringify((await render(...args)).filter(({ kind }) => kind === 'Deployment'));
    expect(await env()).not.toContain('SKERRY_RELEASES_URL');
    const url = 'https://releases.example/agent';
    expect(await env('--set', `releasesUrl=${url}`)).toContain(`{"name":"SKERRY_RELEASES_URL","value":"${url}"}`);
    await expect(env('--set', 'releasesUrl=ftp://x')).rejects.toThrow(/releasesUrl/);
    await expect(env('--set', 'releasesKey=secret')).rejects.toThrow(/releasesKey/);
  });

  test('images of the system when the values name them', async () => {
    const env = async (...args: string[]) =>
      JSON.stringify((await render(...args)).filter(({ kind }) => kind === 'Deployment'));
    expect(await env()).not.toContain('_IMAGE_');
    expect(await env('--set', 'systemImages.bus.arm=mirror.example/bus:1')).toContain(
      '{"name":"BUS_IMAGE_4","value":"mirror.example/bus:1"}',
    );
    await expect(env('--set', 'systemImages.bus.sparc=x')).rejects.toThrow(/sparc/);
  });

  test('services, with the right to make Services of the cluster, when the values switch routers on', async () => {
    const all = async (...args: string[]) => {
      const objects = await render(...args);
      const deployments = JSON.stringify(objects.filter(({ kind }) => kind === 'Deployment'));
      const roles = objects.filter(({ metadata: { name } }) => name === 'skerry-controller-services');
      const env = deployments.match(/"(ROUTERS|BRIDGE|SERVICE_ANN)[A-Z_]+","value":"[^"]*"/g) ?? [];
      return { env, roles: roles.map(({ kind }) => kind) };
    };
    expect(await all()).toEqual({ env: [], roles: [] });
    expect(await all('--set', 'routers.enabled=true,routers.serviceTag=plant')).toEqual({
      env: [
        '"ROUTERS_ENABLED","value":"true"',
        '"BRIDGE_PORTS_RANGE","value":"10024-65535"',
        '"SERVICE_ANNOTATION_TAG","value":"plant"',
      ],
      roles: ['Role', 'RoleBinding'],
    });
    await expect(all('--set', 'routers.bridgePorts=10024')).rejects.toThrow(/bridgePorts/);
  });

  test('the servers of the hub of the message bus, with the rights for them, when the values switch the bus on', async () => {
    const all = async (...args: string[]) => {
      const objects = await render(...args);
      const env = JSON.stringify(objects.filter(({ kind }) => kind === 'Deployment')).match(
        /"BUS_[A-Z_]+","value":"[^"]*"/g,
      );
      const roles = objects
        .filter(({ metadata: { name } }) => name === 'skerry-controller-bus-hub')
        .map(({ kind }) => kind);
      return { env: env ?? [], roles };
    };
    expect(await all()).toEqual({ env: [], roles: [] });
    const enabled = '"BUS_ENABLED","value":"true"';
    expect(await all('--set', 'bus.enabled=true,bus.hub.serviceType=LoadBalancer')).toEqual({
      env: [enabled, '"BUS_HUB_REPLICAS","value":"3"', '"BUS_HUB_SERVICE_TYPE","value":"LoadBalancer"'],
      roles: ['Role', 'RoleBinding'],
    });
    expect(await all('--set', 'bus.enabled=true,bus.hub.create=false')).toEqual({ env: [enabled], roles: [] });
    await expect(all('--set', 'bus.hub.replicas=9')).rejects.toThrow(/replicas/);
  });

  test('the default router, with the rights for it, when the values switch routers on', async () => {
    const all = async (...args: string[]) => {
      const objects = await render(...args);
      const env = JSON.stringify(objects.filter(({ kind }) => kind === 'Deployment')).match(
        /"ROUTERS?_[A-Z_]+","value":"[^"]*"/g,
      );
      const roles = objects
        .filter(({ metadata: { name } }) => name === 'skerry-controller-router-hub')
        .map(({ kind }) => kind);
      return { env: env ?? [], roles };
    };
    expect(await all()).toEqual({ env: [], roles: [] });
    const enabled = '"ROUTERS_ENABLED","value":"true"';
    const image = 'mirror.example/router:3';
    expect(
      await all('--set', `routers.enabled=true,routers.hub.serviceType=NodePort,routers.hub.image=${image}`),
    ).toEqual({
      env: [
        enabled,
        '"ROUTER_HUB","value":"true"',
        '"ROUTER_HUB_SERVICE_TYPE","value":"NodePort"',
        `"ROUTER_HUB_IMAGE","value":"${image}"`,
      ],
      roles: ['Role', 'RoleBinding'],
    });
    expect(await all('--set', 'routers.enabled=true,routers.hub.create=false')).toEqual({ env: [enabled], roles: [] });
    await expect(all('--set', 'routers.hub.replicas=2')).rejects.toThrow(/replicas/);
  });

  test('what is between replicas when the values name a router or the bus, and when it is required', async () => {
    const env = async (...args: string[]) =>
      JSON.stringify((await render(...args)).filter(({ kind }) => kind === 'Deployment'));
    expect(await env('--set', 'relay.required=false')).not.toMatch(/SKERRY_RELAY|WS_HA/);
    const router = await env('--set', 'relay.router.hosts={a,b:5672}', '--set', 'relay.router.secretName=certificates');
    expect(router).toContain('{"name":"SKERRY_RELAY_ROUTER","value":"a,b:5672"}');
    expect(router).toContain('{"name":"SKERRY_RELAY_ROUTER_CERTIFICATES","value":"/relay/router"}');
    expect(router).toContain('{"name":"WS_HA_CROSS_REPLICA_REQUIRES_AMQP","value":"true"}');
    const bus = await env(
      '--set',
      'relay.bus.urls={nats://bus:4222}',
      '--set',
      'relay.required=false,relay.failFast=false',
    );
    expect(bus).toContain('{"name":"SKERRY_RELAY_BUS","value":"nats://bus:4222"}');
    expect(bus).toContain('{"name":"WS_HA_CROSS_REPLICA_REQUIRES_AMQP","value":"false"}');
    expect(bus).toContain('{"name":"WS_HA_FAIL_FAST_ON_ROUTER_UNAVAILABLE","value":"false"}');
    const own = await env('--set', 'relay.defaultRouter=true,routers.enabled=true');
    expect(own).toContain('{"name":"SKERRY_RELAY_DEFAULT_ROUTER","value":"true"}');
    expect(own).toContain('{"name":"WS_HA_CROSS_REPLICA_REQUIRES_AMQP","value":"true"}');
    await expect(env('--set', 'relay.defaultRouter=true')).rejects.toThrow(/needs routers.enabled/);
    await expect(env('--set', 'relay.defaultRouter=true,routers.enabled=true,relay.router.hosts={a}')).rejects.toThrow(
      /excludes relay.router.hosts/,
    );
    await expect(env('--set-string', 'relay.required=no')).rejects.toThrow(/required/);
    expect(await env('--set', 'budgets.contentMiB=128')).toContain(
      '{"name":"SKERRY_BUDGET_CONTENT_MIB","value":"128"}',
    );
    expect(await env('--set', 'sessions.maxSockets=20000')).toContain(
      '{"name":"WS_REPLICA_MAX_CONCURRENT_WS","value":"20000"}',
    );
  });

  test('the ssh server of tunnels, which needs a user and a Secret', async () => {
    const all = ['host=bastion.example:2222', 'username=tunnel', 'secretName=tunnels'];
    const set = (values: readonly string[]) => values.flatMap((value) => ['--set', `tunnel.${value}`]);
    const text = JSON.stringify((await render(...set(all))).find(({ kind }) => kind === 'Deployment'));
    for (const [name, value] of [
      ['TUNNEL_HOST', 'bastion.example:2222'],
      ['TUNNEL_PORT_RANGE', '2000-10000'],
      ['TUNNEL_LOCAL_PORT', '22'],
    ])
      expect(text).toContain(`{"name":"${name}","value":"${value}"}`);
    expect(JSON.stringify(await render())).not.toContain('TUNNEL');
    await expect(render(...set(all.slice(0, 1)))).rejects.toThrow(/tunnel/);
  });

  test('one name for all replicas, from the values or the release, and for each replica the name of its pod', async () => {
    const env = async (...args: string[]) =>
      JSON.stringify((await render(...args)).find(({ kind }) => kind === 'Deployment'));
    expect(await env()).toContain('{"name":"CONTROLLER_NAME","value":"skerry"}');
    expect(await env('--set', 'controllerName=plant-3')).toContain('{"name":"CONTROLLER_NAME","value":"plant-3"}');
    expect(await env()).toContain('{"name":"POD_NAME","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}');
    await expect(env('--set', 'controllerName=plant 3')).rejects.toThrow(/controllerName/);
  });

  test('TLS when the values name a certificate', async () => {
    const deployment = async (...args: string[]) =>
      JSON.stringify((await render('--set', 'tls.secretName=cert', ...args)).find(({ kind }) => kind === 'Deployment'));
    expect(await deployment()).toContain('{"name":"TLS_PATH_CERT","value":"/tls/tls.crt"}');
    expect(await deployment()).not.toContain('TLS_PATH_CA');
    expect(await deployment('--set', 'tls.authorityKey=ca.crt')).toContain(
      '{"name":"TLS_PATH_CA","value":"/tls/ca.crt"}',
    );
  });

  test('TLS with a certificate that the controller makes, for its Service and the hosts of the values', async () => {
    const deployment = async (...args: string[]) =>
      JSON.stringify(
        (await render('--set', 'tls.certificate.create=true', ...args)).find(({ kind }) => kind === 'Deployment'),
      );
    const service = 'skerry,skerry.edge,skerry.edge.svc,skerry.edge.svc.cluster.local';
    expect(await deployment()).toContain(`{"name":"SKERRY_TLS_HOSTS","value":"${service}"}`);
    expect(await deployment()).not.toMatch(/TLS_PATH|"tls"/);
    expect(await deployment('--set', 'tls.certificate.hosts={skerry.example,10.0.0.5}')).toContain(
      `"value":"${service},skerry.example,10.0.0.5"`,
    );
  });

  test('an OpenID provider, whose client has its secret and the authority from a Secret', async () => {
    const values = ['auth.mode=external', 'auth.existingSecret=login', 'auth.provider.clientId=skerry'];
    const given = values.flatMap((value) => ['--set', value]);
    await expect(render(...given)).rejects.toThrow(/auth.mode external needs auth.provider.issuerUrl/);
    const all = await render(
      ...given,
      '--set',
      'auth.provider.issuerUrl=https://login.example,auth.provider.authorityKey=ca.crt',
    );
    const deployment = JSON.stringify(all.find(({ kind }) => kind === 'Deployment'));
    expect(deployment).toContain(
      '{"name":"OIDC_CLIENT_SECRET","valueFrom":{"secretKeyRef":{"name":"login","key":"clientSecret"}}}',
    );
    expect(deployment).toContain('{"name":"SKERRY_OIDC_CA_FILE","value":"/auth/ca.crt"}');
    expect(deployment).toContain('"items":[{"key":"ca.crt","path":"ca.crt"}]');
    expect(deployment).toContain('{"name":"SKERRY_GROUPS_PREFIX","value":"skerry"}');
  });

  test.each([
    ['a Secret', 'tls.certificate.create=true,tls.secretName=cert', /tls.certificate.create excludes tls.secretName/],
    [
      'an authority',
      'tls.certificate.create=true,tls.authorityKey=ca.crt',
      /excludes tls.secretName and tls.authorityKey/,
    ],
    ['hosts alone', 'tls.certificate.hosts={a.example}', /tls.certificate.hosts needs tls.certificate.create/],
    ['two hosts in one', 'tls.certificate.create=true,tls.certificate.hosts={"a b"}', /hosts/],
  ])('no certificate of the controller beside %s', async (_, values, refusal) => {
    await expect(render('--set', values)).rejects.toThrow(refusal);
  });

  test('pods that a Prometheus finds by their annotations, unless the values switch them off', async () => {
    const pods = async (...args: string[]) =>
      JSON.stringify((await render(...args)).find(({ kind }) => kind === 'Deployment'));
    expect(await pods()).toContain(
      '"annotations":{"prometheus.io/scrape":"true","prometheus.io/port":"51122","prometheus.io/path":"/metrics"}',
    );
    expect(await pods('--set', 'monitoring.annotations=false')).not.toContain('prometheus.io');
  });

  test('no objects of the Prometheus operator and no dashboard by default', async () => {
    const names = (await render()).map(({ kind, metadata }) => `${kind}/${metadata.name}`);
    for (const absent of ['PodMonitor/skerry', 'PrometheusRule/skerry', 'ConfigMap/skerry-dashboard'])
      expect(names).not.toContain(absent);
  });

  test('scraping, alert rules and dashboard when they are enabled', async () => {
    const wanted = ['podMonitor', 'prometheusRule', 'rulesConfigMap', 'dashboard'].flatMap((name) => [
      '--set',
      `monitoring.${name}=true`,
    ]);
    const objects = (await render(
      ...wanted,
      '--set',
      'monitoring.runbooks=https://wiki.example.com/skerry/',
      '--set',
      'monitoring.labels.release=monitoring',
    )) as (KubeObject & { spec: { groups: unknown }; data: Record<string, string> })[];
    const find = (kind: string, name: string) =>
      objects.find((each) => each.kind === kind && each.metadata.name === name);
    const rules = parse(
      readFileSync(join(CHART, 'monitoring/alerts.yaml'), 'utf8').replaceAll(
        'docs/runbooks',
        'https://wiki.example.com/skerry',
      ),
    );
    expect(find('PrometheusRule', 'skerry')?.spec).toEqual(rules);
    expect(parse(find('ConfigMap', 'skerry-alert-rules')?.data['skerry.rules.yaml'] ?? '')).toEqual(rules);
    expect(JSON.stringify(rules)).toContain('https://wiki.example.com/skerry/SkerryNoLeader.md');
    const dashboard = find('ConfigMap', 'skerry-dashboard');
    expect(dashboard?.metadata.labels).toEqual({ grafana_dashboard: '1', release: 'monitoring' });
    expect(JSON.parse(dashboard?.data['skerry.json'] ?? '').title).toBe('Skerry');
    expect(JSON.stringify(find('PodMonitor', 'skerry')?.spec)).toContain('"port":"metrics"');
  });

  test('with the values of docs/production-checklist.md, and the API server accepts every object of it', async () => {
    const page = readFileSync(join(ROOT, 'docs/production-checklist.md'), 'utf8');
    const [, values = ''] = /```yaml\n([\s\S]*?)```/.exec(page) ?? [];
    await writeFile(join(dir, 'values.yaml'), values);
    const args = ['--namespace', 'edge', '--values', join(dir, 'values.yaml')];
    await writeFile(join(dir, 'objects.yaml'), await helmWith('template', 'skerry', CHART, ...args));
    const { kubectl } = await findTools(['kubectl']);
    const dryRun = ['apply', '--server-side', '--dry-run=server', '-f', join(dir, 'objects.yaml')];
    const { stdout } = await run(kubectl, ['--kubeconfig', cluster.kubeconfig, ...dryRun]);
    expect(stdout).toContain('deployment.apps/skerry-controller serverside-applied (server dry run)');
    expect(stdout).toContain('configmap/skerry-alert-rules serverside-applied');
  });

  test('other manifests for another value of each of its settings', async () => {
    const rendered = new Map<string, Promise<string>>();
    const asText = (values: readonly string[]) => {
      const key = values.join();
      const known = rendered.get(key);
      if (known) return known;
      const made = render(...values.flatMap((value) => ['--set-json', value])).then((all) => JSON.stringify(all));
      rendered.set(key, made);
      return made;
    };
    const settings = leavesOf(parse(readFileSync(join(CHART, 'values.yaml'), 'utf8')));
    const { properties } = JSON.parse(readFileSync(join(CHART, 'values.schema.json'), 'utf8'));
    expect(settings.map(({ path }) => path[0])).toEqual(
      expect.arrayContaining(Object.keys(properties).filter((name) => !Object.hasOwn(NOT_IN_THE_CHART, name))),
    );
    const idle: string[] = [];
    for (const { path, value } of settings) {
      const name = path.join('.');
      const { to = otherThan(value), beside = [] } = SETTINGS[name] ?? {};
      if (to === undefined) throw new Error(`a row of SETTINGS is missing: another value of ${name}`);
      const before = await asText(beside);
      if ((await asText([...beside, `${name}=${JSON.stringify(to)}`])) === before) idle.push(name);
    }
    expect(idle).toEqual([]);
  }, 300_000);

  test('nothing when it gets unknown values', async () => {
    await expect(render('--set', 'replica=3')).rejects.toThrow(/replica/);
  });
});

test('the chart is installed on a real API server, and uninstalled', async () => {
  await helmWith('install', 'skerry', CHART, '--namespace', 'edge', '--no-hooks');
  expect(await kube.get('/apis/apps/v1/namespaces/edge/deployments/skerry-controller')).toBeDefined();
  await helmWith('uninstall', 'skerry', '--namespace', 'edge', '--no-hooks');
  expect(await kube.get('/apis/apps/v1/namespaces/edge/deployments/skerry-controller')).toBeUndefined();
}, 120_000);

test('helm upgrade from the chart of the last release, with the values of before, leaves what a new installation has', async () => {
  const values = [
    '--set',
    'replicas=3',
    '--set',
    'service.type=NodePort',
    '--set',
    'image.repository=mirror.example/skerry',
  ];
  const at = ['--namespace', 'edge', '--no-hooks'];
  await helmWith('install', 'skerry', LAST_CHART, ...at, '--skip-crds', ...values);
  await helmWith('upgrade', 'skerry', CHART, ...at, '--reset-then-reuse-values');
  const upgraded = await helmWith('get', 'manifest', 'skerry', '--namespace', 'edge');
  // All nodes of the cluster still answer, as agents may expect by now.
  const asNew = await render('--no-hooks', ...values, '--set', 'service.externalTrafficPolicy=Cluster');
  expect(parseAllDocuments(upgraded).map((document) => document.toJS())).toEqual(asNew);
  const { spec } = (await kube.get<KubeObject & { spec: { replicas: number } }>(
    '/apis/apps/v1/namespaces/edge/deployments/skerry-controller',
  )) ?? { spec: undefined };
  expect(spec?.replicas).toBe(3);
  await helmWith('rollback', 'skerry', '1', '--namespace', 'edge', '--no-hooks');
  await helmWith('uninstall', 'skerry', '--namespace', 'edge', '--no-hooks');
}, 120_000);

test('the controller creates Secrets, and none with a token of a service account', async () => {
  await helmWith('install', 'skerry', CHART, '--namespace', 'edge', '--no-hooks');
  const { kubectl } = await findTools(['kubectl']);
  const create = async (type: string) => {
    const metadata = { generateName: 'x-', annotations: { 'kubernetes.io/service-account.name': 'skerry-controller' } };
    const path = join(dir, 'secret.yaml');
    await writeFile(path, JSON.stringify({ apiVersion: 'v1', kind: 'Secret', metadata, type }));
    const args = [
      'create',
      '--dry-run=server',
      '--namespace',
      'edge',
      '--as',
      'system:serviceaccount:edge:skerry-controller',
    ];
    return run(kubectl, ['--kubeconfig', cluster.kubeconfig, ...args, '-f', path]).then(
      () => 'created',
      (error: Error) => error.message,
    );
  };
  // policies take effect some time after they are stored
  const refused = async () =>
    (await create('kubernetes.io/service-account-token')).includes('no tokens of service accounts');
  await waitFor(refused, { what: 'the policies to act' });
  expect(await create('Opaque')).toBe('created');
  await helmWith('uninstall', 'skerry', '--namespace', 'edge', '--no-hooks');
}, 120_000);

test('two releases in one cluster do not affect each other, and uninstalling one leaves the other complete', async () => {
  const create = (namespace: string) =>
    kube
      .request('POST', `/apis/${API_VERSION}/namespaces/${namespace}/applications?dryRun=All`, {
        apiVersion: API_VERSION,
        kind: 'Application',
        metadata: { name: 'plant-a' },
        spec: {},
      })
      .then(
        () => 'created',
        (error: Error) => error.message,
      );
  const refused = async (namespace: string) => (await create(namespace)).includes('elsewhere nobody would reconcile');
  await helmWith('install', 'skerry', CHART, '--namespace', 'edge', '--no-hooks');
  await helmWith('install', 'shore', CHART, '--namespace', 'shore', '--create-namespace', '--no-hooks');
  // policies take effect some time after they are stored
  await waitFor(() => refused('default'), { what: 'the policies to act' });
  expect([await create('edge'), await create('shore')]).toEqual(['created', 'created']);
  await helmWith('uninstall', 'skerry', '--namespace', 'edge', '--no-hooks');
  await waitFor(() => refused('edge'), { what: 'the namespace without a controller to be refused' });
  expect(await create('shore')).toBe('created');
  await helmWith('uninstall', 'shore', '--namespace', 'shore', '--no-hooks');
}, 120_000);
