import { generateKeyPairSync } from 'node:crypto';
import { join } from 'node:path';
import { freePort } from '../hack/ports.ts';
import type { Daemon } from '../hack/process.ts';
import { LABELS } from '../src/api/names.ts';
import { isSignedBy, readCertificates, readPair } from '../src/subjects/pki/rules/pair.ts';
import { startFailpoints, type When } from './_failpoints.ts';
import { type ControllerProcess, createStack, type Stack, until } from './_stack.ts';

/**
 * The life of a few objects, with a real controller that is killed at one of its writes and started again. REST requests
 * without a response are repeated, as users do; kubectl does not notice.
 */
export interface Told {
  /** `VERB resource` of each write of the controller */
  writes: readonly string[];
  killedAt?: string;
  /** the objects in the end, without what differs from run to run */
  state: unknown;
  /** id -> the objects that had it */
  ids: Map<string, Set<string>>;
  /** acknowledged writes that are lost, writes carried out in part, and states that were never reached */
  wrongs: string[];
}

const PATH = '/apis/skerry.dev/v3/namespaces';

// biome-ignore lint/suspicious/noExplicitAny: objects of many kinds are looked at
type Any = any;

const numberOf = (one: Any): string | undefined => one.status?.id ?? one.metadata.labels?.['skerry.dev/id'];

export async function tellStory(kill?: { n: number; when: When }, dir = '/tmp'): Promise<Told> {
  await using stack = await createStack();
  await using points = await startFailpoints(
    stack.controllerKubeconfig,
    join(dir, `failpoints-${stack.namespace}.kubeconfig`),
  );
  const story = createStory(stack, points, join(dir, `failpoints-${stack.namespace}.kubeconfig`));
  if (kill) points.arm(kill.n, kill.when, story.strike);
  await story.run();
  // Awaited here, since the stack is disposed of when this function returns.
  return await story.told();
}

function createStory(stack: Stack, points: Awaited<ReturnType<typeof startFailpoints>>, kubeconfig: string) {
  const wrongs: string[] = [];
  const ids = new Map<string, Set<string>>();
  let killedAt: string | undefined;
  let daemon: Daemon | undefined;
  let controller: ControllerProcess;
  let port: string | undefined;

  const strike = () => {
    killedAt = `${points.writes.length}: ${points.writes.at(-1)}`;
    daemon?.signal('SIGKILL');
  };

  /** Starts a controller unless one runs, again when it is killed before it is ready. */
  async function up(): Promise<void> {
    if (daemon && !daemon.exit()) return;
    port ??= String(await freePort());
    for (let attempt = 1; ; attempt++) {
      try {
        controller = await stack.startController({
          env: { KUBECONFIG: kubeconfig, SERVER_PORT: port, LOG_LEVEL: 'info' },
          onStart: (started) => {
            daemon = started;
          },
        });
        return;
      } catch (error) {
        if (attempt === 3 || !daemon?.exit()) throw error;
      }
    }
  }

  /**
   * Repeats a write over REST until it gets a response. `there` returns whether an attempt without a response was carried
   * out; undefined means in part, which must not happen.
   */
  async function rest(method: string, path: string, body: unknown, there: () => Promise<boolean>): Promise<Any> {
    let unsure = false;
    for (;;) {
      await up();
      const answer = await stack
        .rest(controller)(method, path, body)
        .catch((error: Error) => {
          if (/fetch failed|terminated|socket|ECONN/i.test(`${error.message} ${error.cause}`)) return undefined;
          throw error;
        });
      if (!answer) {
        unsure = true;
        await daemon?.exited;
        continue;
      }
      if (answer.status === 503) {
        await new Promise((resolve) => setTimeout(resolve, 300));
        continue;
      }
      if (unsure && (answer.status === 409 || answer.status === 404) && (await there())) return undefined;
      if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
      if (!(await there())) wrongs.push(`${method} ${path} was answered ${answer.status} and is not so`);
      return answer.body;
    }
  }

  const read = (plural: string, name: string) => stack.kube.get<Any>(`${PATH}/${stack.namespace}/${plural}/${name}`);
  const list = async (path: string) => (await stack.kube.get<Any>(path))?.items ?? [];
  const ours = (plural: string) => list(`${PATH}/${stack.namespace}/${plural}`);
  const core = (plural: string) => list(`/api/v1/namespaces/${stack.namespace}/${plural}`);
  const isThere = (plural: string, name: string) => async () => (await read(plural, name)) !== undefined;
  const isGone = (plural: string, name: string) => async () => {
    const object = await read(plural, name);
    return object === undefined || object.metadata.deletionTimestamp !== undefined;
  };

  /** Waits until the check is true, and starts the controller again whenever it was killed. */
  async function settled(what: string, check: () => Promise<boolean>) {
    const holds = async () => {
      await up();
      return (await check().catch(() => false)) || undefined;
    };
    await until(what, holds, { timeoutMs: 120_000 }).catch(() => wrongs.push(`never: ${what}`));
  }

  const note = async () => {
    for (const plural of ['applications', 'registries'])
      for (const one of await ours(plural)) {
        const { metadata } = one;
        if (numberOf(one) === undefined) continue;
        const key = `${plural}/${numberOf(one)}`;
        ids.set(key, (ids.get(key) ?? new Set()).add(metadata.uid));
      }
  };

  const entry = (name: string, node: string, port: number) => ({
    name,
    agent: { name: node },
    images: { amd64: 'registry.example/app:1' },
    container: { ports: [{ internal: 80, external: port }] },
  });
  const flat = (name: string, node: string) => ({
    name,
    agentName: node,
    images: [{ archId: 1, containerImage: 'registry.example/app:1' }],
    config: '{}',
  });
  const apply = (kind: string, name: string, spec: object) =>
    stack.apply({ apiVersion: 'skerry.dev/v3', kind, metadata: { name }, spec });

  async function run() {
    await up();
    // kubectl: objects that the controller has to complete
    await apply('Registry', 'by-kubectl', { url: 'one.example', isPublic: true, type: 'oci' });
    await apply('EdgeNode', 'node-k', { archId: 1 });
    await apply('Application', 'app-k', { microservices: [entry('a', 'node-k', 6001), entry('b', 'node-k', 6002)] });
    await settled('what kubectl made has identities and statuses', async () => {
      const [registry, node, application] = await Promise.all([
        read('registries', 'by-kubectl'),
        read('edgenodes', 'node-k'),
        read('applications', 'app-k'),
      ]);
      return [
        registry.status?.id && registry.status?.observedGeneration === registry.metadata.generation,
        node.status?.uuid && node.metadata.finalizers?.length && node.status?.observedGeneration > 0,
        application.status?.id && application.status?.uuid && application.metadata.finalizers?.length,
        application.status?.observedGeneration === application.metadata.generation,
      ].every(Boolean);
    });
    await note();
    const first = await certificate();
    await stack.annotate('certificates', 'pump', { 'skerry.dev/renew': new Date(Date.now() + 1_000).toISOString() });
    await settled('the certificate is renewed', async () => (await wholeKey()) !== first && (await isWhole()));
    const renewed = await wholeKey();
    // REST
    const url = `two-${stack.namespace}.example`;
    // A draft of a replica that died is not a registry yet, and is removed by the controller.
    const registryOf = async () =>
      (await ours('registries')).filter((one: Any) => one.spec.url === url && numberOf(one) !== undefined);
    await rest(
      'POST',
      '/registries',
      { url, isPublic: false, username: 'u', email: 'e@x.example', password: 'p' },
      async () => {
        const [found] = await registryOf();
        const name = found?.spec.passwordSecretRef?.name;
        return name !== undefined && (await core('secrets')).some(({ metadata }: Any) => metadata.name === name);
      },
    );
    await note();
    await rest('POST', '/node', { name: 'node-r', archId: 1 }, isThere('edgenodes', 'node-r'));
    await rest(
      'POST',
      '/application',
      { name: 'app-r', microservices: [flat('web', 'node-r')] },
      isThere('applications', 'app-r'),
    );
    await note();
    await rest(
      'PATCH',
      '/application/app-r',
      { description: 'changed' },
      async () => (await read('applications', 'app-r'))?.spec.description === 'changed',
    );
    await provision();
    // Nothing but an order replaces a key.
    if ((await wholeKey()) !== renewed) wrongs.push('the certificate has another key without an order');
    await stack.remove('certificates', 'pump');
    await settled('the certificate is deleted', async () => (await read('certificates', 'pump')) === undefined);
    await stack.remove('certificateauthorities', 'plant');
    // deletions, over REST and with kubectl
    await rest('DELETE', '/application/app-k', undefined, isGone('applications', 'app-k'));
    await stack.remove('edgenodes', 'node-k');
    for (const id of (await registryOf()).map(numberOf))
      await rest('DELETE', `/registries/${id}`, undefined, async () =>
        (await registryOf()).every((one: Any) => numberOf(one) !== id || one.metadata.deletionTimestamp),
      );
    await stack.remove('registries', 'by-kubectl');
    await rest('POST', '/application', { name: 'app-late', microservices: [] }, isThere('applications', 'app-late'));
    await note();
    await settled('what was deleted is gone, and the rest is settled', async () => {
      const gone = await Promise.all(
        [
          ['applications', 'app-k'],
          ['edgenodes', 'node-k'],
          ['registries', 'by-kubectl'],
        ].map(async ([plural = '', name = '']) => (await read(plural, name)) === undefined),
      );
      const rest = (await Promise.all(['applications', 'edgenodes', 'registries'].map(ours))).flat();
      return (
        gone.every(Boolean) &&
        rest.every(
          ({ metadata, status }: Any) =>
            status?.observedGeneration === metadata.generation && !metadata.deletionTimestamp,
        )
      );
    });
    // A run may have fewer writes than the failpoint's number: the rest must not be interrupted.
    points.disarm();
    await settled('no Secret is left of what is gone', async () => {
      const secrets = await core('secrets');
      return secrets.every(({ metadata }: Any) => !/password|^pump$|^skerry-ca-/.test(metadata.name));
    });
  }

  /** An authority and a certificate; resolves with its key once both are whole. */
  async function certificate(): Promise<string | undefined> {
    await apply('CertificateAuthority', 'plant', { subject: 'Plant 3' });
    const ca = { type: 'direct', secretName: 'plant' };
    await apply('Certificate', 'pump', { subject: 'pump', hosts: 'pump.example', ca });
    await settled('the certificate is whole', isWhole);
    return wholeKey();
  }

  const pemOf = async (name: string): Promise<Record<string, string>> => {
    const { data = {} } = (await core('secrets')).find(({ metadata }: Any) => metadata.name === name) ?? {};
    return Object.fromEntries(
      Object.entries(data).map(([key, text]) => [key, Buffer.from(String(text), 'base64').toString()]),
    );
  };
  const wholeKey = async () => (await pemOf('pump'))['tls.key'];

  /** Whether the key, its certificate, the authority in `ca.crt` and the status are of one making. */
  async function isWhole(): Promise<boolean> {
    const [own, authority] = [await pemOf('pump'), await pemOf('skerry-ca-plant')];
    const [leaf, by] = [own, authority].map((one) =>
      readPair({ cert: one['tls.crt'] ?? '', key: one['tls.key'] ?? '' }),
    );
    if (!leaf || !by || 'problem' in leaf || 'problem' in by) return false;
    const status = (await read('certificates', 'pump'))?.status;
    const isTrusted = readCertificates(own['ca.crt'] ?? '').some(({ fingerprint }) => fingerprint === by.fingerprint);
    return isTrusted && isSignedBy(leaf, by) && status?.fingerprint === leaf.fingerprint;
  }

  /** Provisions an agent: requests a key and sends it with a public key. */
  async function provision() {
    const { metadata, status } = await read('edgenodes', 'node-r');
    const uuid = status?.uuid ?? metadata.labels['skerry.dev/uuid'];
    const { x } = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' });
    const keys = async () =>
      (await core('secrets')).filter(({ metadata }: Any) => metadata.labels?.['skerry.dev/provisioning-key'] === uuid);
    const nodeKey = async () =>
      (await core('secrets')).some(({ metadata }: Any) => metadata.name === `node-key-${uuid}`);
    let key: string | undefined;
    // A key whose response was lost cannot be used: another one is issued.
    while (key === undefined)
      key = (await rest('GET', `/node/${uuid}/provisioning-key`, undefined, async () => (await keys()).length > 0))
        ?.key;
    for (;;) {
      await up();
      const answer = await fetch(`${controller.url}/api/v3/agent/provision`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ key, type: 1, publicKey: { kty: 'OKP', crv: 'Ed25519', x } }),
      }).catch(() => undefined);
      if (answer?.ok) break;
      if (answer && answer.status !== 503) throw new Error(`provision: ${answer.status} ${await answer.text()}`);
      if (!answer) await daemon?.exited;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    if (!(await nodeKey())) wrongs.push('provisioning was answered, and the node has no key');
    await settled('one provisioning key is left', async () => (await keys()).length === 1);
  }

  async function told(): Promise<Told> {
    const kinds = await Promise.all(['applications', 'edgenodes', 'registries'].map(ours));
    // What the audit log may lose in a crash is another matter (docs/resources/events.md).
    const kept = (await core('secrets')).filter(({ metadata }: Any) => !metadata.labels?.[LABELS.auditLog]);
    const secrets = kept.map(({ metadata, data }: Any) => [
      metadata.name.replace(/[0-9a-f]{8}[0-9a-f-]{20,}|\d+/g, '#'),
      metadata.ownerReferences?.map(({ name }: Any) => name.replace(/\d+/g, '#')),
      Object.keys(data ?? {}).sort(),
    ]);
    return {
      writes: points.writes,
      ...(killedAt !== undefined && { killedAt }),
      ids,
      wrongs,
      state: {
        objects: kinds.flat().map(({ kind, metadata, spec, status }: Any) => ({
          kind,
          name: metadata.name.replace(/\d+/g, '#'),
          finalizers: metadata.finalizers?.toSorted(),
          labels: Object.keys(metadata.labels ?? {}).sort(),
          spec,
          identity: [status?.id && '#', status?.uuid && '#'],
          admitted: status?.conditions?.find(({ type }: Any) => type === 'Admitted')?.reason,
        })),
        secrets: secrets.toSorted((a: Any, b: Any) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)),
        configMaps: (await core('configmaps')).map(({ metadata }: Any) => metadata.name).sort(),
      },
    };
  }

  return { strike, run, told };
}
